"""Resamples of seeds: all of them for up to six seeds, drawn ones for more.

Six seeds have 6^6 = 46,656 resamples, of which 462 differ by more than their order. Listing those with the number of
times each occurs gives what infinitely many draws would: a bound that depends on no generator.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, reduce
from itertools import combinations_with_replacement

import numpy as np
import numpy.typing as npt

__all__ = [
    "MOST_ENUMERATED", "Picks", "Resamples", "all_or_drawn", "draw_picks", "every_resample", "interpolated_quantiles",
    "mean_in_order", "resampled_means", "smallest_reaching",
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
    """(n_resamples,) occurrences among `total`."""

    @property
    def total(self) -> int:
        """Resamples in all, repeated ones included."""
        return int(self.counts.sum())


def draw_picks(count: int, resamples: int, rng: np.random.Generator) -> Picks:
    """Return (resamples, count) indices drawn with replacement from `count` seeds."""
    return rng.integers(0, count, size=(resamples, count))


@cache
def every_resample(count: int) -> Resamples:
    """Return all resamples of `count` seeds: each multiset once, with the number of its orders."""
    picks = np.array(list(combinations_with_replacement(range(count), count)), dtype=np.int64)
    times = np.stack([(picks == seed).sum(axis=1) for seed in range(count)], axis=1)
    orders = [
        math.factorial(count) // math.prod(math.factorial(one) for one in row) for row in times.tolist()
    ]
    return Resamples(picks=picks, counts=np.array(orders, dtype=np.int64))


def all_or_drawn(count: int, draw: Callable[[int], Picks]) -> Resamples:
    """Return every resample of up to `MOST_ENUMERATED` seeds, else those that `draw` gives."""
    if count <= MOST_ENUMERATED:
        return every_resample(count)
    picks = draw(count)
    return Resamples(picks=picks, counts=np.ones(len(picks), dtype=np.int64))


def mean_in_order(columns: Iterable[Array], count: int) -> Array:
    """Return the elementwise mean of `columns`, summed in one order so that every machine rounds alike."""
    return reduce(operator.add, columns) / count


def resampled_means(values: Array, picks: Picks) -> Array:
    """Return the mean over seeds, the last axis of `values`, on every resample of them: (..., n_resamples)."""
    return mean_in_order((values[..., place] for place in picks.T), picks.shape[1])


def interpolated_quantiles(values: Array, counts: npt.NDArray[np.int64], shares: npt.ArrayLike) -> Array:
    """Return `np.quantile` of values of which each occurs a number of times.

    Args:
        values: (..., n), in any order.
        counts: (n,) occurrences.
        shares: (n_shares,), or (..., n_shares) for shares of each row's own.

    Returns:
        (..., n_shares).
    """
    shares = np.broadcast_to(shares, (*values.shape[:-1], np.shape(shares)[-1]))
    order = np.argsort(values, axis=-1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=-1)
    reached = np.cumsum(counts[order], axis=-1)
    ranks = (counts.sum() - 1) * shares
    below = np.floor(ranks)

    def at(rank: Array) -> Array:
        place = (reached[..., None, :] <= rank[..., None]).sum(axis=-1)
        return np.take_along_axis(ordered, place, axis=-1)

    low, high = at(below), at(np.minimum(below + 1, counts.sum() - 1))
    found: Array = low + (high - low) * (ranks - below)
    return found


def smallest_reaching(values: Array, counts: npt.NDArray[np.int64], share: float) -> Array:
    """Return the smallest of the values up to which `share` of the occurrences are.

    Args:
        values: (..., n), in any order.
        counts: (..., n) occurrences; some may be 0.
        share: 0 to 1.

    Returns:
        (...); 0 where nothing occurs.
    """
    order = np.argsort(values, axis=-1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=-1)
    reached = np.cumsum(np.take_along_axis(counts, order, axis=-1), axis=-1)
    enough = share * reached[..., -1:] * (1 - 1e-12)
    place = (reached < enough).sum(axis=-1)
    found = np.take_along_axis(ordered, place[..., None], axis=-1)[..., 0]
    return np.where(reached[..., -1] > 0, found, 0.0)
