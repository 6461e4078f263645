"""Estimates of contrasts and the tests on them: pure functions of numbers, arrays and a `numpy.random.Generator`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy import stats

from analysis.statistics import intervals

__all__ = [
    "Estimate", "Resampled", "Student", "brown_forsythe", "crossed_estimate", "holm", "paired_estimate",
    "partial_conjunction", "region_p", "seed_bootstrap", "spread_ratios", "welch_estimate",
]  # fmt: skip

Array = npt.NDArray[np.float64]


class Estimate(Protocol):
    """An estimated effect that can be held against bounds."""

    @property
    def effect(self) -> float:
        """The point estimate."""

    def p_above(self, bound: float) -> float:
        """One-sided p of "the effect is at most `bound`"."""

    def p_below(self, bound: float) -> float:
        """One-sided p of "the effect is at least `bound`"."""

    def interval(self, level: float = intervals.LEVEL) -> tuple[float, float]:
        """Two-sided interval."""


@dataclass(frozen=True, kw_only=True)
class Student:
    """An estimate whose error is Student's with `df` degrees of freedom (infinite: normal)."""

    effect: float
    error: float
    """Standard error."""
    df: float
    instance_share: float = 0.0
    """Share of the squared error that comes from the test instances, 0 when they are held fixed."""

    def p_above(self, bound: float) -> float:
        """One-sided p of "the effect is at most `bound`"."""
        return self._tail(self.effect - bound)

    def p_below(self, bound: float) -> float:
        """One-sided p of "the effect is at least `bound`"."""
        return self._tail(bound - self.effect)

    def interval(self, level: float = intervals.LEVEL) -> tuple[float, float]:
        """Two-sided interval."""
        quantile = (
            stats.norm.ppf(0.5 + level / 2) if np.isinf(self.df) else stats.t.ppf(0.5 + level / 2, self.df)
        )
        half = float(quantile) * self.error
        return self.effect - half, self.effect + half

    def _tail(self, distance: float) -> float:
        if self.error == 0:
            return 0.0 if distance > 0 else 1.0
        ratio = distance / self.error
        return float(stats.norm.sf(ratio) if np.isinf(self.df) else stats.t.sf(ratio, self.df))


@dataclass(frozen=True, kw_only=True)
class Resampled:
    """An estimate with a bootstrap distribution; its p's are those at which its interval would touch the bound.

    With `bias` and `acceleration` of 0 the interval is the percentile one, else BCa.
    """

    effect: float
    draws: Array
    """(resamples,), sorted."""
    bias: float = 0.0
    acceleration: float = 0.0

    def p_above(self, bound: float) -> float:
        """One-sided p of "the effect is at most `bound`"."""
        return self._level(bound)

    def p_below(self, bound: float) -> float:
        """One-sided p of "the effect is at least `bound`"."""
        return 1 - self._level(bound)

    def interval(self, level: float = intervals.LEVEL) -> tuple[float, float]:
        """Two-sided interval."""
        tails = stats.norm.ppf([(1 - level) / 2, (1 + level) / 2]) + self.bias
        shares = stats.norm.cdf(self.bias + tails / (1 - self.acceleration * tails))
        low, high = np.quantile(self.draws, shares)
        return float(low), float(high)

    def _level(self, bound: float) -> float:
        """Return the one-sided level whose lower limit is `bound`, never closer to 0 or 1 than the draws can tell."""
        count = len(self.draws)
        rounding = 1e-12 * max(abs(bound), abs(self.effect), 1.0)
        below = np.searchsorted(self.draws, bound - rounding) + np.searchsorted(self.draws, bound + rounding)
        share = min(max(float(below) / 2, 0.5), count - 0.5) / count
        shifted = stats.norm.ppf(share) - self.bias
        return float(stats.norm.cdf(shifted / (1 + self.acceleration * shifted) - self.bias))


def welch_estimate(means: Array, errors: Array, counts: Array, weights: Array) -> Student:
    """Return the weighted sum of independent means with Welch-Satterthwaite degrees of freedom.

    Args:
        means: (n,) means over seeds.
        errors: (n,) their standard errors.
        counts: (n,) seeds behind each.
        weights: (n,).
    """
    # Exact sums: a product of vectors rounds as the processor likes, and some effects lie on a printed tie.
    effect = math.fsum(weights * means)
    parts = (weights * errors) ** 2
    variance = math.fsum(parts)
    if variance == 0:
        return Student(effect=effect, error=0.0, df=float(counts.min() - 1))
    df = variance**2 / math.fsum(parts**2 / (counts - 1))
    return Student(effect=effect, error=math.sqrt(variance), df=df)


def paired_estimate(values: Array) -> Student:
    """Return the mean of a contrast that was taken within each seed; values: (n_seeds,), two or more."""
    return Student(
        effect=float(values.mean()), error=float(intervals.standard_error(values)), df=float(len(values) - 1)
    )


def crossed_estimate(values: Array, resampled: Array) -> Student:
    """Return the mean of a contrast over seeds, with the error over seeds and test instances together.

    Seeds and instances are crossed random factors. The variance of the mean is S^2 / n, which holds what differs
    between seeds (their own effect and their interaction with the instances), plus what all seeds have in common
    because they share the test instances: the covariance between seeds over resamples of the instances. Adding
    the variance over resamples of the mean itself would count the interaction twice. Where runs are not paired
    by instance (NQ) that covariance is zero, and S^2 / n holds the instances already.

    Args:
        values: (n_seeds,) contrast within each seed, on the test set as it is; two or more.
        resampled: (resamples, n_seeds) the same on resamples of the instances, shared by the seeds of a row.

    Returns:
        Student with Satterthwaite's degrees of freedom: n - 1 for the seeds' part, as good as infinite for the
        instances' part.
    """
    count = len(values)
    over_seeds = float(values.var(ddof=1)) / count
    covariance = np.cov(resampled, rowvar=False)
    shared = float(covariance.sum() - np.trace(covariance)) / (count * (count - 1))
    over_instances = max(0.0, shared)
    variance = over_seeds + over_instances
    df = (count - 1) * (variance / over_seeds) ** 2 if over_seeds > 0 else float("inf")
    return Student(
        effect=float(values.mean()),
        error=float(np.sqrt(variance)),
        df=float(df),
        instance_share=over_instances / variance if variance > 0 else 0.0,
    )


def seed_bootstrap(values: Array, picks: npt.NDArray[np.int64], *, bca: bool = False) -> Resampled:
    """Return the bootstrap over seeds of a contrast taken within each seed.

    Args:
        values: (n_seeds,), two or more.
        picks: (resamples, n_seeds) of `intervals.resample_seeds`.
        bca: correct for bias and skewness (Efron 1987), as `intervals.bca_interval` does.
    """
    draws = np.sort(values[picks].mean(axis=1))
    effect = float(values.mean())
    if not bca or np.ptp(values) == 0:
        return Resampled(effect=effect, draws=draws)
    rounding = 1e-12 * max(abs(effect), 1.0)
    below = ((draws < effect - rounding).mean() + (draws <= effect + rounding).mean()) / 2
    deviations = values - effect
    scale = float((deviations**2).sum())
    acceleration = float((deviations**3).sum()) / (6 * scale**1.5)
    return Resampled(effect=effect, draws=draws, bias=float(stats.norm.ppf(below)), acceleration=acceleration)


def region_p(estimate: Estimate, low: float, high: float) -> tuple[float, float]:
    """Return the p's for and against "the effect lies in (low, high)".

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
    """Return Holm's adjusted p's, in the order given."""
    values = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    factors = len(values) - np.arange(len(values))
    adjusted = np.minimum(1.0, np.maximum.accumulate(values[order] * factors))
    found = np.empty(len(values))
    found[order] = adjusted
    return [float(p) for p in found]


def brown_forsythe(first: Array, second: Array) -> float:
    """Return the two-sided p of Brown and Forsythe's test that two groups have the same spread; 1-D arrays."""
    if np.ptp(first) == 0 and np.ptp(second) == 0:
        return 1.0
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
