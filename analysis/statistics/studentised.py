"""The studentised bootstrap of a mean over seeds: the mean's error is estimated again on every resample.

t* = (resample's mean - mean) / resample's standard error takes the place of Student's t, so that seeds that are not
normal (one in ten collapses, say) get an interval as wide as their own resamples say. Two kinds:

equal tails       quantiles of t* (Efron and Tibshirani 1993, chapter 12)
symmetric         one quantile of |t*| for both sides (Hall 1988), and never less than Student's

A resample of one value alone has no error and no t*; it is left out. Where no resample has one, Student's t stands in.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt
from scipy import special

from analysis.statistics.bounds import LEVEL, Bounds, rounding_of, standard_error
from analysis.statistics.resampling import Resamples, mean_in_order, smallest_reaching

__all__ = ["Studentised", "equal_tailed_bounds", "studentise", "symmetric_bounds"]

Array = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


def studentise(values: Array, resampled: Array, resamples: Resamples) -> tuple[Array, Counts]:
    """Return t* of every resample, and how often each occurs.

    Args:
        values: (..., n_seeds), two or more.
        resampled: (..., n_resamples, n_seeds) the resampled seeds' values.
        resamples: the resamples.

    Returns:
        Both (..., n_resamples); a resample without spread has t* 0 and occurs 0 times.
    """
    count = values.shape[-1]
    mean = values.mean(axis=-1, keepdims=True)
    columns = [resampled[..., place] for place in range(count)]
    means = mean_in_order(columns, count)
    variance = mean_in_order(((column - means) ** 2 for column in columns), count) * (count / (count - 1))
    flat = reduce(np.maximum, columns) - reduce(np.minimum, columns) <= rounding_of(mean)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = (means - mean) / np.sqrt(variance / count)
    return np.where(flat, 0.0, ratios), np.where(flat, 0, resamples.counts)


def equal_tailed_bounds(
    values: Array, resampled: Array, resamples: Resamples, level: float = LEVEL
) -> Bounds:
    """Return the bootstrap-t interval; arguments as `studentise`, and the nominal coverage."""
    ratios, counts = studentise(values, resampled, resamples)
    tail = (1 - level) / 2
    above, below = (smallest_reaching(sign * ratios, counts, 1 - tail) for sign in (1, -1))
    mean, error = values.mean(axis=-1), standard_error(values)
    known = counts.sum(axis=-1) > 0
    student = _student(values.shape[-1], level)
    return mean - np.where(known, above, student) * error, mean + np.where(known, below, student) * error


def symmetric_bounds(values: Array, resampled: Array, resamples: Resamples, level: float = LEVEL) -> Bounds:
    """Return the symmetric studentised interval, at least as wide as Student's; arguments as `equal_tailed_bounds`."""
    ratios, counts = studentise(values, resampled, resamples)
    factor = np.maximum(smallest_reaching(np.abs(ratios), counts, level), _student(values.shape[-1], level))
    mean, half = values.mean(axis=-1), factor * standard_error(values)
    return mean - half, mean + half


def _student(count: int, level: float) -> float:
    return float(special.stdtrit(count - 1, 0.5 + level / 2))


@dataclass(frozen=True, kw_only=True)
class Studentised:
    """An estimate with a distribution of t*; its p's are those at which its interval would touch the bound."""

    effect: float
    error: float
    """Standard error."""
    df: float
    """Degrees of freedom of Student's t, below whose quantiles the symmetric interval never falls."""
    ratios: Array
    """(n_resamples,) of t*."""
    counts: Counts
    """(n_resamples,) occurrences of each."""
    symmetric: bool
    """Whether both sides share the quantiles of |t*|, and Student's as the least."""

    def p_above(self, bound: float) -> float:
        """One-sided p of "the effect is at most `bound`"."""
        return self._tail(self.effect - bound, 1)

    def p_below(self, bound: float) -> float:
        """One-sided p of "the effect is at least `bound`"."""
        return self._tail(bound - self.effect, -1)

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Two-sided interval."""
        student = float(special.stdtrit(self.df, 0.5 + level / 2))
        if self.symmetric:
            factor = max(float(smallest_reaching(np.abs(self.ratios), self.counts, level)), student)
            return self.effect - factor * self.error, self.effect + factor * self.error
        above, below = student, student
        if self.counts.any():
            share = 0.5 + level / 2
            above, below = (
                float(smallest_reaching(sign * self.ratios, self.counts, share)) for sign in (1, -1)
            )
        return self.effect - above * self.error, self.effect + below * self.error

    def _tail(self, distance: float, sign: int) -> float:
        """Return the one-sided p of an effect that is `distance` on the claimed side of a bound.

        `sign`: 1 when the claimed side is above.
        """
        if self.error == 0:
            return 0.0 if distance > 0 else 1.0
        ratio = distance / self.error
        student = float(special.stdtr(self.df, -ratio))
        total = int(self.counts.sum())
        if total == 0:
            return student
        if not self.symmetric:
            reached = self._share(sign * self.ratios >= ratio - 1e-12 * abs(ratio))
            return min(max(reached, 0.5 / total), 1 - 0.5 / total)
        beyond = max(
            self._share(np.abs(self.ratios) >= abs(ratio) * (1 - 1e-12)) / 2, min(student, 1 - student)
        )
        return beyond if ratio > 0 else 1 - beyond

    def _share(self, which: npt.NDArray[np.bool_]) -> float:
        return float(self.counts[which].sum() / self.counts.sum())
