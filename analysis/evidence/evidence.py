"""The one engine: from a source's cells to what they say about a contrast, a level or a ratio of spreads.

printed cells       Welch, from means and intervals (interval / 1.96 is the standard error, n = 5)
runs                by the kind of interval (`analysis.evidence.intervals`)
runs and cells      Welch, each from its own seeds
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.evidence.cells import CellTable
from analysis.evidence.contrasts import Cell, Comparison, Contrast, Finding, Spread, Term, contrast_finding
from analysis.evidence.intervals import PAPER, Estimated, T
from analysis.evidence.sample import Sample, welch_of
from analysis.evidence.settings import Settings
from analysis.evidence.spreads import spread_finding
from analysis.statistics.crossed import LIMITS
from analysis.statistics.estimates import Estimate, Student, student_estimate
from benchmarks.protocol import AVERAGE, TASKS, in_order
from pretraining.models import MODELS

__all__ = ["COLUMNS", "Evidence", "Level", "level_of", "order_scores", "scores_of"]

Array = npt.NDArray[np.float64]

COLUMNS = ["model", "task", "dataset", "mean", "low", "high", "n_seeds", "interval", "source"]
"""Those of the table of scores that everything downstream reads."""
_JOINT_DRAWS = 11
"""Key of the generator of what models have in common through the test instances."""


class Level(NamedTuple):
    """A score with its interval, in percent."""

    mean: float
    low: float
    """Cut where the metric ends; nan for one seed, as `high`."""
    high: float
    n_seeds: int
    interval: str
    """Kind of the interval that was used."""


class Evidence:
    """Runs, printed cells or both, read by one kind of interval."""

    def __init__(
        self,
        settings: Settings,
        *,
        runs: pd.DataFrame | None = None,
        values: pd.DataFrame | None = None,
        instances: Path | None = None,
        printed: bool = False,
    ) -> None:
        """Select the runs.

        Args:
            settings: selection rule, interval and resamples.
            runs: a runs table.
            values: scores by seed in place of those of `runs`, as `seed_scores` returns them; a simulation has no runs.
            instances: the per-instance Parquet; read when an interval needs it.
            printed: whether the paper's printed cells stand in for models that have no runs.

        Raises:
            UserError: an interval that needs instances, or single runs, without them.
        """
        self.settings = settings
        method = settings.method
        needed = None
        if runs is None and values is None:
            method.need_cells()
        else:
            needed = method.need_instances(instances)
        self.cells = CellTable(
            settings.rule, settings.resampling, runs=runs, values=values, instances=needed, printed=printed
        )

    def finding(self, comparison: Comparison) -> Finding:
        """Return what the source says, with p's for and against the claimed region."""
        runs = self.cells.runs
        if isinstance(comparison, Spread):
            if runs is None:
                return Finding(comparison=comparison, missing="needs individual runs")
            return spread_finding(comparison, runs, self.cells.values, self.settings.resampling)
        absent = [term for term in comparison.terms if term.cell not in self.cells]
        if absent:
            where = "no published cell for" if runs is None else "no runs of"
            return Finding(comparison=comparison, missing=f"{where} {_names(absent)}")
        inputs = tuple(
            f"{term.weight:+.4g} x {term.model} {term.task} {term.dataset}: {self.cells.words(term.cell)}"
            for term in comparison.terms
        )
        counts = tuple(self.cells.summary(term.cell)[2] for term in comparison.terms)
        found = self.estimate(comparison)
        if found is None:
            fewest = comparison.terms[counts.index(min(counts))]
            return Finding(
                comparison=comparison, missing=f"only one seed of {_names([fewest])}", inputs=inputs
            )
        return contrast_finding(
            comparison, found.estimate, test=found.test, inputs=inputs, seeds=found.seeds or counts,
            interval=found.interval, within_seeds=bool(found.seeds),
        )  # fmt: skip

    def estimate(self, comparison: Contrast) -> Estimated | None:
        """Return the estimate of a contrast whose cells are all there; None where a cell has one seed alone."""
        if all(self.cells.has_runs(term.cell) for term in comparison.terms):
            return self.settings.method.of_runs(Sample(self.cells, comparison.terms))
        method = self.settings.method if self.settings.method.of_cells is not None else T
        welch = welch_of(self.cells, comparison.terms)
        if welch is None:
            return None
        return Estimated(estimate=method.need_cells()(welch), interval=method.name, test=method.test_of_cells)

    def student(self, comparison: Contrast) -> Student | None:
        """Return the estimate with a standard error and degrees of freedom, Student's t where the interval has none."""
        found = self.estimate(comparison)
        if found is None:
            return None
        estimate = found.estimate
        if math.isnan(estimate.error):
            by_t = T.of_runs(Sample(self.cells, comparison.terms))
            estimate = estimate if by_t is None else by_t.estimate
        if isinstance(estimate, Student):
            return estimate
        return Student(effect=estimate.effect, error=estimate.error, df=estimate.df)

    def level(self, cell: Cell) -> Level:
        """Return a cell's score with its interval, cut where the metric ends."""
        mean, _, count = self.cells.summary(cell)
        found = self.estimate(level_of(cell))
        if found is None:
            return Level(mean, math.nan, math.nan, count, self.settings.method.name)
        low, high = found.estimate.interval()
        if found.interval == PAPER.name:  # as the paper has it: its own factor, and nothing cut
            half = self.cells.paper_half_width(cell)
            return Level(mean, mean - half, mean + half, count, PAPER.name)
        # Correlations, the metrics of own data sets that can be negative, end at -1.
        least, most = LIMITS
        if self.cells.has_runs(cell) and np.nanmin(self.cells.by_seed(cell)) < 0:
            least = -most
        return Level(mean, max(low, least), min(high, most), count, found.interval)

    def draws(self, contrasts: Sequence[Contrast]) -> Array:
        """Return (resamples, n_contrasts) draws whose quantiles are the ends of the contrasts' intervals.

        Contrasts are drawn independently, but for what they have in common through test instances.
        """
        count = self.settings.resamples
        drawn = np.empty((count, len(contrasts)))
        for column, contrast in enumerate(contrasts):
            estimate = self._over_seeds(contrast)
            if estimate is None:
                drawn[:, column] = math.fsum(
                    term.weight * self.cells.summary(term.cell)[0] for term in contrast.terms
                )
                continue
            key = zlib.crc32("/".join(word for term in contrast.terms for word in term.cell).encode())
            drawn[:, column] = estimate.draws(count, self.settings.resampling.rng(key))
        if self.cells.covariances is not None:
            drawn += self._over_instances(contrasts)
        return drawn

    def _over_seeds(self, contrast: Contrast) -> Estimate | None:
        found = self.estimate(contrast)
        if found is None:
            return None
        if not isinstance(found.estimate, Student) or not found.estimate.instance_share:
            return found.estimate
        sample = Sample(self.cells, contrast.terms)
        return None if sample.values is None else student_estimate(sample.values, sample.if_flat)

    def _over_instances(self, contrasts: Sequence[Contrast]) -> Array:
        """Return (resamples, n_contrasts) draws of what the test instances add, with mean 0."""
        joint = np.diag([Sample(self.cells, contrast.terms).from_instances for contrast in contrasts])
        for place, one in enumerate(contrasts):
            for other in range(place):
                # A covariance is a quarter of what the variances of sum and difference differ by; both are over the
                # seeds that the two contrasts share.
                together, apart = (
                    Sample(self.cells, (*one.terms, *_weighted(contrasts[other], sign))).from_instances
                    for sign in (1, -1)
                )
                joint[place, other] = joint[other, place] = (together - apart) / 4
        values, vectors = np.linalg.eigh(joint)
        # The symmetric root: the sign of an eigenvector differs from machine to machine.
        root = vectors * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
        rng = self.settings.resampling.rng(_JOINT_DRAWS, len(contrasts))
        drawn: Array = rng.standard_normal((self.settings.resamples, len(contrasts))) @ root
        return drawn


def scores_of(evidence: Evidence, *, source: str) -> pd.DataFrame:
    """Return the score of every cell with its interval, in percent; `source` is the content of that column."""
    rows = [(*cell, *evidence.level(cell), source) for cell in evidence.cells]
    return order_scores(pd.DataFrame(rows, columns=COLUMNS))


def order_scores(scores: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with `COLUMNS`, in the paper's order of models, tasks and datasets; own models last."""
    models = {name: rank for rank, name in enumerate(MODELS)}
    datasets = {
        name: rank for rank, name in enumerate([*in_order({*scores["dataset"]} - {AVERAGE}), AVERAGE])
    }
    keyed = scores.assign(
        _model=[models.get(name, len(models)) for name in scores["model"]],
        _task=[list(TASKS).index(task) for task in scores["task"]],
        _dataset=[datasets[name] for name in scores["dataset"]],
    )
    return keyed.sort_values(["_model", "model", "_task", "_dataset"], ignore_index=True)[COLUMNS]


def level_of(cell: Cell) -> Contrast:
    """Return the contrast that is a cell's own score."""
    model, task, dataset = cell
    return Contrast(label="", terms=(Term(weight=1.0, model=model, task=task, dataset=dataset),))


def _weighted(contrast: Contrast, factor: float) -> tuple[Term, ...]:
    return tuple(replace(term, weight=factor * term.weight) for term in contrast.terms)


def _names(terms: Sequence[Term]) -> str:
    return ", ".join(dict.fromkeys(f"{term.model} on {term.task} {term.dataset}" for term in terms))
