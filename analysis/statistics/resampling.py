"""Resamples of seeds: all of them for up to six seeds, drawn ones for more.

`analysis.statistics.estimates.seed_bootstrap` computes the bootstrap interval from them.

Six seeds have 6^6 = 46,656 resamples, of which 462 differ by more than their order. Listing those with the number of
times each occurs gives what infinitely many draws would: a bound that depends on no generator.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from itertools import combinations_with_replacement

import numpy as np
import numpy.typing as npt

__all__ = [
    "MOST_ENUMERATED", "Picks", "Resamples", "Resampling", "every_resample",
]  # fmt: skip

Array = npt.NDArray[np.float64]
Picks = npt.NDArray[np.int64]

MOST_ENUMERATED = 6
"""Seeds up to which every resample is listed."""


@dataclass(frozen=True, kw_only=True)
class Resamples:
    """Resamples of n seeds, with how often each of them occurs."""

    picks: Picks
    """(n_resamples, n_seeds) indices."""
    counts: npt.NDArray[np.int64]
    """(n_resamples,) occurrences."""


@cache
def every_resample(count: int) -> Resamples:
    """Return all resamples of `count` seeds: each multiset once, with the number of its orders."""
    picks = np.array(list(combinations_with_replacement(range(count), count)), dtype=np.int64)
    times = np.stack([(picks == seed).sum(axis=1) for seed in range(count)], axis=1)
    orders = [
        math.factorial(count) // math.prod(math.factorial(one) for one in row) for row in times.tolist()
    ]
    return Resamples(picks=picks, counts=np.array(orders, dtype=np.int64))


@dataclass(frozen=True, kw_only=True)
class Resampling:
    """How many resamples are drawn where not all are listed, and from which seed."""

    resamples: int
    seed: int

    def rng(self, *key: int) -> np.random.Generator:
        """Return the generator for a purpose named by `key`: the same whatever was drawn for other purposes."""
        return np.random.default_rng([self.seed, *key])

    def of_seeds(self, count: int) -> Resamples:
        """Return every resample of up to `MOST_ENUMERATED` seeds, else drawn ones; always the same for a count."""
        if count <= MOST_ENUMERATED:
            return every_resample(count)
        picks = self.rng(count).integers(0, count, size=(self.resamples, count))
        return Resamples(picks=picks, counts=np.ones(len(picks), dtype=np.int64))
