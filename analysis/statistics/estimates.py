"""Estimates of a contrast with their errors: pure functions of numbers and arrays.

Every estimate has an interval, and one-sided p's that are the levels at which the interval would touch a bound. Means
of samples and the difference of two have their errors and degrees of freedom from statsmodels; where only means and
errors are known, and for sums of many, Welch's formula is written out.

Six seeds have 6^6 = 46,656 resamples, of which 462 differ by more than their order. Listing those with the number of
times each occurs gives what infinitely many draws would: a bootstrap that depends on no generator.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import combinations_with_replacement

import numpy as np
import numpy.typing as npt
from scipy import special

import analysis.statistics.deferred_stats  # noqa: F401  (before statsmodels)
from common.level import LEVEL

Array = npt.NDArray[np.float64]

LIMITS = (0.0, 100.0)
"""Least and largest score, in percent."""
MOST_ENUMERATED = 6
"""Seeds up to which every resample is listed."""


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
        half = quantile(self.df, level) * self.error
        return self.effect - half, self.effect + half

    def _tail(self, distance: float) -> float:
        """Return the one-sided p; `distance`: how far the effect is on the claimed side of the bound, else below 0."""
        # Without an error the effect is known exactly: it is on the claimed side of the bound or it is not.
        if self.error == 0:
            return 0.0 if distance > 0 else 1.0
        ratio = distance / self.error
        if np.isinf(self.df):
            return float(special.ndtr(-ratio))
        return float(special.stdtr(self.df, -ratio))


@dataclass(frozen=True, kw_only=True)
class Resampled:
    """An estimate with a bootstrap distribution of itself, and the percentile interval."""

    effect: float
    drawn: Array
    """(n_resamples,) ascending, each as often as it occurs."""
    error: float = math.nan
    df: float = math.nan

    def p_above(self, bound: float) -> float:
        """One-sided p of "the effect is at most `bound`"."""
        return self._share_below(bound)

    def p_below(self, bound: float) -> float:
        """One-sided p of "the effect is at least `bound`"."""
        return 1 - self._share_below(bound)

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Two-sided percentile interval."""
        low, high = np.quantile(self.drawn, [(1 - level) / 2, (1 + level) / 2])
        return float(low), float(high)

    def _share_below(self, bound: float) -> float:
        """Return the share of the draws below `bound`, ties counted half, at least half a draw away from 0 and from 1.

        The share stays away from 0 and 1, since no number of draws shows that a p is 0.
        """
        count = len(self.drawn)
        # Sums in another order differ in the last digits; an effect that equals the bound must still tie with it.
        rounding = 1e-12 * max(abs(bound), abs(self.effect), 1.0)
        # The mean of how many draws are below the bound, and how many are below it or tie with it.
        places = np.searchsorted(self.drawn, [bound - rounding, bound + rounding])
        below = float(places.mean())
        return min(max(below, 0.5), count - 0.5) / count


@dataclass(frozen=True, kw_only=True)
class Studentised:
    """An estimate with a bootstrap distribution of t* = (resampled effect - effect) / resampled error.

    Its interval is of one of two kinds:

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
    """Which kind the interval is of."""

    def p_above(self, bound: float) -> float:
        """One-sided p of "the effect is at most `bound`"."""
        return self._tail((self.effect - bound) / self.error, 1)

    def p_below(self, bound: float) -> float:
        """One-sided p of "the effect is at least `bound`"."""
        return self._tail((bound - self.effect) / self.error, -1)

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Two-sided interval."""
        if self.symmetric:
            resampled = float(_reaching(self._sizes, level))
            # The half-width in standard errors.
            limit = max(resampled, quantile(self.df, level))
            half = limit * self.error
            return self.effect - half, self.effect + half
        share = 0.5 + level / 2
        # By how much resamples are too high, the estimate itself may be too high: the upper quantile of t* is
        # subtracted and gives the lower end.
        too_high = float(_reaching(self.ratios, share)) * self.error
        too_low = float(_reaching(self._mirrored, share)) * self.error
        return self.effect - too_high, self.effect + too_low

    @cached_property
    def _sizes(self) -> Array:
        """|t*|, ascending."""
        return np.sort(np.abs(self.ratios))

    @property
    def _mirrored(self) -> Array:
        """-t*, ascending."""
        return -self.ratios[::-1]

    def _tail(self, ratio: float, sign: int) -> float:
        """Return the one-sided p of "the effect is not on the claimed side of the bound".

        Args:
            ratio: how many errors the effect is on the claimed side; below 0 where it is on the other.
            sign: 1 where the claimed side is above the bound, -1 where it is below.
        """
        total = len(self.ratios)
        size = abs(ratio)
        # A resample whose ratio is this one but for rounding counts as reaching it.
        rounding = 1e-12 * size
        if not self.symmetric:
            # The share of resamples whose ratio reaches this one.
            ordered = self.ratios if sign > 0 else self._mirrored
            below = int(np.searchsorted(ordered, ratio - rounding))
            reached = total - below
            # At least half a draw: no number of resamples shows that a p is 0.
            return min(max(reached, 0.5), total - 0.5) / total

        below = int(np.searchsorted(self._sizes, size - rounding))
        # A symmetric distribution has half of the ratios of this size on either side. The p, like the interval, never
        # says more than Student's, so that it is not 0 where no resample reaches this size.
        resampled = (total - below) / total / 2
        student = float(special.stdtr(self.df, -size))
        beyond = max(resampled, student)
        # Where the effect is on the other side of the bound, the p is a half or more.
        return beyond if ratio > 0 else 1 - beyond


Estimate = Student | Resampled | Studentised
"""An estimated effect with its distribution, which gives intervals and p's against bounds."""


def is_flat(values: Array) -> bool:
    """Whether all values are alike but for rounding.

    >>> is_flat(np.array([91.2, 91.2, 91.2]))
    True
    """
    # The mean of equal floats may differ from them in the last digit.
    rounding = 1e-12 * max(abs(float(values.mean())), 1.0)
    return bool(values.max() - values.min() <= rounding)


def student_estimate(values: Array) -> Student:
    """Return the mean of a sample with its standard error.

    Args:
        values: (n_seeds,) scores, or a contrast taken within each seed; two or more. Where all are alike, the error is
            0.

    >>> estimate = student_estimate(np.array([90.0, 91.0, 92.0]))
    >>> low, high = estimate.interval()
    >>> f"{estimate.effect} [{low:.2f}, {high:.2f}]"
    '91.0 [88.52, 93.48]'
    """
    if is_flat(values):
        mean = float(values.mean())
        return Student(effect=mean, error=0.0, df=float(len(values) - 1))

    # Imported here, since the import takes a tenth of a second.
    from statsmodels.stats.weightstats import DescrStatsW

    sample = DescrStatsW(values)
    return Student(
        effect=float(sample.mean),
        error=float(sample.std_mean),
        df=float(sample.nobs - 1),
    )


def difference_estimate(first: Array, second: Array) -> Student:
    """Return the difference of the means of two samples whose spreads may differ (Welch).

    Both are arrays of one dimension, and neither has only equal values.

    >>> first, second = np.array([90.0, 91.0, 92.0]), np.array([88.0, 89.0, 91.0])
    >>> estimate = difference_estimate(first, second)
    >>> f"{estimate.effect:.2f}, error {estimate.error:.2f}, df {estimate.df:.2f}"
    '1.67, error 1.05, df 3.45'
    """
    from statsmodels.stats.weightstats import CompareMeans, DescrStatsW

    pair = CompareMeans(DescrStatsW(first), DescrStatsW(second))
    seeds = (len(first), len(second))
    df = float(pair.dof_satt())
    if few_against_many(seeds):  # Welch's df are too many there
        df = float(min(seeds) - 1)
    effect = float(pair.d1.mean - pair.d2.mean)
    error = float(pair.std_meandiff_separatevar)
    return Student(effect=effect, error=error, df=df)


def few_against_many(seeds: Sequence[float]) -> bool:
    """Whether the smaller of two samples is so small that its degrees of freedom take the place of Welch's.

    With equal spreads Welch's t leads falsely in 6.3 % (2 seeds against 5, 3 against 10) to 12.5 % of cases (2 against
    30), where 5 % are meant; of other sizes in at most 6.3 %.

    >>> few_against_many([2, 5]), few_against_many([5, 5])
    (True, False)
    """
    if len(seeds) != 2:
        return False
    fewer, more = sorted(seeds)
    return (fewer == 2 and more >= 5) or (fewer == 3 and more >= 10)


def welch_estimate(
    means: Array, errors: Array, counts: Array, weights: Array
) -> Student:
    """Return the weighted sum of independent means with Welch-Satterthwaite degrees of freedom.

    Args:
        means: (n,) means over seeds; the scores by seed are not needed.
        errors: (n,) standard errors of the means.
        counts: (n,) seeds of each mean.
        weights: (n,) of the means in the sum.

    >>> means, errors = np.array([91.0, 89.0]), np.array([0.3, 0.4])
    >>> estimate = welch_estimate(means, errors, np.array([5, 5]), np.array([1, -1]))
    >>> f"{estimate.effect}, error {estimate.error:.2f}, df {estimate.df:.2f}"
    '2.0, error 0.50, df 7.42'
    """
    # Exact sums: a product of vectors rounds differently on each processor, and some effects lie halfway between two
    # numbers of the printed digits.
    effect = math.fsum(weights * means)
    parts = (weights * errors) ** 2
    variance = math.fsum(parts)
    smallest_df = float(counts.min() - 1)
    if variance == 0:
        return Student(effect=effect, error=0.0, df=smallest_df)
    uncertain = math.fsum(parts**2 / (counts - 1))
    df = variance**2 / uncertain
    if few_against_many(counts.tolist()):  # Welch's df are too many there
        df = smallest_df
    return Student(effect=effect, error=math.sqrt(variance), df=df)


@dataclass(frozen=True, kw_only=True)
class Resamples:
    """Resamples of n seeds, with how often each of them occurs."""

    picks: npt.NDArray[np.int64]
    """(n_resamples, n_seeds) positions of the seeds that each resample draws."""
    counts: npt.NDArray[np.int64]
    """(n_resamples,) how often each resample occurs."""

    @classmethod
    def of_seeds(cls, count: int, resamples: int, seed: int) -> Resamples:
        """Return every resample of up to `MOST_ENUMERATED` seeds, else `resamples` that a generator draws by `seed`."""
        # Where all resamples are listed, no bound depends on a generator.
        if count <= MOST_ENUMERATED:
            return every_resample(count)
        # The count as well: samples of different sizes must not share draws.
        generator = np.random.default_rng([seed, count])
        picks = generator.integers(0, count, size=(resamples, count))
        return cls(picks=picks, counts=np.ones(resamples, dtype=np.int64))


@cache
def every_resample(count: int) -> Resamples:
    """Return all resamples of `count` seeds: each multiset once, with the number of its orders.

    >>> resamples = every_resample(2)
    >>> resamples.picks.tolist(), resamples.counts.tolist()
    ([[0, 0], [0, 1], [1, 1]], [1, 2, 1])
    """
    multisets = list(combinations_with_replacement(range(count), count))
    counts = []
    for multiset in multisets:
        # The multinomial coefficient: the number of orders of these picks, where an exchange of equal picks gives no
        # other order.
        exchanges = 1
        for times in Counter(multiset).values():
            exchanges *= math.factorial(times)
        counts.append(math.factorial(count) // exchanges)

    return Resamples(
        picks=np.array(multisets, dtype=np.int64),
        counts=np.array(counts, dtype=np.int64),
    )


def seed_bootstrap(values: Array, resamples: Resamples) -> Resampled:
    """Return the percentile bootstrap over seeds of a mean, or of a contrast taken within each seed.

    Args:
        values: (n_seeds,), two or more, not all alike.
        resamples: resamples of as many seeds.

    >>> scores = np.array([90.0, 91.0, 92.0])
    >>> low, high = seed_bootstrap(scores, every_resample(3)).interval()
    >>> f"[{low:.2f}, {high:.2f}]"
    '[90.22, 91.78]'
    """
    drawn = values[resamples.picks]
    # Summed pick by pick, in one order, so that every machine rounds alike.
    sums = np.zeros(len(drawn))
    for scores in drawn.T:
        sums += scores
    means = sums / len(values)
    repeated = np.repeat(means, resamples.counts)
    return Resampled(effect=float(values.mean()), drawn=np.sort(repeated))


def apart_bootstrap(
    rows: Sequence[Array], weights: Sequence[float], resamples: int, seed: int
) -> Resampled:
    """Return the percentile bootstrap of a weighted sum of means, with the seeds of each mean drawn independently.

    The estimates of A - B and B - A mirror each other.

    Args:
        rows: of each mean the (n_seeds,) scores.
        weights: of the means.
        resamples: number of resamples.
        seed: of the generator.

    >>> first, second = np.array([90.0, 91.0, 92.0]), np.array([88.0, 89.0, 91.0])
    >>> estimate = apart_bootstrap([first, second], [1, -1], resamples=9999, seed=0)
    >>> [round(bound, 2) for bound in estimate.interval()]
    [0.0, 3.33]
    """
    drawn = np.zeros(resamples)
    means = []
    copies: Counter[bytes] = Counter()
    for row, weight in zip(rows, weights, strict=True):
        # The key comes from a row's scores, not from its place, so that A - B and B - A have the same draws; the
        # number of its copy keeps equal rows apart.
        scores = row.tobytes()
        key = [seed, zlib.crc32(scores), copies[scores]]
        copies[scores] += 1
        shape = (resamples, len(row))
        picks = np.random.default_rng(key).integers(0, len(row), shape)
        drawn += weight * row[picks].mean(axis=1)
        means.append(weight * row.mean())

    return Resampled(effect=math.fsum(means), drawn=np.sort(drawn))


def _reaching(ordered: Array, shares: npt.ArrayLike) -> Array:
    """Return for each share the smallest of ascending values such that at least this share of them is not above it."""
    # Made a little smaller: a product that rounding puts just above a whole number must not count one value more.
    counts = np.ceil(np.asarray(shares) * len(ordered) * (1 - 1e-12))
    places = counts.astype(np.int64) - 1
    reaching: Array = ordered[np.clip(places, 0, len(ordered) - 1)]
    return reaching


def quantile(df: float, level: float) -> float:
    """Return the limit within which Student's t (normal for infinite `df`) is, on both sides of 0, with `level`.

    >>> round(quantile(4.0, 0.95), 3), round(quantile(float("inf"), 0.95), 3)
    (2.776, 1.96)
    """
    share = 0.5 + level / 2
    if np.isinf(df):
        return float(special.ndtri(share))
    return float(special.stdtrit(df, share))
