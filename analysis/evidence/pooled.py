"""The pooled bootstrap t: a dataset's cells lend each other the shape of their seeds' errors.

Five seeds say little about the tails of their own distribution, 46 cells of five seeds say much. The standardised
residuals of all of a source's cells of a dataset are one pool; t* is what Welch's statistic of a contrast would be if
every cell's seeds were drawn from the pool of its dataset, scaled by the cell's own spread. The averages of a task,
taken within each seed, have a pool of their own. No shape is assumed but that the cells of a pool share theirs. Cells
are taken as independent: fine-tuning seeds of two models have nothing in common (docs/claims.md), nor have queries
of NQ.
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
        for (_, task, dataset), row in zip(
            values.index, values.to_numpy(), strict=True
        ):
            of_place = residuals.setdefault((task, dataset), [])
            scores = row[np.isfinite(row)]
            if len(scores) >= FEWEST_SEEDS and not is_flat(scores):
                deviations = scores - scores.mean()
                of_place.append(deviations / np.sqrt((deviations**2).mean()))
        self._pools = {
            place: (
                np.sort(np.concatenate(of_place)) if of_place else np.empty(0),
                len(of_place),
            )
            for place, of_place in residuals.items()
        }
        """By task and dataset the standardised residuals, ascending, and the number of cells with a spread."""

    def cells(self, terms: Iterable[Term]) -> int:
        """Return the number of cells in the smallest pool of some scores; 0 of a cell that is printed."""
        return min(
            self._pools.get((term.task, term.dataset), (None, 0))[1] for term in terms
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
        for place, count, weight, error in zip(
            places, counts, weights, errors, strict=True
        ):
            drawn, variances = self._bank(
                place, int(count), banks_used[place, int(count)]
            )
            banks_used[place, int(count)] += 1
            errors_drawn += weight * error * drawn
            variances_drawn += (weight * error) ** 2 * variances
        sound = variances_drawn > 1e-24 * welch.error**2
        if not sound.any():
            return welch
        return Studentised(
            effect=welch.effect,
            error=welch.error,
            df=welch.df,
            ratios=np.sort(errors_drawn[sound] / np.sqrt(variances_drawn[sound])),
            symmetric=fewest_cells < EQUAL_TAILS_FROM
            or abs(float(weights.sum())) < 1e-9,
        )

    def _bank(
        self, place: tuple[str, str], count: int, nth: int
    ) -> tuple[Array, Array]:
        """Return of the `nth` cell there the means, in standard errors, and the variances of every resample."""
        task, _ = place
        datasets = [one for one in self._pools if one[0] == task and one[1] != AVERAGE]
        # The average of one dataset is the dataset
        place = datasets[0] if len(datasets) == 1 else place
        key = place, count, nth
        if key not in self._banks:
            # A generator of its own for each key: the same draws whatever was asked before.
            rng = np.random.default_rng(
                [self._seed, zlib.crc32(" ".join(place).encode()), count, nth]
            )
            pool = self._pools[place][0]
            drawn = pool.take(rng.integers(0, len(pool), (self._resamples, count)))
            means = drawn.mean(axis=1, keepdims=True)
            self._banks[key] = (
                means[:, 0] * math.sqrt(count),
                drawn.var(axis=1, ddof=1, mean=means),
            )
        return self._banks[key]
