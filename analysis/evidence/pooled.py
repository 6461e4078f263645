"""The pooled bootstrap t: a dataset's cells lend each other the shape of their seeds' errors.

Five seeds say little about the tails of their own distribution, 46 cells of five seeds say much. A residual is a seed's
deviation from the mean of its cell, divided by the cell's standard deviation. The residuals of all of a source's cells
of a dataset are one pool; t* is what Welch's statistic of a contrast would be if every cell's seeds were drawn from the
pool of its dataset, scaled by the cell's own spread. The averages of a task, taken within each seed, have a pool of
their own. No shape is assumed but that the cells of a pool share theirs. Cells are taken as independent: fine-tuning
seeds of two models have nothing in common (docs/claims.md), nor have queries of NQ. Scores of one pretraining are not
independent, and get Welch's t (`analysis.evidence.cells.Cells.parts`).
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.evidence.contrasts import Term
from analysis.statistics.estimates import Student, Studentised, is_flat, welch_estimate
from benchmarks.protocol import AVERAGE

Array = npt.NDArray[np.float64]
Place = tuple[str, str]
"""A task and a dataset of it, or `average`."""

FEWEST_CELLS = 5
"""Cells of a dataset below which there is no pool."""
EQUAL_TAILS_FROM = 10
"""Cells from which levels have equal tails: the skew of a smaller pool is often that of one of its cells."""
FEWEST_SEEDS = 4
"""Seeds of a cell below which it gets Student's t and lends no residuals: those of two seeds are always ±1."""


class _Pool(NamedTuple):
    """The residuals of all cells of one place."""

    residuals: Array
    """Ascending."""
    cells: int
    """Number of cells that the residuals are of: those with seeds enough that do not all agree."""


class _Bank(NamedTuple):
    """All resamples of one cell's seeds: of each the mean and the variance."""

    means: Array
    """(n_resamples,) deviations from the cell's mean, in standard errors of the cell."""
    variances: Array
    """(n_resamples,) as multiples of the cell's variance."""


class ResidualPools:
    """The pools of a source, and the resamples drawn from them; they do not depend on the order of the calls."""

    def __init__(self, values: pd.DataFrame, resamples: int, seed: int) -> None:
        """Take the scores by seed, as `analysis.evidence.cells.seed_scores` returns them."""
        self._resamples = resamples
        self._seed = seed
        self._banks: dict[tuple[Place, int, int], _Bank] = {}
        """By place, number of seeds, and a number that tells apart the cells of a contrast that share both."""
        residuals: dict[Place, list[Array]] = {}
        rows = zip(values.index, values.to_numpy(), strict=True)
        for (_, task, dataset), row in rows:
            of_place = residuals.setdefault((task, dataset), [])
            scores = row[np.isfinite(row)]
            # With cells of two seeds in the pool, intervals of cells of five were 1.2 to 1.6 times as wide as t's.
            if len(scores) >= FEWEST_SEEDS and not is_flat(scores):
                of_place.append(_standardised(scores))

        self._pools: dict[Place, _Pool] = {}
        for place, of_place in residuals.items():
            # The empty array is for a place without residuals: nothing cannot be concatenated.
            pool = np.concatenate([np.empty(0), *of_place])
            # Sorted, so that the draws do not depend on the order of the models.
            self._pools[place] = _Pool(residuals=np.sort(pool), cells=len(of_place))

    def cells(self, terms: Iterable[Term]) -> int:
        """Return the number of cells in the smallest pool of some scores.

        That is 0 if one of the scores has no pool, such as a printed one.
        """
        counts = []
        for term in terms:
            pool = self._pools.get((term.task, term.dataset))
            counts.append(0 if pool is None else pool.cells)
        return min(counts)

    def estimate(
        self,
        places: Sequence[Place],
        weights: Array,
        means: Array,
        errors: Array,
        counts: Array,
    ) -> Student | Studentised | None:
        """Return the estimate of a weighted sum of the means of some cells.

        The interval of a level (weights that do not sum to 0) has equal tails if each pool has `EQUAL_TAILS_FROM`
        cells, so that collapsed seeds lengthen it on one side only. In a difference skewness cancels: its interval is
        symmetric, and at least as wide as Welch's.

        Args:
            places: of each cell, the task and the dataset (or `average`).
            weights: (n_cells,) of the means in the sum.
            means: (n_cells,) over seeds.
            errors: (n_cells,) standard errors of the means.
            counts: (n_cells,) numbers of seeds.

        Returns:
            The estimate (Welch's, if no resample has a variance); None where a cell has fewer than `FEWEST_SEEDS`, or
            the pool of a place is from fewer than `FEWEST_CELLS` cells.
        """
        fewest_cells = min(self._pools[place].cells for place in places)
        if counts.min() < FEWEST_SEEDS or fewest_cells < FEWEST_CELLS:
            return None
        welch = welch_estimate(means, errors, counts, weights)

        # Of every resample: how far its sum is from that of the cells' means, and the variance that its seeds give.
        errors_drawn = np.zeros(self._resamples)
        variances_drawn = np.zeros(self._resamples)

        # Cells with the same place and number of seeds get different banks, so that their errors are independent.
        banks_used: Counter[tuple[Place, int]] = Counter()
        weighted_errors = weights * errors
        for place, seeds, weighted_error in zip(
            places, counts, weighted_errors, strict=True
        ):
            count = int(seeds)
            bank = self._bank(place, count, banks_used[place, count])
            banks_used[place, count] += 1
            errors_drawn += weighted_error * bank.means
            variances_drawn += weighted_error**2 * bank.variances

        # A resample that drew the same residual every time has no variance but rounding, so that its t* has no meaning.
        # Rounding is taken to be below 1e-12 of the error, so below 1e-24 of the variance.
        has_variance = variances_drawn > 1e-24 * welch.error**2
        if not has_variance.any():
            return welch
        ratios = errors_drawn[has_variance] / np.sqrt(variances_drawn[has_variance])
        is_difference = abs(float(weights.sum())) < 1e-9
        return Studentised(
            effect=welch.effect,
            error=welch.error,
            df=welch.df,
            ratios=np.sort(ratios),
            symmetric=is_difference or fewest_cells < EQUAL_TAILS_FROM,
        )

    def _bank(self, place: Place, count: int, nth: int) -> _Bank:
        """Return the resamples of a cell's seeds.

        Args:
            place: task and dataset of the cell, whose pool the resamples are drawn from.
            count: seeds of the cell.
            nth: position, from 0 on, among the cells of a contrast that have this place and number of seeds.
        """
        task, _ = place
        of_datasets = []
        for other in self._pools:
            task_of_other, dataset = other
            if task_of_other == task and dataset != AVERAGE:
                of_datasets.append(other)

        # The average of one dataset is the dataset: both get the same draws, and so the same interval.
        if len(of_datasets) == 1:
            [place] = of_datasets
        key = place, count, nth
        if key not in self._banks:
            # One generator for each key, so that the draws are the same whatever was asked before.
            place_code = zlib.crc32(" ".join(place).encode())
            rng = np.random.default_rng([self._seed, place_code, count, nth])
            pool = self._pools[place].residuals
            picks = rng.integers(0, len(pool), (self._resamples, count))
            drawn = pool.take(picks)
            means = drawn.mean(axis=1, keepdims=True)

            # The means are passed on, so that NumPy does not compute them a second time.
            variances = drawn.var(axis=1, ddof=1, mean=means)
            # Residuals are in standard deviations of a cell; its standard error is smaller by sqrt(count).
            in_errors = means[:, 0] * math.sqrt(count)
            self._banks[key] = _Bank(means=in_errors, variances=variances)

        return self._banks[key]


def _standardised(scores: Array) -> Array:
    """Return the residuals of a cell: the deviations of its scores from their mean, with a mean square of 1."""
    deviations = scores - scores.mean()
    # Over n, not n - 1: a residual that is drawn from the pool then has a variance of 1.
    scale = np.sqrt((deviations**2).mean())
    standardised: Array = deviations / scale
    return standardised
