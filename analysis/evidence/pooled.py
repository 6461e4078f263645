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

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.evidence.contrasts import Term
from analysis.statistics.estimates import Student, Studentised, is_flat, welch_estimate
from benchmarks.protocol import AVERAGE

Array = npt.NDArray[np.float64]

FEWEST_CELLS = 5
"""Cells of a dataset below which there is no pool."""
EQUAL_TAILS_FROM = 10
"""Cells from which levels have equal tails: the skew of a smaller pool is often that of one of its cells."""
FEWEST_SEEDS = 4
"""Seeds of a cell below which it is given Student's t and lends none: two seeds' residuals are always ±1."""


class ResidualPools:
    """The pools of a source, and the resamples drawn from them; the same ones whatever was asked before."""

    def __init__(self, values: pd.DataFrame, resamples: int, seed: int) -> None:
        """Take the scores by seed, as `analysis.evidence.cells.seed_scores` returns them."""
        self._resamples, self._seed = resamples, seed
        self._banks: dict[tuple[tuple[str, str], int, int], tuple[Array, Array]] = {}
        residuals: dict[tuple[str, str], list[Array]] = {}
        rows = zip(values.index, values.to_numpy(), strict=True)
        for (_, task, dataset), row in rows:
            of_place = residuals.setdefault((task, dataset), [])
            scores = row[np.isfinite(row)]
            if len(scores) >= FEWEST_SEEDS and not is_flat(scores):
                deviations = scores - scores.mean()
                deviation = np.sqrt((deviations**2).mean())
                of_place.append(deviations / deviation)
        self._pools: dict[tuple[str, str], tuple[Array, int]] = {}
        for place, of_place in residuals.items():
            pool = np.sort(np.concatenate(of_place)) if of_place else np.empty(0)
            self._pools[place] = pool, len(of_place)
        """By task and dataset the standardised residuals, ascending, and the number of cells with a spread."""

    def cells(self, terms: Iterable[Term]) -> int:
        """Return the number of cells in the smallest pool of some scores; 0 of a cell that is printed."""
        places = [(term.task, term.dataset) for term in terms]
        return min(
            self._pools[place][1] if place in self._pools else 0 for place in places
        )

    def estimate(
        self,
        places: Sequence[tuple[str, str]],
        weights: Array,
        means: Array,
        errors: Array,
        counts: Array,
    ) -> Student | Studentised | None:
        """Return the weighted sum of the means of some cells.

        Levels (weights that do not sum to 0) have equal tails, so that a tail of collapsed seeds is on one side, if
        there are `EQUAL_TAILS_FROM` cells. In differences what is skewed cancels: they are symmetric, with Welch's
        quantile as the least.

        Args:
            places: of each cell, the task and the dataset (or `average`).
            weights, means, errors, counts: (n_cells,) the errors are standard errors, the counts numbers of seeds.

        Returns:
            The estimate; None where a cell has fewer than `FEWEST_SEEDS`, or a place fewer cells than `FEWEST_CELLS`.
        """
        fewest_cells = min(self._pools[place][1] for place in places)
        if counts.min() < FEWEST_SEEDS or fewest_cells < FEWEST_CELLS:
            return None
        welch = welch_estimate(means, errors, counts, weights)
        errors_drawn, variances_drawn = np.zeros((2, self._resamples))
        # Cells with the same place and count have banks of their own, in their order.
        banks_used: Counter[tuple[tuple[str, str], int]] = Counter()
        weighted_errors = weights * errors
        for place, seeds, weighted_error in zip(
            places, counts, weighted_errors, strict=True
        ):
            count = int(seeds)
            drawn, variances = self._bank(place, count, banks_used[place, count])
            banks_used[place, count] += 1
            errors_drawn += weighted_error * drawn
            variances_drawn += weighted_error**2 * variances
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

    def _bank(
        self, place: tuple[str, str], count: int, nth: int
    ) -> tuple[Array, Array]:
        """Return of the `nth` cell there the means, in standard errors, and the variances of every resample."""
        task, _ = place
        of_task = [other for other in self._pools if other[0] == task]
        datasets = [other for other in of_task if other[1] != AVERAGE]
        # The average of one dataset is the dataset
        if len(datasets) == 1:
            [place] = datasets
        key = place, count, nth
        if key not in self._banks:
            # A generator of its own for each key: the same draws whatever was asked before.
            place_code = zlib.crc32(" ".join(place).encode())
            rng = np.random.default_rng([self._seed, place_code, count, nth])
            pool, _ = self._pools[place]
            picks = rng.integers(0, len(pool), (self._resamples, count))
            drawn = pool.take(picks)
            means = drawn.mean(axis=1, keepdims=True)
            variances = drawn.var(axis=1, ddof=1, mean=means)
            self._banks[key] = means[:, 0] * math.sqrt(count), variances
        return self._banks[key]
