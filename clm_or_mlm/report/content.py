"""What the report shows, gathered from a source; nothing here knows HTML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from analysis.claims.answer import Answer, answer
from analysis.claims.assessment import Assessment
from analysis.claims.catalogue import CLAIMS, FAMILIES
from analysis.claims.grades import Grade
from analysis.claims.pages.by_dataset import dataset_sentences, datasets_document
from analysis.claims.pages.documents import verdicts_document
from analysis.claims.pages.explain import explanations
from analysis.claims.verdicts import Verdict
from analysis.claims.wording import format_effect, says, sentence
from analysis.evidence.evidence import Settings
from analysis.export import FORMATS as EXCHANGED
from analysis.export import zipped
from analysis.letter.letter import Letter, letter_document, write_letter
from analysis.sources import PUBLISHED, Source
from analysis.tables.audit import Audit, AuditedCell, audit
from analysis.tables.build import Cell, Table, build_table, table_numbers
from analysis.tables.render import table_document
from benchmarks.protocol import AVERAGE, DATASETS
from clm_or_mlm.report.downloads import Download
from clm_or_mlm.report.links import compared, figures_of, tables_of
from clm_or_mlm.report.pictures import Picture, draw_pictures
from common.tables import FORMATS, show
from paper_figures.figure import FIGURES, Inputs, file_stem

__all__ = ["Comparison", "Content", "FindingEntry", "TableEntry", "TableRow", "gather", "table_rows"]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A comparison that a finding rests on."""

    role: str
    """`Typical`, `Most adverse` or empty."""
    label: str
    effect: str
    """With its interval."""
    says: str
    """`holds`, `fails` or `open`, on its own."""


@dataclass(frozen=True, kw_only=True)
class FindingEntry:
    """A finding on the page."""

    verdict: Verdict
    sentence: str
    datasets: tuple[str, ...]
    """What is seen by dataset, in sentences."""
    comparisons: tuple[Comparison, ...]
    """Those that the source knows: their mean in the claimed direction, then each."""
    unknown: tuple[str, ...]
    """Those that the source lacks."""
    by_dataset: Picture | None
    """Each comparison on each dataset."""
    explanation: str
    """Every number behind it."""
    figures: tuple[Picture, ...]
    """Of those that the page has."""
    tables: tuple[int, ...]
    """Those with rows that enter it."""

    @property
    def id(self) -> str:
        """The claim's."""
        return self.verdict.claim.id

    @property
    def grade(self) -> Grade:
        """What the claim is worth."""
        return self.verdict.grade


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """A row of a table, how its cells compare, and the claims that it enters."""

    labels: tuple[str, ...]
    model: str
    cells: tuple[tuple[Cell, AuditedCell | None], ...]
    claims: tuple[str, ...] = ()

    @property
    def compares(self) -> str:
        """`differs` when a cell does, else `same` when a cell has runs, else `none`."""
        agreements = {audited.agreement for _, audited in self.cells if audited is not None}
        if "differs" in agreements:
            return "differs"
        return "same" if agreements - {None} or any(cell.recomputed for cell, _ in self.cells) else "none"


@dataclass(frozen=True, kw_only=True)
class TableEntry:
    """A table on the page."""

    table: Table
    rows: tuple[TableRow, ...]
    """None for Table 1, which holds settings."""
    files: tuple[Download, ...]

    @property
    def differing(self) -> int | None:
        """Cells that differ from the published ones; None where no cell was compared."""
        audited = [cell for row in self.rows for _, cell in row.cells if cell is not None and cell.agreement]
        return sum(cell.agreement == "differs" for cell in audited) if audited else None


@dataclass(frozen=True, kw_only=True)
class Content:
    """Everything on the page."""

    source: Source
    settings: Settings
    answer: Answer
    findings: tuple[FindingEntry, ...]
    findings_files: tuple[Download, ...]
    tests: tuple[str, str, str]
    """`Assessment.tests`: the test, what it is about, multiplicity."""
    overview: Picture | None
    """All findings."""
    pictures: tuple[Picture, ...]
    missing_pictures: tuple[str, ...]
    tables: tuple[TableEntry, ...]
    letter: Letter
    letter_files: tuple[Download, ...]
    exchange_files: tuple[Download, ...]
    """The scores in each format that the field exchanges; none of a small study's."""
    audit: Audit
    coverage: pd.DataFrame
    n_runs: int
    n_models: int

    @property
    def families(self) -> dict[str, list[FindingEntry]]:
        """The findings by the question that they are about."""
        return {
            title: [entry for entry in self.findings if entry.verdict.claim.family == name]
            for name, title in FAMILIES.items()
        }


def gather(inputs: Inputs, figures: Iterable[str] = tuple(FIGURES)) -> Content:
    """Compute everything the page shows.

    Args:
        inputs: where the scores come from, selection rule and interval; the published values of tables keep theirs.
        figures: those to draw, as far as the inputs allow them.
    """
    source, settings, assessment = inputs.source, inputs.settings, inputs.assessment
    inputs.verdicts.update({verdict.claim.id: verdict for verdict in assessment.verdicts})
    pictures = draw_pictures(inputs, figures)
    # Of other networks or metrics than the paper's the audit is of the published cells among themselves.
    audited = audit(source, selection=settings.selection) if source.comparable else audit(PUBLISHED)
    scores = None if source.is_published else source.scores(settings)
    letter = (
        write_letter(source, settings, assessment)
        if source.comparable
        else write_letter(PUBLISHED, PUBLISHED.with_interval(Settings()))
    )
    tables = [build_table(number, scores, source=source) for number in table_numbers()]
    tasks = {table.number: task for table in tables if (task := _task_of(table)) is not None}
    linked = {name: tables_of(claim, tasks) for name, claim in CLAIMS.items()}
    verdicts = assessment.verdicts
    documents = (
        ("claims.csv", "CSV", verdicts_document(assessment, verdicts)),
        ("comparisons.csv", "CSV of every comparison", verdicts_document(assessment, verdicts, explain=True)),
        ("comparisons-by-dataset.csv", "CSV by dataset", datasets_document(assessment, verdicts)),
    )
    findings = tuple(_finding(verdict, assessment, pictures, linked) for verdict in assessment.verdicts)
    forests = {entry.by_dataset.name for entry in findings if entry.by_dataset is not None}
    return Content(
        source=source,
        settings=settings,
        answer=answer(assessment),
        findings=findings,
        findings_files=tuple(
            Download(name=name, label=label, content=show(document, "csv"))
            for name, label, document in documents
        ),
        tests=assessment.tests,
        overview=pictures.get("claims"),
        pictures=tuple(one for name, one in pictures.items() if name not in {"claims", *forests}),
        missing_pictures=tuple(
            figure.stem
            for figure in FIGURES.values()
            if not figure.supplementary and figure.stem not in pictures
        ),
        tables=_tables(tables, audited, linked),
        letter=letter,
        letter_files=(
            Download(name="letter.md", label="Markdown", content=show(letter_document(letter), "markdown")),
        ),
        exchange_files=tuple(
            Download(name=f"{one.name}.zip", label=one.title, content=zipped(one.write(source, settings)))
            for one in EXCHANGED.values()
            if source.stand_ins is None and (one.name != "croissant" or not source.is_published)
        ),
        audit=audited,
        coverage=inputs.coverage,
        n_runs=0 if source.runs is None else len(source.runs),
        n_models=0 if source.runs is None else source.runs["model"].nunique(),
    )


def _finding(
    verdict: Verdict,
    assessment: Assessment,
    pictures: Mapping[str, Picture],
    linked: Mapping[str, tuple[int, ...]],
) -> FindingEntry:
    claim = verdict.claim
    findings = [
        *([verdict.typical] if verdict.typical is not None else []),
        *dict.fromkeys(verdict.tree.findings),
    ]
    names = [file_stem(str(number)) for number in figures_of(claim)]
    return FindingEntry(
        verdict=verdict,
        sentence=sentence(verdict),
        datasets=tuple(dataset_sentences(assessment.datasets[verdict.claim.id])),
        comparisons=tuple(
            Comparison(
                role="Typical"
                if one is verdict.typical
                else "Most adverse"
                if one is verdict.decisive
                else "",
                label=one.comparison.label,
                effect=f"{format_effect(one)} {one.comparison.unit}".replace("-", "\u2212"),
                says=says(one),
            )
            for one in findings
            if one.known
        ),
        unknown=tuple(one.comparison.label for one in findings if not one.known),
        by_dataset=pictures.get(f"forest-{claim.id.lower()}"),
        explanation=explanations(assessment, [verdict]),
        figures=tuple(pictures[name] for name in names if name in pictures),
        tables=linked[claim.id],
    )


def _tables(
    tables: Sequence[Table], audited: Audit, linked: dict[str, tuple[int, ...]]
) -> tuple[TableEntry, ...]:
    cells = {(cell.table, cell.model, cell.dataset): cell for cell in audited.cells}
    entries = []
    for table in tables:
        files = tuple(
            Download(
                name=f"table{table.number:02d}.{FORMATS[form].ending}",
                label=label,
                content=show(table_document(table), form),
            )
            for form, label in (("csv", "CSV"), ("latex", "LaTeX"))
        )
        models = {
            name: {model for model, _ in compared(CLAIMS[name])}
            for name, numbers in linked.items()
            if table.number in numbers
        }
        entries.append(TableEntry(table=table, rows=table_rows(table, cells, models), files=files))
    return tuple(entries)


def _task_of(table: Table) -> str | None:
    """Return the task of a table's scores; None for Table 1, which holds settings."""
    datasets = {cell.dataset for cells in table.cells for cell in cells} - {AVERAGE}
    return DATASETS[min(datasets)].task if datasets else None


def table_rows(
    table: Table, audited: dict[tuple[int, str, str], AuditedCell], claims: dict[str, set[str]]
) -> tuple[TableRow, ...]:
    """Return the rows of a table with their audited cells, and the claims (id: its models) that compare the model.

    None for Table 1, which holds settings.
    """
    return tuple(
        TableRow(
            labels=labels,
            model=model,
            cells=tuple((cell, audited.get((table.number, cell.model, cell.dataset))) for cell in cells),
            claims=tuple(name for name, models in claims.items() if model in models),
        )
        for labels, model, cells in zip(table.labels, table.models, table.cells, strict=False)
    )
