"""From estimates to p's: tests of claimed regions and spreads, adjustments for testing several."""

from __future__ import annotations

import gc
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from analysis.statistics.estimates import Estimate

Array = npt.NDArray[np.float64]


def region_p(
    estimate: Estimate, low: float, high: float, *, one_sided: bool = False
) -> tuple[float, float]:
    """Return two p's of "the effect is in (low, high)": the first is small if that holds, the second if it does not.

    With one finite end, both are two-sided p's (twice the one-sided, at most 1), so that 0.05 goes with the 95 %
    interval; with `one_sided` the first is not doubled, which goes with the 90 % interval. With two finite ends, the
    first is that of two one-sided tests (TOST), which goes with the 90 % interval; the second is twice the smaller of
    the two one-sided p's beyond the ends.

    >>> from analysis.statistics.estimates import Student
    >>> estimate = Student(effect=1.0, error=0.5, df=8.0)
    >>> holds, fails = region_p(estimate, 0.0, np.inf)
    >>> f"above 0: p {holds:.3f}; not above: p {fails:.3f}"
    'above 0: p 0.081; not above: p 1.000'
    """
    # One-sided p's at one end: `inside` is small if the effect is on the region's side of it, `outside` if it
    # is on the other side.
    if np.isinf(low):
        inside, outside = estimate.p_below(high), estimate.p_above(high)
        return _doubled(inside), _doubled(outside)

    inside, outside = estimate.p_above(low), estimate.p_below(low)
    if np.isinf(high):
        p_for = inside if one_sided else _doubled(inside)
        return p_for, _doubled(outside)

    # Both ends are finite; so far, the p's are those of the low end. An effect is inside the region if it
    # passes the tests at both ends: the larger p counts and is not doubled (TOST). It is outside if it is
    # shown to be beyond one of the ends: the smaller p counts, and is doubled for the choice between them.
    inside = max(inside, estimate.p_below(high))
    outside = min(outside, estimate.p_above(high))
    return inside, _doubled(outside)


def _doubled(p: float) -> float:
    """Return the two-sided p of a one-sided one."""
    return min(1.0, 2 * p)


def partial_conjunction(p_values: Sequence[float], count: int) -> tuple[float, int]:
    """Return the p of "at least `count` of the statements hold" and the position of the statement that decides.

    By Benjamini and Heller (2008) it is (n - count + 1) times the count-th smallest p, valid however the tests depend
    on each other. For all of n that is the largest p, unadjusted (intersection-union); for one of n it is Bonferroni's.

    >>> partial_conjunction([0.2, 0.01, 0.02], count=2)
    (0.04, 2)
    """
    # Stable, so that of equal p's the first decides on every machine.
    order = np.argsort(np.asarray(p_values), kind="stable")
    position = int(order[count - 1])
    remaining = len(p_values) - count + 1
    return min(1.0, remaining * p_values[position]), position


def holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p's, in the order of `p_values`.

    Raises:
        ValueError: a p is not a number, which would make all larger ones unknown as well.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.02])]
    [0.03, 0.04, 0.04]
    """
    values = np.asarray(p_values, dtype=np.float64)
    is_missing = np.isnan(values)
    if is_missing.any():
        first = int(is_missing.argmax()) + 1  # counted from 1 in the message
        raise ValueError(f"p {first} of {len(values)} is not a number")

    if not len(values):
        return []
    # Imported here, since the import takes a tenth of a second.
    from statsmodels.stats.multitest import multipletests

    # Each call of `multipletests` collects garbage. Among all objects that a command has imported that takes 70 ms;
    # frozen objects are passed over.
    gc.freeze()
    try:
        # It returns several things, of which the second are the adjusted p's.
        return [float(p) for p in multipletests(values, method="holm")[1]]
    finally:
        gc.unfreeze()


def brown_forsythe(first: Array, second: Array) -> float:
    """Return the two-sided p of Brown and Forsythe's test that two groups have the same spread; arrays of any shape.

    >>> round(brown_forsythe(np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 5.0, 9.0, 13.0])), 3)
    0.045
    """
    # Without any spread the statistic is 0 / 0, though nothing differs.
    if np.ptp(first) == 0 and np.ptp(second) == 0:
        return 1.0
    from scipy import stats  # takes as long to import as a figure to draw

    # About the medians: that is Brown and Forsythe's variant of Levene's test, which heavy tails move less.
    test = stats.levene(first.ravel(), second.ravel(), center="median")
    return float(test.pvalue)


def spread_ratios(narrow: Array, wide: Array, picks: npt.NDArray[np.int64]) -> Array:
    """Return the log ratio of standard deviations on every resample of the seeds, which both groups share.

    Args:
        narrow: (n_conditions, n_seeds) scores; their standard deviation over both axes is the ratio's numerator.
        wide: (n_conditions, n_seeds) scores; theirs is the denominator.
        picks: (n_resamples, n_seeds) positions of the seeds that each resample draws.

    Returns:
        (n_resamples,); nan or infinite where a group has no spread in a resample.

    >>> narrow, wide = np.array([[1.0, 2.0, 3.0]]), np.array([[2.0, 4.0, 6.0]])
    >>> np.exp(spread_ratios(narrow, wide, np.array([[0, 1, 2]])))
    array([0.5])
    """
    # If a resample drew the same seed every time, its spread may be 0, of which NumPy's logarithm warns.
    with np.errstate(divide="ignore", invalid="ignore"):
        log_narrow = np.log(_spreads(narrow, picks))
        log_wide = np.log(_spreads(wide, picks))
        ratios: Array = log_narrow - log_wide
    return ratios


def _spreads(group: Array, picks: npt.NDArray[np.int64]) -> Array:
    """Return the standard deviation over all scores of a group on each resample."""
    # A seed is drawn under all conditions at once: they share it. Resamples become the first axis, and all scores of
    # one the second.
    drawn = group[:, picks].transpose(1, 0, 2).reshape(len(picks), -1)
    spreads: Array = drawn.std(axis=1, ddof=1)
    return spreads
