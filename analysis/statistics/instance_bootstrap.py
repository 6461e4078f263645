"""Bootstrap over test instances: every run's score on thousands of resamples of its test set, at once.

One matrix of resampling weights serves all runs of a dataset, so runs stay paired by instance, and the resampled
means are a matrix product. NQ's split differs run by run: there every run gets its resamples in an order of its
own, which leaves each run's distribution as it is and makes runs independent of each other.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

__all__ = ["resample_instances"]

_CHUNK_DRAWS = 2**21
"""Draws that one thread holds at a time: 16 MB of indices, and as much of weights."""


def resample_instances(
    scores: npt.NDArray[np.float64], resamples: int, rng: np.random.Generator, *, paired: bool = True
) -> npt.NDArray[np.float64]:
    """Return each run's mean score on `resamples` resamples of the instances.

    Args:
        scores: (n_runs, n_instances).
        resamples: how many resamples; each draws n_instances with replacement.
        rng: source of the draws; made of a seed (`default_rng`), since chunks draw from its children.
        paired: whether a column of `scores` is the same instance in every run.

    Returns:
        (resamples, n_runs), rounded to twelve decimals so that matrix products of different machines agree.
    """
    count = scores.shape[1]
    columns = np.ascontiguousarray(scores.T)
    step = max(1, _CHUNK_DRAWS // count)
    starts = range(0, resamples, step)

    def chunk(start: int, own: np.random.Generator) -> npt.NDArray[np.float64]:
        rows = min(step, resamples - start)
        picks = own.integers(0, count, size=(rows, count), dtype=np.uint32).astype(np.int64)
        picks += np.arange(rows)[:, None] * count
        weights = np.bincount(picks.ravel(), minlength=rows * count).reshape(rows, count)
        sums: npt.NDArray[np.float64] = weights.astype(np.float64) @ columns
        return sums

    # A generator for each chunk, so that the draws do not depend on the number of threads; the threads are ours,
    # since those of the matrix product alone would leave the draws, half of the work, on one core.
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(os.cpu_count()) as pool:
        sums = list(pool.map(chunk, starts, rng.spawn(len(starts))))
    means = np.round(np.concatenate(sums) / count, 12)
    return means if paired else rng.permuted(means, axis=0)
