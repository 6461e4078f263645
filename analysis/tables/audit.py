"""The audit: every published cell against its recomputed value, the paper's own arithmetic, and how runs were made."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from math import isnan, nan
from typing import NamedTuple

from analysis.evidence.contrasts import Cell
from analysis.evidence.settings import Settings
from analysis.published_cells import published_cells
from analysis.records import records
from analysis.sources import RELEASED, Source
from analysis.tables.paper_arithmetic import (
    ArithmeticCheck,
    Reference,
    check_arithmetic,
)
from analysis.tables.run_provenance import Provenance, provenance_lines
from benchmarks.protocol import AVERAGE, DATASETS, LEARNING_RATES, SEEDS, datasets_of
from common.errors import UserError
from common.plain_text import first_of
from common.tables import TableDocument, markdown_table, signed

STATUSES = ("exact", "within interval", "differs", "incomplete", "no runs")
AUDIT_FORMATS = ("markdown", "json")
"""How the audit is printed."""

# The headings of two tables of the audit.
_SUMMARY = ("table", "cells", *STATUSES)
_CELLS = (
    "table",
    "model",
    "task",
    "dataset",
    "published",
    "recomputed",
    "difference",
    "runs",
    "status",
)

FULL_CELL = len(LEARNING_RATES) * len(SEEDS)
"""Runs of a model on a dataset in the paper's grid."""
_NAMED = 5
"""How many of a source's models that the paper does not have the verdict names."""
_HALF_DIGIT = 0.005 + 1e-9
"""Half of the last printed digit, with room for binary fractions."""


@dataclass(frozen=True, kw_only=True)
class AuditedCell:
    """One published cell and what the runs say."""

    table: int
    model: str
    task: str
    dataset: str
    status: str
    """One of five:

    `exact`: mean and interval agree to the printed digits;
    `within interval`: only the recomputed mean is in the published interval;
    `differs`: it is not, or the runs are the authors' own files and not exact;
    `incomplete: n of 30` (of 90 for an average): some runs are missing, whatever the others say;
    `no runs`."""
    agreement: str | None
    """`exact`, `within interval` or `differs` by the runs there are, even if some are missing; None without any."""
    published_mean: float
    published_ci95: float
    mean: float | None
    ci95: float | None
    n_seeds: int
    n_runs: int
    difference: float | None
    """Recomputed minus published mean, in points."""


class _Recomputed(NamedTuple):
    """A cell as a source's runs give it."""

    mean: float
    half: float
    """Half-width of its interval."""
    n_seeds: int


@dataclass(frozen=True, kw_only=True)
class Audit:
    """All published cells, all arithmetic checks, and where the runs come from."""

    source: str
    selection: str
    unsealed: int
    """How many runs could be changed without anyone noticing (`Source.unsealed`)."""
    others: tuple[str, ...]
    """Models that have runs but stand in no table of the paper, so that no printed number is compared with them."""
    cells: tuple[AuditedCell, ...]
    arithmetic: tuple[ArithmeticCheck, ...]

    @property
    def differs(self) -> bool:
        """Whether any cell's runs contradict what is printed."""
        return any(cell.agreement == "differs" for cell in self.cells)

    @property
    def distinct(self) -> tuple[AuditedCell, ...]:
        """The cells without repeats: the rows at 42K steps of Tables 10-17 repeat those of Tables 2-5."""
        first: dict[tuple[str, str, str], AuditedCell] = {}
        for cell in self.cells:
            first.setdefault((cell.model, cell.task, cell.dataset), cell)
        return tuple(first.values())

    @property
    def differing(self) -> list[AuditedCell]:
        """The distinct cells whose runs contradict what is printed, the largest difference first."""
        cells = [cell for cell in self.distinct if cell.agreement == "differs"]
        return sorted(cells, key=lambda cell: -abs(cell.difference or 0.0))

    @property
    def has_runs(self) -> bool:
        """Whether any cell has runs, so that it could be compared."""
        return any(cell.n_runs for cell in self.cells)

    @property
    def scores_in_words(self) -> str:
        """A sentence on how many cells the paper prints, and how many of them are repeats."""
        repeats = len(self.cells) - len(self.distinct)
        return (
            f"The paper prints {len(self.cells)} cells in Tables 2-17; {repeats} of them repeat a cell of Tables 2-5 "
            f"(the rows at 42K steps), which leaves {len(self.distinct)} scores."
        )

    def checks(self, against: Reference) -> list[ArithmeticCheck]:
        """Return the checks of statements that are compared with `against`, the most consequential first."""
        return [check for check in self.arithmetic if check.against is against]

    def summary(self) -> list[dict[str, object]]:
        """Return how many cells have each status: a row for each table, one for all tables, and one for distinct cells.

        The last row counts a score that several tables have only once. All incomplete cells are counted together,
        whatever their number of runs.
        """
        groups: dict[int | str, list[AuditedCell]] = {}
        for cell in sorted(self.cells, key=lambda cell: cell.table):
            groups.setdefault(cell.table, []).append(cell)
        groups["all"] = list(self.cells)
        groups["distinct"] = list(self.distinct)
        rows = []
        for table, cells in groups.items():
            row: dict[str, object] = {"table": table, "cells": len(cells)}
            counts: Counter[str] = Counter()
            incomplete_but_exact = 0
            for cell in cells:
                status, _, _ = cell.status.partition(":")  # "incomplete: 29 of 30"
                counts[status] += 1
                if status == "incomplete" and cell.agreement == "exact":
                    incomplete_but_exact += 1

            for status in STATUSES:
                row[status] = counts[status]
            row["incomplete_but_exact"] = incomplete_but_exact
            rows.append(row)

        return rows

    def as_dict(self) -> dict[str, object]:
        """Return the audit for JSON."""
        cells = [vars(cell) for cell in self.cells]
        arithmetic = [vars(check) for check in self.arithmetic]
        # By table, the rest of its row.
        summary = {}
        for row in self.summary():
            table = str(row.pop("table"))
            summary[table] = row

        return {
            "source": self.source,
            "selection": self.selection,
            "unsealed": self.unsealed,
            "others": list(self.others),
            "cells": cells,
            "arithmetic": arithmetic,
            "summary": summary,
        }


def audit(source: Source, *, selection: str = "seed") -> Audit:
    """Audit the paper's 800 cells and its arithmetic against a source.

    The interval that is compared is the paper's own (1.96 sd / sqrt(n)), since that is what is printed.

    Raises:
        UserError: the source's networks or metrics are not the paper's, or it cannot give the selection rule.
    """
    settings = source.with_interval(Settings(selection=selection, interval="paper"))
    if not source.comparable:
        kind = "metrics" if source.stand_ins is None else "networks"
        raise UserError(
            f"{source.label}: these scores come from {kind} other than the paper's, so they can neither confirm nor "
            "contradict its numbers"
        )

    # What the source has of each cell: scores, and runs of the paper's grid.
    recomputed = {} if source.runs is None else _recomputed(source, settings)
    run_counts = _runs_of_grid(source)
    published = published_cells()

    # Every printed cell beside the recomputed one.
    columns = ("table", "model", "task", "dataset", "mean", "ci95")
    cells = []
    for table, model, task, dataset, printed, ci95 in records(published, *columns):
        # An average is made of the runs of all its datasets.
        names = datasets_of(task) if dataset == AVERAGE else (dataset,)
        n_runs = sum(run_counts[model, name] for name in names)
        n_runs_of_grid = FULL_CELL * len(names)
        key = (model, task, dataset)
        mean, half, n_seeds = recomputed.get(key, _Recomputed(nan, nan, 0))

        # First what the runs that are there say, even if some are missing; without any, nothing.
        agreement = None
        if n_seeds:
            # If all of the authors' files are there, they either give what is printed or contradict it.
            must_be_exact = source.label == RELEASED and n_runs >= n_runs_of_grid
            agreement = _agreement(
                mean - printed, half - ci95, ci95, must_be_exact=must_be_exact
            )

        # Then what counts. If some runs are missing, another rate may seem the best, so that the mean
        # contradicts nothing.
        status = "no runs"
        # All runs of the grid give a score, so that `agreement` is not None then.
        if n_runs >= n_runs_of_grid and agreement:
            status = agreement
        elif n_runs:
            status = f"incomplete: {n_runs} of {n_runs_of_grid}"

        cell = AuditedCell(
            table=table,
            model=model,
            task=task,
            dataset=dataset,
            agreement=agreement,
            status=status,
            published_mean=printed,
            published_ci95=ci95,
            mean=_rounded(mean),
            ci95=_rounded(half),
            n_seeds=n_seeds,
            n_runs=n_runs,
            difference=_rounded(mean - printed),
        )
        cells.append(cell)

    # Models of the source that no printed cell is of.
    others: list[str] = []
    if source.runs is not None:
        known = set(published["model"])
        others = [name for name in source.runs["model"].unique() if name not in known]

    return Audit(
        source=source.long_label,
        selection=selection,
        unsealed=source.unsealed,
        others=tuple(others),
        cells=tuple(cells),
        arithmetic=tuple(check_arithmetic()),
    )


def _recomputed(source: Source, settings: Settings) -> dict[Cell, _Recomputed]:
    """Return the scores of a source's runs by cell."""
    recomputed = {}
    columns = ("model", "task", "dataset", "mean", "low", "high", "n_seeds")
    rows = records(source.scores(settings), *columns)
    for model, task, dataset, mean, low, high, n_seeds in rows:
        half = (high - low) / 2
        recomputed[model, task, dataset] = _Recomputed(mean, half, n_seeds)
    return recomputed


def _runs_of_grid(source: Source) -> Counter[tuple[str, str]]:
    """Return by model and dataset how many of the paper's 30 runs of it a source has."""
    counts: Counter[tuple[str, str]] = Counter()
    if source.runs is not None:
        runs = source.runs
        # A store may hold more seeds or rates than the paper's grid.
        is_in_grid = runs["lr"].isin(LEARNING_RATES) & runs["seed"].isin(SEEDS)
        counts.update(records(runs[is_in_grid], "model", "dataset"))
    return counts


def _agreement(
    mean_gap: float, ci95_gap: float, ci95: float, *, must_be_exact: bool
) -> str:
    """Return how a recomputed mean and half-width agree with the printed ones.

    Args:
        mean_gap: recomputed minus printed mean, in points.
        ci95_gap: recomputed minus printed half-width.
        ci95: the printed half-width.
        must_be_exact: whether numbers that are not exact differ, even if the mean is within the interval.
    """
    if abs(mean_gap) <= _HALF_DIGIT and abs(ci95_gap) <= _HALF_DIGIT:
        return "exact"
    is_near = abs(mean_gap) <= ci95 + _HALF_DIGIT
    return "within interval" if is_near and not must_be_exact else "differs"


def _rounded(value: float) -> float | None:
    """Return the value with six decimals; None for nan."""
    return None if isnan(value) else round(value, 6)


def audit_document(result: Audit, made: Provenance | None = None) -> TableDocument:
    """Return the audit as a document: the verdict, the checks of statements and, with runs, the cells.

    Args:
        result: the audit.
        made: how the runs of a store were made; None: it is not said.
    """
    lines = [
        f"# Audit of arXiv 2507.00994v4 (source: {result.source})",
        "",
        verdict(result),
    ]
    for title, rows in _sections(result):
        # The second line, the rule below the head, is written with blanks here.
        head, _, *body = markdown_table(rows)
        rule = "|" + " --- |" * len(rows[0])
        lines += ["", f"## {title}", "", head, rule, *body]

    data = result.as_dict()
    if made is not None:
        lines += ["", "## How its runs were made", ""]
        lines += ["```text", *provenance_lines(made), "```"]
        data["provenance"] = asdict(made)

    return TableDocument(body=lines, data=data)


def runs_of_stand_ins(source: Source, made: Provenance | None) -> TableDocument:
    """Return a document with the runs of a small study, and how they were made.

    The networks are smaller than the paper's, so that no score is compared.

    Args:
        source: a source with stand-ins.
        made: how the runs were made; None: it is not said.
    """
    assert source.stand_ins is not None
    runs = source.need_runs("the audit")
    # In a runs table, models of the study that stand for one of the paper's have that one's name; others keep theirs.
    name_of = {paper: name for name, paper in source.stand_ins.models.items()}
    lines = [
        source.kind.words,
        f"This source's numbers are not compared with the paper's. It has {len(runs)} runs:",
        "",
        _run_line("model", "stands for", "dataset", "runs"),
    ]
    counts = runs.groupby(["model", "dataset"], sort=False, observed=True).size()
    for (model, dataset), number in zip(counts.index, counts, strict=True):
        name, stands_for = model, "-"
        if model in name_of:
            name, stands_for = name_of[model], model
        lines.append(_run_line(name, stands_for, dataset, str(number)))

    lines.append("")
    if made is not None:
        lines += provenance_lines(made)
    return TableDocument(body=lines)


def _run_line(model: str, stands_for: str, dataset: str, runs: str) -> str:
    """Return a row of the table of a small study's runs."""
    return f"{model:32}{stands_for:32}{dataset:16}{runs:>6}"


def verdict(result: Audit) -> str:
    """Return the outcome in a few sentences."""
    counts = result.summary()[-1]  # of distinct cells
    failed = []
    for reference in Reference:
        checks = result.checks(reference)
        if checks:
            number = sum(check.status == "differs" for check in checks)
            failed.append(f"{number} of {len(checks)} against {reference.named}")

    statements = f"Statements in the paper that fail a check: {', '.join(failed)}."
    if result.others:
        statements += f" No table of the paper has {first_of(result.others, _NAMED)}."
    if not result.has_runs:
        what = "runs of the paper's models" if result.others else "runs"
        return f"This source has no {what}, so no cell can be recomputed. {statements}"

    listed = ", ".join(f"{counts[status]} {status}" for status in STATUSES)
    return f"{result.scores_in_words} Of these: {listed}. {statements}"


def _sections(result: Audit) -> list[tuple[str, list[list[str]]]]:
    """Return the title of each section and its table, whose first row is the head."""
    sections = []
    for reference in Reference:
        rows = [["stated", "value", "recomputed", "status", "note"]]
        for check in result.checks(reference):
            numbers = [check.stated, check.recomputed, check.status]
            rows.append([check.statement, *numbers, check.note])
        sections.append((reference.heading, rows))

    if not result.has_runs:
        return sections
    by_table = [list(_SUMMARY)]
    for row in result.summary():
        by_table.append([str(row[name]) for name in _SUMMARY])
    with_runs = [list(_CELLS)]
    for cell in result.cells:
        if cell.n_runs:
            with_runs.append(_cell_row(cell))

    sections.append(("Its cells by table", by_table))
    sections.append(("Its cells with runs", with_runs))
    return sections


def _cell_row(cell: AuditedCell) -> list[str]:
    """Return the row of a cell, under the names of `_CELLS`."""
    title = "Average"
    if cell.dataset != AVERAGE:
        title = DATASETS[cell.dataset].title
    published = f"{cell.published_mean:.2f} ± {cell.published_ci95:.2f}"
    recomputed = "-"
    if cell.mean is not None:
        recomputed = f"{cell.mean:.2f}"
    if cell.ci95 is not None:
        recomputed = f"{recomputed} ± {cell.ci95:.2f}"
    difference = ""
    if cell.difference is not None:
        difference = signed(cell.difference)
    status = cell.status
    # They differ for an incomplete cell: what its runs say so far stands in brackets.
    if cell.agreement not in (None, cell.status):
        status = f"{status} ({cell.agreement})"
    names = [str(cell.table), cell.model, cell.task, title]
    return [*names, published, recomputed, difference, str(cell.n_runs), status]
