"""The pooled bootstrap t: a dataset's cells lend each other the shape of their seeds' errors.

Five seeds say little about the tails of their own distribution, 46 cells of five seeds say much. The standardised
residuals of all of a source's cells of a dataset are one pool; t* is what Welch's statistic of a contrast would be if
every cell's seeds were drawn from the pool of its dataset, scaled by the cell's own spread. The averages of a task,
taken within each seed, have a pool of their own. No shape is assumed but that the cells of a pool share theirs. Cells
are taken as independent: fine-tuning seeds of two models have nothing in common (docs/intervals.md), nor have queries
of NQ.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.statistics.estimates import Student, Studentised, is_flat, standard_error, welch_estimate
from analysis.statistics.resampling import Resampling
from benchmarks.protocol import AVERAGE

__all__ = ["FEWEST_CELLS", "FEWEST_SEEDS", "Part", "ResidualPools"]

Array = npt.NDArray[np.float64]
Scores = tuple[str, str]
"""What scores are on: a task and its dataset, or the average of its datasets."""

FEWEST_CELLS = 4
"""Cells of a dataset below which there is no pool."""
FEWEST_SEEDS = 4
"""Seeds of a cell below which it is given Student's t."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One cell of a contrast, with the seeds that enter."""

    weight: float
    scores: Scores
    values: Array
    """(n_seeds,) scores in percent; two or more."""
    if_flat: float = 0.0
    """Standard error where all values are alike."""

    @property
    def count(self) -> int:
        """Seeds."""
        return len(self.values)

    @property
    def error(self) -> float:
        """Standard error of the mean."""
        return self.if_flat if is_flat(self.values) else standard_error(self.values)


class ResidualPools:
    """The pools of a source, and the resamples drawn from them; the same ones whatever was asked before."""

    def __init__(self, values: pd.DataFrame, resampling: Resampling) -> None:
        """Take the scores by seed, as `analysis.evidence.cells.seed_scores` returns them."""
        self._values = values
        self._resampling = resampling
        self._banks: dict[tuple[Scores, int, int], tuple[Array, Array]] = {}

    @cached_property
    def _pools(self) -> Mapping[Scores, tuple[Array, int]]:
        """Return by task and dataset the standardised residuals and the number of cells with a spread."""
        residuals: dict[Scores, list[Array]] = {}
        for (_, task, dataset), row in zip(self._values.index, self._values.to_numpy(), strict=True):
            of = residuals.setdefault((task, dataset), [])
            seen = row[np.isfinite(row)]
            if len(seen) > 1 and not is_flat(seen):
                apart = seen - seen.mean()
                of.append(apart / np.sqrt((apart**2).mean()))
        return {
            of: (np.sort(np.concatenate(held)) if held else np.empty(0), len(held))
            for of, held in residuals.items()
        }

    def can_give(self, parts: Sequence[Part]) -> bool:
        """Whether all parts have enough seeds, and their datasets enough cells."""
        return all(
            part.count >= FEWEST_SEEDS and self._pools[part.scores][1] >= FEWEST_CELLS for part in parts
        )

    def estimate(self, parts: Sequence[Part]) -> Student | Studentised:
        """Return the weighted sum of the parts' means.

        Levels (weights that do not sum to 0) have equal tails, so that a tail of collapsed seeds is on one side; in
        differences what is skewed cancels, and they are symmetric with Welch's quantile as the least.
        """
        weights = np.array([part.weight for part in parts])
        errors = np.array([part.error for part in parts])
        counts = np.array([part.count for part in parts], dtype=np.float64)
        means = np.array([part.values.mean() for part in parts])
        welch = welch_estimate(means, errors, counts, weights)
        top, below = np.zeros((2, self._resampling.resamples))
        used: Counter[tuple[Scores, int]] = Counter()
        for part, weight, error in zip(parts, weights, errors, strict=True):
            key = part.scores, part.count
            drawn, variances = self._bank(*key, used[key])
            used[key] += 1
            top += weight * error * drawn
            below += (weight * error) ** 2 * variances
        sound = below > 1e-24 * welch.error**2
        if not sound.any():
            return welch
        return Studentised(
            effect=welch.effect, error=welch.error, df=welch.df, ratios=np.sort(top[sound] / np.sqrt(below[sound])),
            symmetric=abs(float(weights.sum())) < 1e-9,
        )  # fmt: skip

    def _bank(self, scores: Scores, count: int, place: int) -> tuple[Array, Array]:
        """Return of the `place`-th cell the means, in standard errors, and the variances of every resample."""
        task, _ = scores
        datasets = [of for of in self._pools if of[0] == task and of[1] != AVERAGE]
        scores = datasets[0] if len(datasets) == 1 else scores  # the average of one dataset is the dataset
        key = scores, count, place
        if key not in self._banks:
            rng = self._resampling.rng(zlib.crc32(" ".join(scores).encode()), count, place)
            pool = self._pools[scores][0]
            drawn = pool[rng.integers(0, len(pool), (self._resampling.resamples, count))]
            self._banks[key] = drawn.mean(axis=1) * math.sqrt(count), drawn.var(axis=1, ddof=1)
        return self._banks[key]
