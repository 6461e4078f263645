"""The audit: every published cell against its recomputed value, and the paper's own arithmetic."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd

from analysis.published_cells import published_cells
from analysis.records import records
from analysis.sources import Source
from analysis.statistics.scores_table import Settings
from analysis.tables.paper_arithmetic import Check, check_arithmetic
from benchmarks.protocol import AVERAGE, LEARNING_RATES, SEEDS, datasets_of
from common.errors import UserError

__all__ = ["Audit", "AuditedCell", "audit"]

FULL_CELL = len(LEARNING_RATES) * len(SEEDS)
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
    """`exact`: mean and interval agree to the printed digits; `within interval`: the recomputed mean is in the
    published interval; `differs`; `no runs`; `incomplete: n of 30` (90 for an average): some runs are missing,
    whatever the rest say."""
    agreement: str | None
    """`exact`, `within interval` or `differs` for the runs there are, also when some are missing; None without."""
    published_mean: float
    published_ci95: float
    mean: float | None
    ci95: float | None
    n_seeds: int
    n_runs: int
    difference: float | None
    """Recomputed minus published mean, in points."""


class _Value(NamedTuple):
    """A cell's value, printed or recomputed."""

    mean: float
    ci95: float
    n_seeds: int = 0


@dataclass(frozen=True, kw_only=True)
class Audit:
    """All published cells, all arithmetic checks, and where the runs come from."""

    source: str
    selection: str
    cells: tuple[AuditedCell, ...]
    arithmetic: tuple[Check, ...]

    @property
    def differs(self) -> bool:
        """Whether any cell's runs contradict what is printed."""
        return any(cell.agreement == "differs" for cell in self.cells)

    @property
    def distinct(self) -> tuple[AuditedCell, ...]:
        """The cells without the repeats: the 42K rows of Tables 10-17 are those of Tables 2-5."""
        return tuple({(cell.model, cell.task, cell.dataset): cell for cell in reversed(self.cells)}.values())[
            ::-1
        ]

    @property
    def has_runs(self) -> bool:
        """Whether any cell could be compared."""
        return any(cell.n_runs for cell in self.cells)

    def summary(self) -> list[dict[str, object]]:
        """Return counts of each status, `incomplete` without its number: by table, for all, and for distinct cells.

        The last row counts a score that several tables repeat once.
        """
        rows: list[dict[str, object]] = []
        tables = sorted({cell.table for cell in self.cells})
        groups = [(table, [cell for cell in self.cells if cell.table == table]) for table in tables]
        for table, held in [*groups, ("all", list(self.cells)), ("distinct", list(self.distinct))]:
            counts = Counter(cell.status.split(":")[0] for cell in held)
            agreeing = Counter(cell.agreement for cell in held if cell.status.startswith("incomplete"))
            rows.append(
                {"table": table, "cells": len(held)}
                | {status: counts[status] for status in STATUSES}
                | {"incomplete_but_exact": agreeing["exact"]}
            )
        return rows

    def as_dict(self) -> dict[str, object]:
        """Return the audit for JSON."""
        return {
            "source": self.source,
            "selection": self.selection,
            "cells": [vars(cell) for cell in self.cells],
            "arithmetic": [vars(check) for check in self.arithmetic],
            "summary": {str(row.pop("table")): row for row in self.summary()},
        }


STATUSES = ("exact", "within interval", "differs", "incomplete", "no runs")


def audit(source: Source, *, selection: str = "seed") -> Audit:
    """Audit the paper's 800 cells and its arithmetic against a source.

    The interval that is compared is the paper's own (1.96 sd / sqrt(n)), since that is what is printed.

    Raises:
        UserError: the source's networks or metrics are not the paper's, or it cannot give the selection rule.
    """
    source.need_selection(selection)
    if not source.comparable:
        raise UserError(
            f"{source.label}: {source.title.lower()} scores are of other networks or metrics than the paper's "
            "numbers, which they can neither confirm nor contradict"
        )
    recomputed: dict[tuple[str, str, str], _Value] = {}
    counts: dict[tuple[str, str], int] = {}
    if source.runs is not None:
        scores = source.scores(Settings(selection=selection, interval="paper"))
        recomputed = {
            (model, task, dataset): _Value(mean, (high - low) / 2, n_seeds)
            for model, task, dataset, mean, low, high, n_seeds in records(
                scores, "model", "task", "dataset", "mean", "low", "high", "n_seeds"
            )
        }
        counts = _run_counts(source.runs)
    columns = ("table", "model", "task", "dataset", "mean", "ci95")
    audited = [
        _audit_cell(table, key := (model, task, dataset), _Value(mean, ci95), recomputed.get(key), counts)
        for table, model, task, dataset, mean, ci95 in records(published_cells(), *columns)
    ]
    return Audit(
        source=source.label,
        selection=selection,
        cells=tuple(audited),
        arithmetic=tuple(check_arithmetic()),
    )


def _run_counts(runs: pd.DataFrame) -> dict[tuple[str, str], int]:
    """Return how many runs of the paper's grid (6 rates, 5 seeds) each (model, dataset) has."""
    grid = runs[runs["lr"].isin(LEARNING_RATES) & runs["seed"].isin(SEEDS)]
    return dict(Counter(records(grid, "model", "dataset")))


def _audit_cell(
    table: int,
    key: tuple[str, str, str],
    printed: _Value,
    value: _Value | None,
    counts: dict[tuple[str, str], int],
) -> AuditedCell:
    model, task, dataset = key
    names = datasets_of(task) if dataset == AVERAGE else (dataset,)
    n_runs = sum(counts.get((model, name), 0) for name in names)
    full = FULL_CELL * len(names)
    agreement = None if value is None else _agreement(printed, value)
    if n_runs == 0:
        status = "no runs"
    elif n_runs < full or agreement is None:
        status = f"incomplete: {n_runs} of {full}"
    else:
        status = agreement
    return AuditedCell(
        table=table,
        model=model,
        task=task,
        dataset=dataset,
        status=status,
        agreement=agreement,
        published_mean=printed.mean,
        published_ci95=printed.ci95,
        mean=None if value is None else round(value.mean, 6),
        ci95=None if value is None or value.ci95 != value.ci95 else round(value.ci95, 6),
        n_seeds=0 if value is None else value.n_seeds,
        n_runs=n_runs,
        difference=None if value is None else round(value.mean - printed.mean, 6),
    )


def _agreement(printed: _Value, value: _Value) -> str:
    off, wider = abs(value.mean - printed.mean), abs(value.ci95 - printed.ci95)
    if off <= _HALF_DIGIT and wider <= _HALF_DIGIT:
        return "exact"
    return "within interval" if off <= printed.ci95 + _HALF_DIGIT else "differs"
