"""The scores behind one contrast of runs, in every form that a kind of interval may ask for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from analysis.evidence.cells import CellTable
from analysis.evidence.contrasts import Cell, Term
from analysis.evidence.pooled import Part
from analysis.statistics.estimates import Student, welch_estimate
from analysis.statistics.resampling import Resamples

__all__ = ["Sample", "welch_of"]

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Sample:
    """What an estimate of a contrast is made from; all scores in points."""

    cells: CellTable
    terms: Sequence[Term]
    """All of cells that have runs."""

    @cached_property
    def values(self) -> Array | None:
        """(n_seeds,) the contrast within each seed that all cells have; None with fewer than two such seeds."""
        if self._shared.sum() < 2:
            return None
        weights = np.array([term.weight for term in self.terms])
        # Exact sums: a product of vectors rounds as the processor likes, and some effects are on a printed tie.
        return np.array([math.fsum(weights * column) for column in self._table[:, self._shared].T])

    @property
    def if_flat(self) -> float:
        """Standard error of `values` where they are all alike."""
        count = int(self._shared.sum())
        return math.hypot(*(term.weight * self.cells.if_flat(term.cell, count) for term in self.terms))

    @cached_property
    def welch(self) -> Student | None:
        """Welch's estimate from each cell's own seeds; None where a cell has one seed."""
        return welch_of(self.cells, self.terms)

    @property
    def resamples(self) -> Resamples:
        """Resamples of the seeds of `values`."""
        return self.cells.resampling.of_seeds(int(self._shared.sum()))

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The cells of the contrast, each once, with the seeds of its own; none where one of them has one seed."""
        weights: dict[Cell, float] = {}
        for term in self.terms:
            weights[term.cell] = weights.get(term.cell, 0.0) + term.weight
        # In one order, so that A - B mirrors B - A.
        parts = [self._part(cell, weight) for cell, weight in sorted(weights.items()) if abs(weight) > 1e-12]
        return () if any(part.count < 2 for part in parts) else tuple(parts)

    @cached_property
    def reselected(self) -> Array | None:
        """(n_resamples, n_seeds) of `values` at the rates that resampled seeds choose together, if any."""
        if self.cells.reselection is None:
            return None
        total: Array = np.zeros(self.resamples.picks.shape)
        for term in self.terms:
            scores = self.cells.reselection.scores(term.cell, self._seeds, self.resamples.picks)
            if scores is None:
                return None
            total = total + term.weight * scores
        return total

    @property
    def is_level(self) -> bool:
        """Whether it is one cell's own score, which ends where the metric does."""
        return len(self.terms) == 1 and self.terms[0].weight == 1

    @cached_property
    def covariance(self) -> tuple[Array, float] | None:
        """(n_seeds, n_seeds) of `values` over the test instances, and its degrees of freedom.

        None where instances or a second seed are missing.
        """
        known = self.cells.covariances
        if known is None or len(self._seeds) < 2:
            return None
        return known.between_seeds(self.weighted, self._seeds)

    @property
    def weighted(self) -> list[tuple[float, str, str]]:
        """Weight, model and dataset of every score that the contrast is made of."""
        return [
            (term.weight / len(names), term.model, name)
            for term in self.terms
            for names in [self.cells.members(term.task, term.dataset)]
            for name in names
        ]

    @property
    def from_instances(self) -> float:
        """The variance of the contrast that all its seeds have in common through the test instances."""
        if self.covariance is None:
            return 0.0
        shared, count = self.covariance[0], len(self.covariance[0])
        return float(shared.sum() - np.trace(shared)) / (count * (count - 1))

    @cached_property
    def _table(self) -> Array:
        return np.array([self.cells.by_seed(term.cell) for term in self.terms])

    @cached_property
    def _shared(self) -> npt.NDArray[np.bool_]:
        return np.asarray(np.isfinite(self._table).all(axis=0))

    @property
    def _seeds(self) -> list[int]:
        return [int(seed) for seed in self.cells.values.columns[self._shared]]

    def _part(self, cell: Cell, weight: float) -> Part:
        row = self.cells.by_seed(cell)
        values = row[np.isfinite(row)]
        return Part(
            weight=weight, scores=cell[1:], values=values, if_flat=self.cells.if_flat(cell, len(values))
        )


def welch_of(cells: CellTable, terms: Sequence[Term]) -> Student | None:
    """Return Welch's estimate of a contrast of any cells; None where one of them has one seed."""
    means, errors, counts = np.array([cells.summary(term.cell) for term in terms], dtype=np.float64).T
    weights = np.array([term.weight for term in terms])
    return None if counts.min() < 2 else welch_estimate(means, errors, counts, weights)
