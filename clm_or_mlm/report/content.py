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
"""The families as an argument: is masking needed, does CLM first help, also for models that exist, why, which ratio."""
_ON_THE_PAGE = {"answer", "claims"}
"""Figures that the page shows in its own way."""
_STYLE = 'font-family="DejaVu Sans, Verdana, sans-serif" font-size="7" stroke-linejoin="round" stroke-linecap="butt"'


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
        """The finding's."""
        return self.main.id


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """A row of a table of scores, each cell with its audit."""

    labels: tuple[str, ...]
    model: str
    cells: tuple[tuple[TableEntry, AuditedCell | None], ...]

    @property
    def compares(self) -> str:
        """`differs` when a cell does, else `same` when a cell has runs, else `none`."""
        agreements = {
            audited.agreement for _, audited in self.cells if audited is not None
        }
        if "differs" in agreements:
            return "differs"
        has_runs = any(cell.recomputed for cell, _ in self.cells)
        if has_runs or agreements - {None}:
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
        """Cells that differ from the published ones; None where no cell was compared."""
        audited = [
            cell
            for row in self.rows
            for _, cell in row.cells
            if cell is not None and cell.agreement
        ]
        return sum(cell.agreement == "differs" for cell in audited) if audited else None


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
        """The findings by the question that they are about, in the order of the argument."""
        by_question: dict[str, list[FindingEntry]] = {}
        for name in sorted(FAMILIES, key=_ARGUMENT.index):
            by_question[FAMILIES[name]] = [
                entry for entry in self.findings if entry.main.finding.family == name
            ]
        return by_question

    @property
    def strip(self) -> JudgedFinding:
        """What answers the question."""
        return next(entry.main for entry in self.findings if entry.id == ANSWER)

    @property
    def strip_rows(self) -> dict[str, list[tuple[str, Result]]]:
        """Its comparisons by task, each with its budget."""
        by_task: dict[str, list[tuple[str, Result]]] = {
            task.title: [] for task in TASKS.values()
        }
        for result in self.strip.comparisons:
            budget = result.label.rpartition(", ")[2].upper()
            by_task[TASKS[result.task].title].append((budget, result))
        return by_task

    @property
    def outcomes(self) -> dict[Outcome, list[FindingEntry]]:
        """The paper's findings by what the source says of them."""
        papers = [entry for entry in self.findings if entry.id != ANSWER]
        return {
            one: [entry for entry in papers if entry.main.outcome == one.name]
            for one in OUTCOMES.values()
        }


def gather(inputs: FigureInputs, figures: Iterable[DrawnFigure]) -> PageContent:
    """Compute everything the page shows.

    Args:
        inputs: where the scores come from, selection rule and interval; the published values of tables keep theirs.
        figures: those of the inputs (`paper_figures.save.draw_figures`), in the order of the page.
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
    """Return the tables of the page, from a source's scores."""
    scores = None
    if not source.is_published:
        scores = source.scores(settings)
    cells = {(cell.table, cell.model, cell.dataset): cell for cell in audited.cells}
    sections = []
    for number in models_of_tables():
        table = build_table(number, scores, source=source)
        sections.append(TableSection(table=table, rows=_rows(table, cells)))
    return tuple(sections)


def _rows(
    table: Table, audited: Mapping[tuple[int, str, str], AuditedCell]
) -> tuple[TableRow, ...]:
    """Return a table's rows, each cell with its audit, by table, model and dataset."""
    rows = []
    # Not strict, since Table 1 holds settings: it has labels, but no cells.
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
    with paper_style(), without_words(figure.drawing) as foot:
        # Text is kept as text, so that it can be searched and is small.
        mpl.rcParams["svg.fonttype"] = "none"
        # Without a date the same figure has the same bytes.
        figure.drawing.savefig(svg, format="svg", metadata={"Date": None})
    tips = []
    for row in csv.DictReader(io.StringIO(figure.csv)):
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
    """Return an SVG of matplotlib's as an element of a page with others.

    Args:
        svg: drawn with text as text.
        name: what makes its ids, and those of no other picture: `figure3-point-7`.
        tips: the tooltip of each mark, by the number in its id (`paper_figures.figure.point_id`).
        foot: points at its lower edge that the page leaves out.
    """
    width, height = map(float, re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)[0])
    # Without matplotlib's XML declaration and metadata, which a page has no use for.
    drawing = svg[svg.index('<g id="figure_1">') : svg.rindex("</svg>")]
    # Removed are styles that the whole picture has and rotations by 0, which change nothing.
    drawing = re.sub(
        r"font-family: 'DejaVu Sans'; |font-size: 7px; |transform=\"rotate\(-0 .*?\)\"",
        "",
        drawing,
    )
    drawing = re.sub(r">\s+<", "><", drawing)
    drawing = drawing.replace(" \n", " ").replace("\n", " ")
    used = set(re.findall(r'#([\w-]+)["\)]', drawing))

    def with_own_id(found: re.Match[str]) -> str:
        """Return an id with the name of this picture before it; nothing for an id that is not a mark's and not used."""
        if found[1] in used or found[1].startswith("point-"):
            return f' id="{name}-{found[1]}"'
        return ""

    def with_tooltip(found: re.Match[str]) -> str:
        """Return the opening tag of a mark with its tooltip behind it."""
        return f"{found[0]}<title>{escape(tips[int(found[1])])}</title>"

    # All pictures are in one document, in which an id must be unique.
    drawing = re.sub(r' id="([^"]+)"', with_own_id, drawing)
    drawing = re.sub(r'(?:xlink:)?href="#', f'href="#{name}-', drawing)
    drawing = drawing.replace("url(#", f"url(#{name}-")
    drawing = re.sub(rf'<g id="{name}-point-(\d+)">', with_tooltip, drawing)
    box = f"0 {_HEADING:g} {width:g} {height - foot - _HEADING:g}"
    return (
        f'<svg class="drawn" role="img" tabindex="0" aria-labelledby="h-{name}" data-name="{name}" viewBox="{box}" '
        f"{_STYLE}>{drawing}</svg>"
    )
