"""95 % intervals of a mean over seeds: pure functions of arrays and a `numpy.random.Generator`.

Each takes scores with the seeds on the last axis and returns (low, high) with that axis gone. One seed gives
nan: there is no spread to see. Which interval to use, and what each one's true coverage is: docs/intervals.md.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from scipy import special

from analysis.published_cells import NORMAL_QUANTILE

__all__ = [
    "DEFAULT_SEED", "INTERVALS", "LEVEL", "RESAMPLES", "bca_interval", "hierarchical_interval", "paper_interval",
    "percentile_interval", "resample_seeds", "standard_error", "t_interval",
]  # fmt: skip

Array = npt.NDArray[np.float64]
Bounds = tuple[Array, Array]

INTERVALS = ("paper", "t", "bootstrap", "bca", "hierarchical")
"""`paper`: 1.96 sd/sqrt(n); `t`: Student's; `bootstrap` and `bca`: over seeds; `hierarchical`: seeds and instances."""

LEVEL = 0.95
RESAMPLES = 10_000
DEFAULT_SEED = 20250701
"""Seed of the resampling when none is given; the paper's first day on arXiv."""


def standard_error(values: Array) -> Array:
    """Return sd / sqrt(n) over the last axis (sample sd, ddof 1); nan where n is 1."""
    count = values.shape[-1]
    if count < 2:
        return np.full(values.shape[:-1], np.nan)
    spread: Array = values.std(axis=-1, ddof=1)
    error: Array = spread / np.sqrt(count)
    return error


def paper_interval(values: Array) -> Bounds:
    """Return the paper's interval: mean +- 1.96 sd / sqrt(n), ddof 1. values: (..., n_seeds)."""
    half = NORMAL_QUANTILE * standard_error(values)
    mean = values.mean(axis=-1)
    return mean - half, mean + half


def t_interval(values: Array, level: float = LEVEL) -> Bounds:
    """Return Student's interval with n - 1 degrees of freedom. values: (..., n_seeds)."""
    quantile = special.stdtrit(max(values.shape[-1] - 1, 1), 0.5 + level / 2)
    half = quantile * standard_error(values)
    mean = values.mean(axis=-1)
    return mean - half, mean + half


def resample_seeds(count: int, resamples: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return (resamples, count) indices drawn with replacement from `count` seeds."""
    return rng.integers(0, count, size=(resamples, count))


def percentile_interval(values: Array, picks: npt.NDArray[np.int64], level: float = LEVEL) -> Bounds:
    """Return the percentile bootstrap interval of the mean over seeds.

    Args:
        values: (..., n_seeds).
        picks: (resamples, n_seeds) indices of `resample_seeds`; the same picks serve all leading axes, so an
            interval depends neither on its neighbours nor on their order.
        level: nominal coverage.
    """
    if values.shape[-1] < 2:
        return _no_spread(values)
    tail = (1 - level) / 2
    low, high = np.quantile(_resampled_means(values, picks), [tail, 1 - tail], axis=-1)
    return low, high


def bca_interval(values: Array, picks: npt.NDArray[np.int64], level: float = LEVEL) -> Bounds:
    """Return the bias-corrected and accelerated bootstrap interval (Efron 1987); arguments as `percentile_interval`.

    Where all seeds agree the interval is that one value.
    """
    count = values.shape[-1]
    if count < 2:
        return _no_spread(values)
    mean = values.mean(axis=-1, keepdims=True)
    means = _resampled_means(values, picks)
    rounding = 1e-12 * np.maximum(np.abs(mean), 1.0)
    below = ((means < mean - rounding).mean(axis=-1) + (means <= mean + rounding).mean(axis=-1)) / 2
    left_out = (values.sum(axis=-1, keepdims=True) - values) / (count - 1)
    deviations = left_out.mean(axis=-1, keepdims=True) - left_out
    with np.errstate(divide="ignore", invalid="ignore"):
        acceleration = (deviations**3).sum(axis=-1) / (6 * (deviations**2).sum(axis=-1) ** 1.5)
        bias = special.ndtri(below)
        tails = special.ndtri(np.array([(1 - level) / 2, (1 + level) / 2]))
        shifted = bias[..., None] + tails
        shares = special.ndtr(bias[..., None] + shifted / (1 - acceleration[..., None] * shifted))
    flat_means, flat_shares = means.reshape(-1, means.shape[-1]), shares.reshape(-1, 2)
    bounds = np.full(flat_shares.shape, np.nan)
    constant = (np.ptp(values, axis=-1, keepdims=True) <= rounding).reshape(-1)
    for row, (sample, share) in enumerate(zip(flat_means, flat_shares, strict=True)):
        bounds[row] = sample[0] if constant[row] else np.quantile(sample, share)
    bounds = bounds.reshape(shares.shape)
    return bounds[..., 0], bounds[..., 1]


def hierarchical_interval(resampled: Array, picks: npt.NDArray[np.int64], level: float = LEVEL) -> Bounds:
    """Return the percentile interval of a bootstrap over seeds and test instances at once.

    Args:
        resampled: (resamples, n_seeds), each seed's score on one resample of the test instances (the same
            resample for all seeds of a row; see `analysis.statistics.instance_bootstrap`).
        picks: (resamples, n_seeds) indices of `resample_seeds`.
        level: nominal coverage.
    """
    tail = (1 - level) / 2
    if resampled.shape[-1] < 2:
        picks = np.zeros_like(picks)
    rows = np.arange(len(resampled))
    means = _mean_in_order(resampled[rows, picks[:, index]] for index in range(picks.shape[1]))
    low, high = np.quantile(means, [tail, 1 - tail])
    return low, high


def _resampled_means(values: Array, picks: npt.NDArray[np.int64]) -> Array:
    return _mean_in_order(values[..., picks[:, index]] for index in range(picks.shape[1]))


def _mean_in_order(columns: Iterable[Array]) -> Array:
    """Return the elementwise mean of `columns`, summed in one order so that every machine rounds alike."""
    total: Array | None = None
    count = 0
    for column in columns:
        total = column.copy() if total is None else total + column
        count += 1
    assert total is not None
    mean: Array = total / count
    return mean


def _no_spread(values: Array) -> Bounds:
    nan = np.full(values.shape[:-1], np.nan)
    return nan, nan.copy()
