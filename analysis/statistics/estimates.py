"""Estimates of a contrast of scores with their errors: pure functions of numbers and arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from analysis.statistics import bounds
from analysis.statistics.resampling import Resamples, interpolated_quantiles
from analysis.statistics.studentised import Studentised, studentise

__all__ = [
    "Estimate", "Resampled", "Student", "Studentised", "expanded_bootstrap",
    "paired_estimate", "seed_bootstrap",
    "studentised_estimate", "welch_estimate",
]  # fmt: skip

Array = npt.NDArray[np.float64]


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

    def interval(self, level: float = bounds.LEVEL) -> tuple[float, float]:
        """Two-sided interval."""
        share = 0.5 + level / 2
        quantile = special.ndtri(share) if np.isinf(self.df) else special.stdtrit(self.df, share)
        half = float(quantile) * self.error
        return self.effect - half, self.effect + half

    def _tail(self, distance: float) -> float:
        if self.error == 0:
            return 0.0 if distance > 0 else 1.0
        ratio = distance / self.error
        return float(special.ndtr(-ratio) if np.isinf(self.df) else special.stdtr(self.df, -ratio))


@dataclass(frozen=True, kw_only=True)
class Resampled:
    """An estimate with a bootstrap distribution; its p's are those at which its interval would touch the bound.

    With `bias` and `acceleration` of 0 the interval is the percentile one, else BCa.
    """

    effect: float
    draws: Array
    """(n_resamples,), sorted."""
    counts: npt.NDArray[np.int64]
    """(n_resamples,) occurrences of each."""
    bias: float = 0.0
    acceleration: float = 0.0
    expand: Callable[[float], float] | None = None
    """From a nominal coverage to the share that an interval cuts off at each end; None: half of the rest."""
    shrink: Callable[[float], float] | None = None
    """From a share cut off at one end to the one-sided p; the inverse of `expand`."""

    @classmethod
    def of(cls, effect: float, draws: Array, counts: npt.NDArray[np.int64], **others: Any) -> Resampled:
        """Return the estimate of draws in any order."""
        order = np.argsort(draws, kind="stable")
        return cls(effect=effect, draws=draws[order], counts=counts[order], **others)

    def p_above(self, bound: float) -> float:
        """One-sided p of "the effect is at most `bound`"."""
        return self._level(bound)

    def p_below(self, bound: float) -> float:
        """One-sided p of "the effect is at least `bound`"."""
        return 1 - self._level(bound)

    def interval(self, level: float = bounds.LEVEL) -> tuple[float, float]:
        """Two-sided interval."""
        if self.expand is not None:
            level = 1 - 2 * self.expand(level)
        corrections = np.array(self.bias), np.array(self.acceleration)
        shares = bounds.accelerated_shares(*corrections, level)
        low, high = interpolated_quantiles(self.draws, self.counts, shares)
        return float(low), float(high)

    def _level(self, bound: float) -> float:
        """Return the one-sided level whose lower limit is `bound`, half a draw or more away from 0 and 1."""
        count = int(self.counts.sum())
        rounding = 1e-12 * max(abs(bound), abs(self.effect), 1.0)
        reached = np.concatenate([[0], np.cumsum(self.counts)])
        places = np.searchsorted(self.draws, [bound - rounding, bound + rounding])
        share = min(max(float(reached[places].sum()) / 2, 0.5), count - 0.5) / count
        if self.shrink is not None:
            return self.shrink(share) if share <= 0.5 else 1 - self.shrink(1 - share)
        shifted = float(special.ndtri(share)) - self.bias
        return float(special.ndtr(shifted / (1 + self.acceleration * shifted) - self.bias))


Estimate = Student | Resampled | Studentised
"""An estimated effect that can be held against bounds."""


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


def paired_estimate(values: Array) -> Student:
    """Return the mean of a contrast that was taken within each seed; values: (n_seeds,), two or more."""
    return Student(
        effect=float(values.mean()), error=float(bounds.standard_error(values)), df=float(len(values) - 1)
    )


def seed_bootstrap(values: Array, means: Array, resamples: Resamples, *, bca: bool = False) -> Resampled:
    """Return the bootstrap over seeds of a contrast taken within each seed.

    Args:
        values: (n_seeds,), two or more.
        means: (n_resamples,) over the resampled seeds.
        resamples: the resamples.
        bca: correct for bias and skewness (Efron 1987), as `bounds.bca_bounds` does.
    """
    effect = float(values.mean())
    corrections = bounds.bca_corrections(values, means, resamples, values - effect) if bca else (0.0, 0.0)
    bias, acceleration = (float(part) for part in corrections)
    return Resampled.of(effect, means, resamples.counts, bias=bias, acceleration=acceleration)


def expanded_bootstrap(values: Array, means: Array, resamples: Resamples) -> Resampled:
    """Return the bootstrap over seeds whose interval is the expanded percentile one; arguments as `seed_bootstrap`."""
    count = len(values)
    widening = math.sqrt(count / (count - 1))
    return Resampled.of(
        float(values.mean()), means, resamples.counts,
        expand=lambda level: bounds.expanded_tail(count, level),
        shrink=lambda share: float(special.stdtr(count - 1, special.ndtri(share) / widening)),
    )  # fmt: skip


def studentised_estimate(
    values: Array, resampled: Array, resamples: Resamples, *, symmetric: bool
) -> Studentised:
    """Return the studentised bootstrap over seeds of a contrast taken within each seed.

    Args:
        values: (n_seeds,), two or more.
        resampled: (n_resamples, n_seeds) the resampled seeds' values.
        resamples: the resamples.
        symmetric: see `Studentised`.
    """
    ratios, counts = studentise(values, resampled, resamples)
    return Studentised(
        effect=float(values.mean()), error=float(bounds.standard_error(values)), df=float(len(values) - 1),
        ratios=ratios, counts=counts, symmetric=symmetric,
    )  # fmt: skip
