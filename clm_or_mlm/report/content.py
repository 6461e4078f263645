"""What the report shows, gathered from a source and from a folder of figures; nothing here knows HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis.claims.answer import Answer, answer
from analysis.claims.assessment import Assessment, assess
from analysis.claims.catalogue import CLAIMS, FAMILIES
from analysis.claims.grades import Grade
from analysis.claims.pages.by_dataset import dataset_sentences, datasets_document
from analysis.claims.pages.documents import verdicts_document
from analysis.claims.pages.explain import explanations
from analysis.claims.verdicts import Verdict
from analysis.claims.wording import sentence
from analysis.letter.content import Letter, write_letter
from analysis.letter.pages import letter_document
from analysis.precision.coverage import COVERAGE_RESAMPLES, COVERAGE_TRIALS, simulate
from analysis.sources import PUBLISHED, Source
from analysis.statistics.scores_table import Settings
from analysis.tables.audit import Audit, AuditedCell, audit
from analysis.tables.build import Cell, Table, build_table, table_numbers
from analysis.tables.render import table_document
from benchmarks.protocol import AVERAGE, DATASETS
from clm_or_mlm.report.downloads import Download
from clm_or_mlm.report.forests import Forest, by_dataset_forest, claim_forest, overview
from clm_or_mlm.report.links import compared, figures_of, tables_of
from clm_or_mlm.report.pictures import Picture, pictures_in
from common.tables import FORMATS, show
from paper_figures.registry import FIGURES

__all__ = ["Content", "FindingEntry", "TableEntry", "TableRow", "gather", "table_rows"]


@dataclass(frozen=True, kw_only=True)
class FindingEntry:
    """A finding on the page."""

    verdict: Verdict
    sentence: str
    datasets: tuple[str, ...]
    """What is seen by dataset, in sentences."""
    overview: Forest | None
    """Typical and most adverse effect on the axis of all findings."""
    forest: Forest | None
    by_dataset: Forest | None
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
    pictures: tuple[Picture, ...]
    missing_pictures: tuple[str, ...]
    tables: tuple[TableEntry, ...]
    letter: Letter
    letter_files: tuple[Download, ...]
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


def gather(source: Source, figures: Path, settings: Settings) -> Content:
    """Compute everything the page shows.

    Args:
        source: where the scores come from.
        figures: folder that `python -m paper_figures` filled from the same source.
        settings: selection rule and interval; the published values of tables keep theirs.
    """
    settings = source.settled(settings)
    # Of other networks or metrics than the paper's the audit is of the published cells among themselves.
    audited = audit(source, selection=settings.selection) if source.comparable else audit(PUBLISHED)
    scores = None if source.is_published else source.scores(settings)
    # Every figure shows task averages: a source of single datasets allows none, and has a page all the same.
    averages = scores is None or bool((scores["dataset"] == AVERAGE).any())
    pictures = pictures_in(figures, source, settings, required=averages)
    assessment = assess(source, settings)
    letter = (
        write_letter(source, settings, assessment)
        if source.comparable
        else write_letter(PUBLISHED, PUBLISHED.settled(Settings()))
    )
    there = {picture.name for picture in pictures}
    tables = [build_table(number, scores, source=source) for number in table_numbers()]
    tasks = {table.number: task for table in tables if (task := _task_of(table)) is not None}
    linked = {name: tables_of(claim, tasks) for name, claim in CLAIMS.items()}
    return Content(
        source=source,
        settings=settings,
        answer=answer(assessment.verdicts, stand_ins=source.stand_ins is not None),
        findings=_findings(assessment, pictures, linked),
        findings_files=(
            Download(
                name="claims.csv",
                label="CSV",
                content=show(verdicts_document(assessment, assessment.verdicts), "csv"),
            ),
            Download(
                name="comparisons.csv",
                label="CSV of every comparison",
                content=show(verdicts_document(assessment, assessment.verdicts, explain=True), "csv"),
            ),
            Download(
                name="comparisons-by-dataset.csv",
                label="CSV by dataset",
                content=show(datasets_document(assessment, assessment.verdicts), "csv"),
            ),
        ),
        tests=assessment.tests,
        pictures=pictures,
        missing_pictures=tuple(
            figure.stem
            for figure in FIGURES.values()
            if not figure.supplementary and figure.stem not in there
        ),
        tables=_tables(tables, audited, linked),
        letter=letter,
        letter_files=(
            Download(name="letter.md", label="Markdown", content=show(letter_document(letter), "markdown")),
        ),
        audit=audited,
        coverage=simulate(
            source,
            trials=COVERAGE_TRIALS,
            resamples=COVERAGE_RESAMPLES,
            seed=settings.seed,
            selection=settings.selection,
        ),
        n_runs=0 if source.runs is None else len(source.runs),
        n_models=0 if source.runs is None else source.runs["model"].nunique(),
    )


def _findings(
    assessment: Assessment, pictures: tuple[Picture, ...], linked: dict[str, tuple[int, ...]]
) -> tuple[FindingEntry, ...]:
    by_name = {picture.name: picture for picture in pictures}
    places = overview(assessment.verdicts)
    entries = []
    for verdict in assessment.verdicts:
        claim = verdict.claim
        reading = assessment.datasets.get(claim.id)
        entries.append(
            FindingEntry(
                verdict=verdict,
                sentence=sentence(verdict),
                datasets=tuple(dataset_sentences(assessment, verdict)),
                overview=places.get(claim.id),
                forest=claim_forest(verdict),
                by_dataset=None if reading is None else by_dataset_forest(reading),
                explanation=explanations(assessment, [verdict]),
                figures=tuple(by_name[f"figure{n}"] for n in figures_of(claim) if f"figure{n}" in by_name),
                tables=linked[claim.id],
            )
        )
    return tuple(entries)


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
