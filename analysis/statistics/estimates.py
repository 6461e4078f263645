"""Estimates of a contrast with their errors: pure functions of numbers and arrays.

Every estimate has an interval, and one-sided p's that are the levels at which the interval would touch a bound.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
import numpy.typing as npt
from scipy import special

from analysis.statistics.resampling import Resamples

__all__ = [
    "LEVEL", "Estimate", "Resampled", "Student", "Studentised", "is_flat", "seed_bootstrap",
    "standard_error", "student_estimate", "studentised_estimate", "welch_estimate",
]  # fmt: skip

Array = npt.NDArray[np.float64]

LEVEL = 0.95
"""Nominal coverage."""


@dataclass(frozen=True, kw_only=True)
class Student:
    """An estimate whose error is Student's with `df` degrees of freedom (infinite: normal)."""

    effect: float
    error: float
    df: float
    instance_share: float = 0.0
    """Share of the squared error that comes from the test instances, 0 when they are held fixed."""

    def p_above(self, bound: float) -> float:
        """One-sided p of "the effect is at most `bound`"."""
        return self._tail(self.effect - bound)

    def p_below(self, bound: float) -> float:
        """One-sided p of "the effect is at least `bound`"."""
        return self._tail(bound - self.effect)

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Two-sided interval."""
        half = _quantile(self.df, level) * self.error
        return self.effect - half, self.effect + half

    def draws(self, count: int, rng: np.random.Generator) -> Array:
        """Return (count,) draws whose quantiles are the ends of the intervals."""
        ratios = rng.standard_normal(count) if np.isinf(self.df) else rng.standard_t(self.df, count)
        return self.effect + self.error * ratios

    def _tail(self, distance: float) -> float:
        if self.error == 0:
            return 0.0 if distance > 0 else 1.0
        ratio = distance / self.error
        return float(special.ndtr(-ratio) if np.isinf(self.df) else special.stdtr(self.df, -ratio))


@dataclass(frozen=True, kw_only=True)
class Resampled:
    """An estimate with a bootstrap distribution of itself.

    With `bias` and `acceleration` of 0 the interval is the percentile one, else BCa (Efron 1987).
    """

    effect: float
    drawn: Array
    """(n_resamples,) ascending, each as often as it occurs."""
    bias: float = 0.0
    acceleration: float = 0.0
    error: float = math.nan
    df: float = math.nan

    def p_above(self, bound: float) -> float:
        """One-sided p of "the effect is at most `bound`"."""
        return self._level(bound)

    def p_below(self, bound: float) -> float:
        """One-sided p of "the effect is at least `bound`"."""
        return 1 - self._level(bound)

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Two-sided interval."""
        shifted = self.bias + special.ndtri(np.array([(1 - level) / 2, (1 + level) / 2]))
        shares = special.ndtr(self.bias + shifted / (1 - self.acceleration * shifted))
        low, high = np.quantile(self.drawn, shares)
        return float(low), float(high)

    def draws(self, count: int, rng: np.random.Generator) -> Array:
        """Return (count,) draws whose quantiles are the ends of the intervals."""
        shifted = self.bias + rng.standard_normal(count)
        shares = special.ndtr(self.bias + shifted / (1 - self.acceleration * shifted))
        found: Array = np.quantile(self.drawn, shares)
        return found

    def _level(self, bound: float) -> float:
        """Return the one-sided level whose lower limit is `bound`, half a draw or more away from 0 and 1."""
        count = len(self.drawn)
        rounding = 1e-12 * max(abs(bound), abs(self.effect), 1.0)
        below = float(np.searchsorted(self.drawn, [bound - rounding, bound + rounding]).mean())
        share = min(max(below, 0.5), count - 0.5) / count
        shifted = float(special.ndtri(share)) - self.bias
        return float(special.ndtr(shifted / (1 + self.acceleration * shifted) - self.bias))


@dataclass(frozen=True, kw_only=True)
class Studentised:
    """An estimate with a bootstrap distribution of t* = (resampled effect - effect) / resampled error.

    equal tails       quantiles of t* (Efron and Tibshirani 1993, chapter 12)
    symmetric         one quantile of |t*| for both sides (Hall 1988), and never less than Student's
    """

    effect: float
    error: float
    df: float
    """Degrees of freedom of Student's t, below whose quantiles the symmetric interval never falls."""
    ratios: Array
    """t* of every resample that has an error, ascending."""
    symmetric: bool

    def p_above(self, bound: float) -> float:
        """One-sided p of "the effect is at most `bound`"."""
        return self._tail((self.effect - bound) / self.error, 1)

    def p_below(self, bound: float) -> float:
        """One-sided p of "the effect is at least `bound`"."""
        return self._tail((bound - self.effect) / self.error, -1)

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Two-sided interval."""
        if self.symmetric:
            half = max(float(_reaching(self._sizes, level)), _quantile(self.df, level)) * self.error
            return self.effect - half, self.effect + half
        share = 0.5 + level / 2
        above, below = float(_reaching(self.ratios, share)), float(_reaching(-self.ratios[::-1], share))
        return self.effect - above * self.error, self.effect + below * self.error

    def draws(self, count: int, rng: np.random.Generator) -> Array:
        """Return (count,) draws whose quantiles are the ends of the intervals."""
        if not self.symmetric:
            drawn: Array = rng.choice(self.ratios, count)
            return self.effect - self.error * drawn
        levels = rng.random(count)
        sides = np.where(rng.random(count) < 0.5, -self.error, self.error)
        sizes = np.maximum(_reaching(self._sizes, levels), special.stdtrit(self.df, 0.5 + levels / 2))
        drawn = sides * sizes
        return self.effect + drawn

    @cached_property
    def _sizes(self) -> Array:
        return np.sort(np.abs(self.ratios))

    def _tail(self, ratio: float, sign: int) -> float:
        """Return the one-sided p of an effect `ratio` errors on the claimed side of a bound, `sign` 1: above it."""
        total, rounding = len(self.ratios), 1e-12 * abs(ratio)
        if not self.symmetric:
            ordered = self.ratios if sign > 0 else -self.ratios[::-1]
            reached = total - int(np.searchsorted(ordered, ratio - rounding))
            return min(max(reached, 0.5), total - 0.5) / total
        beyond = (total - int(np.searchsorted(self._sizes, abs(ratio) - rounding))) / total / 2
        beyond = max(beyond, float(special.stdtr(self.df, -abs(ratio))))
        return beyond if ratio > 0 else 1 - beyond


Estimate = Student | Resampled | Studentised
"""An estimated effect that can be held against bounds."""


def standard_error(values: Array) -> float:
    """Return sd / sqrt(n) with the sample standard deviation; nan for one value."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else math.nan


def is_flat(values: Array) -> bool:
    """Whether all values are alike but for rounding."""
    return bool(np.ptp(values) <= 1e-12 * max(abs(float(values.mean())), 1.0))


def student_estimate(values: Array, if_flat: float = 0.0) -> Student:
    """Return the mean of scores, or of a contrast taken within each seed.

    Args:
        values: (n_seeds,), two or more.
        if_flat: standard error where all values are alike.
    """
    error = if_flat if is_flat(values) else standard_error(values)
    return Student(effect=float(values.mean()), error=error, df=float(len(values) - 1))


def welch_estimate(means: Array, errors: Array, counts: Array, weights: Array) -> Student:
    """Return the weighted sum of independent means with Welch-Satterthwaite degrees of freedom.

    Args:
        means: (n,) means over seeds.
        errors: (n,) their standard errors.
        counts: (n,) seeds behind each.
        weights: (n,).
    """
    # Exact sums: a product of vectors rounds as the processor likes, and some effects are on a printed tie.
    effect = math.fsum(weights * means)
    parts = (weights * errors) ** 2
    variance = math.fsum(parts)
    if variance == 0:
        return Student(effect=effect, error=0.0, df=float(counts.min() - 1))
    df = variance**2 / math.fsum(parts**2 / (counts - 1))
    return Student(effect=effect, error=math.sqrt(variance), df=df)


def seed_bootstrap(values: Array, drawn: Array, resamples: Resamples, *, bca: bool = False) -> Resampled:
    """Return the bootstrap over seeds of a mean, or of a contrast taken within each seed.

    Args:
        values: (n_seeds,), two or more, not all alike.
        drawn: (n_resamples, n_seeds) the resampled seeds' values.
        resamples: the resamples.
        bca: correct for bias and skewness (Efron 1987).
    """
    effect = float(values.mean())
    # Summed in one order, so that every machine rounds alike.
    means = np.sort(np.repeat(reduce(operator.add, drawn.T) / len(values), resamples.counts))
    if not bca:
        return Resampled(effect=effect, drawn=means)
    rounding = 1e-12 * max(abs(effect), 1.0)
    below = np.searchsorted(means, effect - rounding), np.searchsorted(means, effect + rounding, "right")
    apart = values - effect
    acceleration = float((apart**3).sum() / (6 * (apart**2).sum() ** 1.5))
    bias = float(special.ndtri(sum(below) / (2 * len(means))))
    return Resampled(effect=effect, drawn=means, bias=bias, acceleration=acceleration)


def studentised_estimate(values: Array, drawn: Array, resamples: Resamples) -> Student | Studentised:
    """Return the symmetric studentised bootstrap over seeds of a mean, or of a contrast taken within each seed.

    A resample of one value alone has no error and no t*; where no resample has one, Student's t stands in.

    Args:
        values: (n_seeds,), two or more, not all alike.
        drawn: (n_resamples, n_seeds) the resampled seeds' values.
        resamples: the resamples.
    """
    student = student_estimate(values)
    means = drawn.mean(axis=1)
    errors = drawn.std(axis=1, ddof=1) / math.sqrt(len(values))
    sound = np.ptp(drawn, axis=1) > 1e-12 * max(abs(student.effect), 1.0)
    if not sound.any():
        return student
    ratios = np.repeat((means - student.effect)[sound] / errors[sound], resamples.counts[sound])
    return Studentised(
        effect=student.effect, error=student.error, df=student.df, ratios=np.sort(ratios), symmetric=True
    )


def _reaching(ordered: Array, shares: npt.ArrayLike) -> Array:
    """Return the smallest of ascending values up to which each share of them is."""
    places = np.ceil(np.asarray(shares) * len(ordered) * (1 - 1e-12)).astype(np.int64) - 1
    found: Array = ordered[np.clip(places, 0, len(ordered) - 1)]
    return found


def _quantile(df: float, level: float) -> float:
    """Return the two-sided quantile of Student's t."""
    share = 0.5 + level / 2
    return float(special.ndtri(share) if np.isinf(df) else special.stdtrit(df, share))
