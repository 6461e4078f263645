"""What the report shows, gathered from a source, and its figures as elements of a page."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape

import matplotlib as mpl

from analysis.claims.answer import Answer, answer
from analysis.claims.assessment import Assessment
from analysis.claims.catalogue import FAMILIES, SHOWN
from analysis.claims.judged import JudgedFinding
from analysis.claims.pages.dataset_sentences import dataset_sentences
from analysis.claims.titles import ANSWER
from analysis.claims.verdicts import OUTCOMES, Outcome
from analysis.evidence.contrasts import Result
from analysis.evidence.settings import Settings
from analysis.sources import PUBLISHED, Source
from analysis.tables.audit import Audit, AuditedCell, audit
from analysis.tables.build import Table, TableEntry, build_table, models_of_tables
from benchmarks.protocol import TASKS
from paper_figures.drawing.page import without_words
from paper_figures.drawing.style import paper_style
from paper_figures.figure import FIGURES, FigureInputs, file_stem
from paper_figures.save import DrawnFigure

_HEADING = 18.0
"""Points at the top of a picture where its heading stands, which the page writes itself."""
_ARGUMENT = (ANSWER, "objective", "two-stage", "continued", "dynamics", "ratio")
"""The families of findings (`FAMILIES`) in the order of the page, which is that of an argument: the answer, is masking
needed, does CLM first help, also for models that exist, why, which ratio."""
_ON_THE_PAGE = {"answer", "claims"}
"""Figures that the page shows in its own way, as marks in its text."""
_STYLE = 'font-family="DejaVu Sans, Verdana, sans-serif" font-size="7" stroke-linejoin="round" stroke-linecap="butt"'
"""What all parts of a picture have in common, so that they need not say it each."""


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A figure on the page."""

    name: str
    """File name without its ending."""
    title: str
    caption: str
    alt: str
    supplementary: bool
    drawn: str
    """An SVG element for the page, without heading and caption."""


@dataclass(frozen=True, kw_only=True)
class FindingEntry:
    """A finding on the page."""

    main: JudgedFinding
    datasets: tuple[str, ...]
    """Sentences about single datasets."""

    @property
    def id(self) -> str:
        """The finding's name, such as `F8`."""
        return self.main.id


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """A row of a table of scores, each cell with its audit."""

    labels: tuple[str, ...]
    model: str
    cells: tuple[tuple[TableEntry, AuditedCell | None], ...]
    """Each cell, and how the runs compare with the published cell; None where the paper has no such cell."""

    @property
    def compares(self) -> str:
        """`differs` when a cell differs from the published one, else `same` when a cell has runs, else `none`."""
        agreements = [
            audited.agreement for _, audited in self.cells if audited is not None
        ]
        if "differs" in agreements:
            return "differs"
        # Scores of other networks or metrics are not compared; that they are there still tells that a cell has runs.
        # The audit is made apart from the table: either of them is enough.
        has_runs = any(cell.recomputed for cell, _ in self.cells)
        has_agreement = any(agreements)  # None for a cell that was not compared
        if has_runs or has_agreement:
            return "same"
        return "none"


@dataclass(frozen=True, kw_only=True)
class TableSection:
    """A table on the page."""

    table: Table
    rows: tuple[TableRow, ...]
    """Rows of scores; empty for Table 1, which holds settings."""

    @property
    def differing(self) -> int | None:
        """How many cells differ from the published ones; None where no cell was compared."""
        agreements = []
        for row in self.rows:
            for _, audited in row.cells:
                if audited is not None and audited.agreement:
                    agreements.append(audited.agreement)
        return agreements.count("differs") if agreements else None


@dataclass(frozen=True, kw_only=True)
class PageContent:
    """Everything on the page."""

    source: Source
    settings: Settings
    answer: Answer
    findings: tuple[FindingEntry, ...]
    tests: tuple[str, str, str]
    """`Assessment.tests`: the test, what it is about, multiplicity."""
    pictures: tuple[Picture, ...]
    missing_pictures: tuple[str, ...]
    tables: tuple[TableSection, ...]
    audit: Audit

    @property
    def families(self) -> dict[str, list[FindingEntry]]:
        """The findings by the question that they are about, in the order of `_ARGUMENT`."""
        by_question: dict[str, list[FindingEntry]] = {}
        for name in sorted(FAMILIES, key=_ARGUMENT.index):
            by_question[FAMILIES[name]] = [
                entry for entry in self.findings if entry.main.finding.family == name
            ]
        return by_question

    @property
    def strip(self) -> JudgedFinding:
        """The finding that answers the paper's question; the strip at the top of the page shows its comparisons."""
        [answering] = [entry.main for entry in self.findings if entry.id == ANSWER]
        return answering

    @property
    def strip_rows(self) -> dict[str, list[tuple[str, Result]]]:
        """The strip's comparisons by the title of their task, each after its budget: `12K`."""
        by_task: dict[str, list[tuple[str, Result]]] = {
            task.title: [] for task in TASKS.values()
        }
        for result in self.strip.comparisons:
            # A label ends in its budget: "25 % CLM - MLM alone on SC, 12k".
            _, _, budget = result.label.rpartition(", ")
            title = TASKS[result.task].title
            by_task[title].append((budget.upper(), result))
        return by_task

    @property
    def outcomes(self) -> dict[Outcome, list[FindingEntry]]:
        """The paper's findings by what the source says of them; the answer is ours, and not among them."""
        papers = [entry for entry in self.findings if entry.id != ANSWER]
        by_outcome = {}
        for outcome in OUTCOMES.values():
            by_outcome[outcome] = [
                entry for entry in papers if entry.main.outcome == outcome.name
            ]
        return by_outcome


def gather(inputs: FigureInputs, figures: Iterable[DrawnFigure]) -> PageContent:
    """Compute everything the page shows.

    Args:
        inputs: where the scores come from, selection rule and interval. Rule and interval are about scores
            that are computed from the source; the published values in tables stay as they are printed.
        figures: the figures of the inputs (`paper_figures.save.draw_figures`), in the order of the page.
    """
    source, settings, assessment = inputs.source, inputs.settings, inputs.assessment
    # Scores of other networks or metrics are not compared with the paper's: the audit has only the published cells.
    audited = audit(PUBLISHED)
    if source.comparable:
        audited = audit(source, selection=settings.selection)
    pictures = {}
    for figure in figures:
        if figure.spec.name not in _ON_THE_PAGE:
            pictures[file_stem(figure.spec.name)] = _picture(figure)

    # Only the paper's own figures are named as missing on the page, not supplementary ones.
    papers = [name for name, spec in FIGURES.items() if not spec.supplementary]
    stems = [file_stem(name) for name in papers]
    return PageContent(
        source=source,
        settings=settings,
        answer=answer(assessment),
        findings=tuple(_entry(name, assessment) for name in SHOWN),
        tests=assessment.tests,
        pictures=tuple(pictures.values()),
        missing_pictures=tuple(stem for stem in stems if stem not in pictures),
        tables=_sections(source, settings, audited),
        audit=audited,
    )


def _entry(name: str, assessment: Assessment) -> FindingEntry:
    """Return a finding's entry."""
    return FindingEntry(
        main=assessment.judged[name],
        datasets=tuple(dataset_sentences(assessment, name)),
    )


def _sections(
    source: Source, settings: Settings, audited: Audit
) -> tuple[TableSection, ...]:
    """Return the tables of the page, from a source's scores and their audit."""
    # The published values are in every table; only another source has scores to stand beside them.
    scores = None
    if not source.is_published:
        scores = source.scores(settings)
    cells = {(cell.table, cell.model, cell.dataset): cell for cell in audited.cells}
    sections = []
    # The keys are the tables' numbers; here the models of a table are not needed.
    for number in models_of_tables():
        table = build_table(number, scores, source=source)
        sections.append(TableSection(table=table, rows=_rows(table, cells)))
    return tuple(sections)


def _rows(
    table: Table, audited: Mapping[tuple[int, str, str], AuditedCell]
) -> tuple[TableRow, ...]:
    """Return a table's rows, each cell with its audit.

    Args:
        table: a table of scores; of Table 1, which holds settings, no row is returned.
        audited: the audit of each published cell by table, model and dataset.
    """
    rows = []
    # Not strict: Table 1 has labels, but no models and no cells.
    for labels, model, cells in zip(
        table.labels, table.models, table.cells, strict=False
    ):
        with_audit = []
        for cell in cells:
            key = (table.number, cell.model, cell.dataset)
            with_audit.append((cell, audited.get(key)))
        rows.append(TableRow(labels=labels, model=model, cells=tuple(with_audit)))
    return tuple(rows)


def _picture(figure: DrawnFigure) -> Picture:
    """Return a figure for the page: its marks have the rows of its CSV as tooltips."""
    svg = io.StringIO()
    name = file_stem(figure.spec.name)
    # `foot`: the height, in points, of the caption that is hidden here, since the page writes it itself.
    with paper_style(), without_words(figure.drawing) as foot:
        # Text is kept as text, so that it can be searched and is small. `paper_style` gives the setting back.
        mpl.rcParams["svg.fonttype"] = "none"
        # Without a date the same figure has the same bytes.
        figure.drawing.savefig(svg, format="svg", metadata={"Date": None})

    tips = []
    for row in csv.DictReader(io.StringIO(figure.csv)):
        # A column that is empty in this row is left out.
        filled = [f"{column}: {value}" for column, value in row.items() if value]
        tips.append("\n".join(filled))

    return Picture(
        name=name,
        title=figure.title,
        caption=figure.caption,
        alt=figure.alt,
        supplementary=figure.spec.supplementary,
        drawn=inlined(svg.getvalue(), name, tips, foot),
    )


def inlined(svg: str, name: str, tips: list[str], foot: float) -> str:
    """Return a picture that matplotlib wrote as SVG, as an element of a page that has other pictures as well.

    Args:
        svg: the whole SVG file, with its text as text, not as curves.
        name: begins each id of this picture, and the ids of no other picture: `figure3-point-7`.
        tips: the tooltip of each mark, by the number in the mark's id (`paper_figures.figure.point_id`).
        foot: height at the picture's lower edge that the page leaves out, in points.
    """
    # Such as viewBox="0 0 518.4 244.8": matplotlib's unit is the point. The first one is that of the whole
    # picture.
    sizes = re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    width, height = map(float, sizes[0])
    # matplotlib's XML declaration and metadata, which a page has no use for, stand before this first group.
    drawing = svg[svg.index('<g id="figure_1">') : svg.rindex("</svg>")]

    # Fewer bytes for the same picture. Removed are styles that the whole picture has and rotations by 0,
    # which change nothing.
    drawing = re.sub(
        r"font-family: 'DejaVu Sans'; |font-size: 7px; |transform=\"rotate\(-0 .*?\)\"",
        "",
        drawing,
    )

    # Line breaks and indents between elements change nothing either; those within a path become one space.
    drawing = re.sub(r">\s+<", "><", drawing)
    drawing = drawing.replace(" \n", " ").replace("\n", " ")

    # Ids and references. An element refers to another one's id as href="#m8" or url(#p1).
    used_ids = set(re.findall(r'#([\w-]+)["\)]', drawing))

    def with_own_id(attribute: re.Match[str]) -> str:
        """Return an id with the name of this picture before it; nothing for an id that is not a mark's and not used."""
        identifier = attribute[1]
        if identifier in used_ids or identifier.startswith("point-"):
            return f' id="{name}-{identifier}"'
        return ""

    def with_tooltip(mark: re.Match[str]) -> str:
        """Return the opening tag of a mark with its tooltip behind it."""
        opening_tag, number = mark[0], int(mark[1])
        return f"{opening_tag}<title>{escape(tips[number])}</title>"

    # All pictures are in one document, in which an id must be unique: ids and all references to them get the name.
    drawing = re.sub(r' id="([^"]+)"', with_own_id, drawing)
    # HTML needs no `xlink:` before `href`.
    drawing = re.sub(r'(?:xlink:)?href="#', f'href="#{name}-', drawing)
    drawing = drawing.replace("url(#", f"url(#{name}-")
    drawing = re.sub(rf'<g id="{name}-point-(\d+)">', with_tooltip, drawing)

    # The part of the picture that is shown, between heading and caption: left, top, width and height.
    box = f"0 {_HEADING:g} {width:g} {height - foot - _HEADING:g}"
    return (
        f'<svg class="drawn" role="img" tabindex="0" aria-labelledby="h-{name}" data-name="{name}" viewBox="{box}" '
        f"{_STYLE}>{drawing}</svg>"
    )
