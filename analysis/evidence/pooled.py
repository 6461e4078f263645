"""The pooled bootstrap t: a dataset's cells lend each other the shape of their seeds' errors.

Five seeds say little about the tails of their own distribution, 46 cells of five seeds say much. The standardised
residuals of all of a source's cells of a dataset are one pool; t* is what Welch's statistic of a contrast would be if
every cell's seeds were drawn from the pool of its dataset, scaled by the cell's own spread. The averages of a task,
taken within each seed, have a pool of their own. No shape is assumed but that the cells of a pool share theirs. Cells
are taken as independent: fine-tuning seeds of two models have nothing in common (docs/claims.md), nor have queries
of NQ. Scores of one pretraining are not, and get Welch's t (`analysis.evidence.cells.Cells.parts`).
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
"""Seeds of a cell below which it is given Student's t and lends none: two seeds' residuals are always ±1."""


class _Pool(NamedTuple):
    """The residuals that the cells of one place lend each other."""

    residuals: Array
    """Standardised, ascending."""
    cells: int
    """Cells with a spread, from which the residuals are."""


class _Bank(NamedTuple):
    """What every resample of one cell's seeds gives."""

    means: Array
    """(n_resamples,) in standard errors of the cell."""
    variances: Array
    """(n_resamples,) in variances of the cell."""


class ResidualPools:
    """The pools of a source, and the resamples drawn from them; the same ones whatever was asked before."""

    def __init__(self, values: pd.DataFrame, resamples: int, seed: int) -> None:
        """Take the scores by seed, as `analysis.evidence.cells.seed_scores` returns them."""
        self._resamples = resamples
        self._seed = seed
        self._banks: dict[tuple[Place, int, int], _Bank] = {}
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
            # Sorted, so that the draws do not depend on the order of the models.
            pool = np.sort(np.concatenate([np.empty(0), *of_place]))
            self._pools[place] = _Pool(residuals=pool, cells=len(of_place))

    def cells(self, terms: Iterable[Term]) -> int:
        """Return the number of cells in the smallest pool of some scores; 0 if a score has no pool, as printed ones."""
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

        The interval of a level (weights that do not sum to 0) has equal tails if there are `EQUAL_TAILS_FROM` cells, so
        that collapsed seeds lengthen it on one side only. In a difference skewness cancels: its interval is symmetric,
        and at least as wide as Welch's.

        Args:
            places: of each cell, the task and the dataset (or `average`).
            weights, means, errors, counts: (n_cells,) the errors are standard errors, the counts numbers of seeds.

        Returns:
            The estimate (Welch's, if no resample has a variance); None where a cell has fewer than `FEWEST_SEEDS`, or a
            place fewer cells than `FEWEST_CELLS`.
        """
        fewest_cells = min(self._pools[place].cells for place in places)
        if counts.min() < FEWEST_SEEDS or fewest_cells < FEWEST_CELLS:
            return None
        welch = welch_estimate(means, errors, counts, weights)
        errors_drawn, variances_drawn = np.zeros((2, self._resamples))
        # A bank holds resamples of a cell's mean. Cells with the same place and number of seeds get different banks, so
        # that their errors are independent.
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
        # A resample that drew one residual each time has no variance but rounding, so that its t* has no meaning.
        sound = variances_drawn > 1e-24 * welch.error**2
        if not sound.any():
            return welch
        ratios = errors_drawn[sound] / np.sqrt(variances_drawn[sound])
        is_difference = abs(float(weights.sum())) < 1e-9
        return Studentised(
            effect=welch.effect,
            error=welch.error,
            df=welch.df,
            ratios=np.sort(ratios),
            symmetric=is_difference or fewest_cells < EQUAL_TAILS_FROM,
        )

    def _bank(self, place: Place, count: int, nth: int) -> _Bank:
        """Return the resamples of the `nth` cell of that place with so many seeds."""
        task, _ = place
        of_task = [other for other in self._pools if other[0] == task]
        datasets = [other for other in of_task if other[1] != AVERAGE]
        # The average of one dataset is the dataset: both have the same interval.
        if len(datasets) == 1:
            [place] = datasets
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
            in_errors = means[:, 0] * math.sqrt(count)
            self._banks[key] = _Bank(means=in_errors, variances=variances)
        return self._banks[key]


def _standardised(scores: Array) -> Array:
    """Return the deviations of scores from their mean, with a mean square of 1."""
    deviations = scores - scores.mean()
    # Over n, not n - 1: what is drawn from the pool then has variance 1, the unit of the resampled means.
    deviation = np.sqrt((deviations**2).mean())
    standardised: Array = deviations / deviation
    return standardised
