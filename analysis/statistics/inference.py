"""From estimates to p's: tests of claimed regions and spreads, adjustments for testing several, P(A > B).

P(A > B) has Newcombe's interval. A stratum is a dataset; P(A > B) over several is the mean of theirs.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import special

from analysis.statistics.estimates import LEVEL, Estimate

__all__ = [
    "ALPHA", "FEWEST_SEEDS", "SUPERIORITY_COVERAGE", "brown_forsythe", "holm", "improvement_bounds",
    "partial_conjunction", "probability_of_improvement", "region_p", "spread_ratios", "superiority_words",
]  # fmt: skip

Array = npt.NDArray[np.float64]

ALPHA = 0.05
"""Level of every test; several tests are held to it together by Holm's adjustment."""

FEWEST_SEEDS = 4
"""Seeds below which a stratum has no interval: with three, Newcombe's holds P(A > B) in 90 %."""

SUPERIORITY_COVERAGE = (0.94, 0.97)
"""Measured coverage of the 95 % interval of P(A > B) with five normal seeds: the least and the most at 0 to 4 standard
deviations between the models, on 1, 3 and 12 datasets (3,000 comparisons). tests/analysis/statistics/test_inference.py
simulates it again, smaller."""


def region_p(estimate: Estimate, low: float, high: float) -> tuple[float, float]:
    """Return the p's for and against "the effect is in (low, high)".

    One finite end: both are two-sided p's (twice the one-sided, at most 1), so that 0.05 goes with the 95 %
    interval. Two finite ends: the p for is that of two one-sided tests (TOST), which goes with the 90 %
    interval; the p against is twice the smaller of the two one-sided p's beyond the ends.
    """
    if np.isfinite(low) and np.isfinite(high):
        inside = max(estimate.p_above(low), estimate.p_below(high))
        outside = 2 * min(estimate.p_below(low), estimate.p_above(high))
        return inside, min(1.0, outside)
    if np.isfinite(low):
        return min(1.0, 2 * estimate.p_above(low)), min(1.0, 2 * estimate.p_below(low))
    return min(1.0, 2 * estimate.p_below(high)), min(1.0, 2 * estimate.p_above(high))


def partial_conjunction(p_values: Sequence[float], count: int) -> tuple[float, int]:
    """Return the p of "at least `count` of the statements hold" and the position of the one that decides.

    Benjamini and Heller (2008): (n - count + 1) times the count-th smallest p, valid however the tests depend on
    each other. All of n: the largest p, unadjusted (intersection-union); one of n: Bonferroni.
    """
    order = np.argsort(np.asarray(p_values), kind="stable")
    place = int(order[count - 1])
    return min(1.0, (len(p_values) - count + 1) * p_values[place]), place


def holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p's, in the order given.

    Raises:
        ValueError: a p that is not a number: it would make all larger ones unknown, too.
    """
    values = np.asarray(p_values, dtype=np.float64)
    if np.isnan(values).any():
        raise ValueError(f"p {int(np.isnan(values).argmax()) + 1} of {len(values)} is not a number")
    if not len(values):
        return []
    from statsmodels.stats.multitest import multipletests  # takes half a second to import

    # Each call of it collects garbage: 70 ms with the imports of a command, nothing where they are out of its sight.
    gc.freeze()
    try:
        return [float(p) for p in multipletests(values, method="holm")[1]]
    finally:
        gc.unfreeze()


def brown_forsythe(first: Array, second: Array) -> float:
    """Return the two-sided p of Brown and Forsythe's test that two groups have the same spread; 1-D arrays."""
    if np.ptp(first) == 0 and np.ptp(second) == 0:
        return 1.0
    from scipy import stats  # takes as long to import as a figure to draw

    return float(stats.levene(first.ravel(), second.ravel(), center="median").pvalue)


def spread_ratios(narrow: Array, wide: Array, picks: npt.NDArray[np.int64]) -> Array:
    """Return the log ratio of standard deviations on every resample of the seeds, which both groups share.

    Args:
        narrow: (n_conditions, n_seeds), the spread over both axes is the ratio's numerator.
        wide: (n_conditions, n_seeds).
        picks: (resamples, n_seeds).

    Returns:
        (resamples,); nan where a resample has no spread at all.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        first, second = (
            np.log(group[:, picks].transpose(1, 0, 2).reshape(len(picks), -1).std(axis=1, ddof=1))
            for group in (narrow, wide)
        )
        ratios: Array = first - second
    return ratios


def superiority_words() -> str:
    """Return what a caption says of the interval of P(A > B), and of its coverage."""
    least, most = SUPERIORITY_COVERAGE
    return (
        "It has a 95 % interval for runs: Newcombe's for the Mann-Whitney measure (2006, method 5), which covers the "
        f"true chance {100 * least:.0f} to {100 * most:.0f} % of the time in simulations with 5 normally distributed "
        "seeds, for models 0 to 4 standard deviations apart"
    )


def probability_of_improvement(first: Array, second: Array) -> float:
    """Return the share of pairs of runs in which the first scores higher, ties counted half; 1-D arrays."""
    return float(np.mean((np.sign(np.subtract.outer(first, second)) + 1) / 2))


def improvement_bounds(strata: Sequence[tuple[Array, Array]], level: float = LEVEL) -> tuple[float, float]:
    """Return the interval of the mean over strata of P(A > B), by Newcombe (2006, Part 2, method 5).

    The ends are the chances theta from which the observed share is as many standard errors away as the level allows,
    the standard error being theta's own: with m and n exponential runs and k = (m + n) / 2 - 1, its square is
    theta (1 - theta) (1 + k (1 - theta) / (2 - theta) + k theta / (1 + theta)) / (m n). So the interval is within
    [0, 1], and has a width where every run of A is above every run of B. Strata are taken to share one chance: where
    theirs differ the interval is wider than need be.

    Args:
        strata: the runs of A and of B in each, 1-D arrays.
        level: of the interval.
    """
    from scipy import optimize  # as slow to import as stats

    share = float(np.mean([probability_of_improvement(*runs) for runs in strata]))
    sizes = [(len(first), len(second)) for first, second in strata]
    z = float(special.ndtri(0.5 + level / 2))

    def excess(chance: float, seen: float) -> float:
        variance = sum(_newcombe_variance(chance, *size) for size in sizes) / len(sizes) ** 2
        return (seen - chance) ** 2 - z**2 * variance

    def lower(seen: float) -> float:
        nearly = min(seen, 1 - 1e-12)  # at 1 the equation has that root too
        return float(optimize.brentq(excess, 0.0, nearly, args=(seen,))) if seen > 0 else 0.0

    return lower(share), 1 - lower(1 - share)


def _newcombe_variance(chance: float, first: int, second: int) -> float:
    k = (first + second) / 2 - 1
    spread = 1 + k * (1 - chance) / (2 - chance) + k * chance / (1 + chance)
    return chance * (1 - chance) * spread / (first * second)
