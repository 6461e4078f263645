"""95 % bounds of a mean over seeds: pure functions of arrays.

Each takes scores with the seeds on the last axis and returns (low, high) with that axis gone. One seed gives
nan: there is no spread to see. Which of them an interval uses: `analysis.statistics.interval_kinds`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import special

from analysis.published_cells import NORMAL_QUANTILE
from analysis.statistics.resampling import Picks, Resamples, interpolated_quantiles, mean_in_order

__all__ = [
    "LEVEL", "Bounds", "accelerated_shares", "bca_bounds", "bca_corrections", "expanded_tail",
    "hierarchical_bounds", "normal_bounds", "percentile_bounds", "rounding_of", "standard_error",
    "t_bounds",
]  # fmt: skip

Array = npt.NDArray[np.float64]
Bounds = tuple[Array, Array]

LEVEL = 0.95
"""Nominal coverage."""


def standard_error(values: Array) -> Array:
    """Return sd / sqrt(n) over the last axis (sample sd, ddof 1); nan where n is 1."""
    count = values.shape[-1]
    if count < 2:
        return np.full(values.shape[:-1], np.nan)
    error: Array = values.std(axis=-1, ddof=1) / np.sqrt(count)
    return error


def normal_bounds(values: Array) -> Bounds:
    """Return the paper's interval: mean +- 1.96 sd / sqrt(n), ddof 1. values: (..., n_seeds)."""
    return _around_mean(values, NORMAL_QUANTILE * standard_error(values))


def t_bounds(values: Array, level: float = LEVEL) -> Bounds:
    """Return Student's interval with n - 1 degrees of freedom. values: (..., n_seeds)."""
    quantile = special.stdtrit(values.shape[-1] - 1, 0.5 + level / 2)
    return _around_mean(values, quantile * standard_error(values))


def expanded_tail(count: int, level: float = LEVEL) -> float:
    """Return the share cut off at each end by the expanded percentile interval of `count` seeds (Hesterberg 2015).

    The percentile interval of n values is narrow by sqrt((n - 1) / n) and by the normal in place of Student's
    quantiles; cutting off less makes up for both where scores are normal and n is large.
    """
    quantile = special.stdtrit(count - 1, 0.5 + level / 2)
    return float(special.ndtr(-np.sqrt(count / (count - 1)) * quantile))


def percentile_bounds(means: Array, resamples: Resamples, tail: float = (1 - LEVEL) / 2) -> Bounds:
    """Return the percentile bootstrap interval of the mean over seeds.

    Args:
        means: (..., n_resamples) over the resampled seeds.
        resamples: the resamples; the same serve all leading axes, so an interval depends neither on its neighbours nor
            on their order.
        tail: share cut off at each end.
    """
    bounds = interpolated_quantiles(means, resamples.counts, [tail, 1 - tail])
    return bounds[..., 0], bounds[..., 1]


def bca_bounds(values: Array, means: Array, resamples: Resamples, level: float = LEVEL) -> Bounds:
    """Return the bias-corrected and accelerated bootstrap interval (Efron 1987).

    Where all seeds agree the interval is that one value.

    Args:
        values: (..., n_seeds), two or more.
        means: (..., n_resamples) over the resampled seeds.
        resamples: the resamples.
        level: nominal coverage.
    """
    left_out = (values.sum(axis=-1, keepdims=True) - values) / (values.shape[-1] - 1)
    deviations = left_out.mean(axis=-1, keepdims=True) - left_out
    shares = accelerated_shares(*bca_corrections(values, means, resamples, deviations), level)
    bounds = interpolated_quantiles(means, resamples.counts, shares)
    return bounds[..., 0], bounds[..., 1]


def bca_corrections(values: Array, means: Array, resamples: Resamples, deviations: Array) -> Bounds:
    """Return bias and acceleration of the mean over seeds; both 0 where all seeds agree.

    Args:
        values: (..., n_seeds), two or more.
        means: (..., n_resamples) over the resampled seeds.
        resamples: the resamples.
        deviations: (..., n_seeds) of the values from their mean, at any positive scale, which cancels: each caller
            takes those that round as its printed results do.
    """
    mean = values.mean(axis=-1, keepdims=True)
    rounding = rounding_of(mean)
    twice = (means < mean - rounding).astype(np.int64) + (means <= mean + rounding)
    below = (twice @ resamples.counts) / (2 * resamples.total)
    constant = np.ptp(values, axis=-1) <= rounding[..., 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        acceleration = (deviations**3).sum(axis=-1) / (6 * (deviations**2).sum(axis=-1) ** 1.5)
    return np.where(constant, 0.0, special.ndtri(below)), np.where(constant, 0.0, acceleration)


def accelerated_shares(bias: Array, acceleration: Array, level: float = LEVEL) -> Array:
    """Return the shares of the resampled means that the BCa bounds cut off: (..., 2)."""
    shifted = bias[..., None] + special.ndtri(np.array([(1 - level) / 2, (1 + level) / 2]))
    with np.errstate(divide="ignore", invalid="ignore"):
        shares: Array = special.ndtr(bias[..., None] + shifted / (1 - acceleration[..., None] * shifted))
    return shares


def hierarchical_bounds(resampled: Array, picks: Picks, level: float = LEVEL) -> Bounds:
    """Return the percentile interval of a bootstrap over seeds and test instances at once.

    Args:
        resampled: (..., resamples, n_seeds), each seed's score on one resample of the test instances (the same
            resample for all seeds of a row; see `analysis.statistics.instance_bootstrap`).
        picks: (resamples, n_seeds) indices of `resampling.draw_picks`.
        level: nominal coverage.
    """
    tail = (1 - level) / 2
    rows = np.arange(len(picks))
    means = mean_in_order((resampled[..., rows, place] for place in picks.T), picks.shape[1])
    low, high = np.quantile(means, [tail, 1 - tail], axis=-1)
    return low, high


def _around_mean(values: Array, half: Array) -> Bounds:
    mean = values.mean(axis=-1)
    return mean - half, mean + half


def rounding_of(mean: Array) -> Array:
    """Return the difference below which scores about `mean` count as equal."""
    return 1e-12 * np.maximum(np.abs(mean), 1.0)
