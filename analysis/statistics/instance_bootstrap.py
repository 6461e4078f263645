"""Bootstrap over test instances: every run's score on thousands of resamples of its test set, at once.

Instances of one cluster are drawn together. One matrix of resampling weights serves all runs of a dataset, so runs
stay paired by instance, and the resampled means are a matrix product. NQ's split differs run by run: there every run
gets its resamples in an order of its own, which leaves each run's distribution as it is and makes runs independent of
each other.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from analysis.statistics.crossed import Clusters, cluster_sums

__all__ = ["resample_instances"]

_CHUNK_DRAWS = 2**21
"""Draws that one thread holds at a time: 16 MB of indices, and as much of weights."""


def resample_instances(
    scores: npt.NDArray[np.float64],
    resamples: int,
    rng: np.random.Generator,
    clusters: Clusters | None = None,
    *,
    paired: bool = True,
) -> npt.NDArray[np.float64]:
    """Return each run's mean score on `resamples` resamples of the instances.

    Args:
        scores: (n_runs, n_instances).
        resamples: how many resamples; each draws as many instances, or clusters, as there are, with replacement.
        rng: source of the draws; made of a seed (`default_rng`), since chunks draw from its children.
        clusters: (n_instances,) labels; None: each instance stands for itself.
        paired: whether a column of `scores` is the same instance in every run.

    Returns:
        (resamples, n_runs), rounded to twelve decimals so that matrix products of different machines agree.
    """
    sizes = None
    if clusters is not None:
        scores, sizes = cluster_sums(scores, clusters), cluster_sums(np.ones(len(clusters)), clusters)
    count = scores.shape[1]
    columns = np.ascontiguousarray(scores.T)
    step = max(1, _CHUNK_DRAWS // count)
    starts = range(0, resamples, step)

    def chunk(start: int, own: np.random.Generator) -> npt.NDArray[np.float64]:
        rows = min(step, resamples - start)
        picks = own.integers(0, count, size=(rows, count), dtype=np.uint32).astype(np.int64)
        picks += np.arange(rows)[:, None] * count
        weights = np.bincount(picks.ravel(), minlength=rows * count).reshape(rows, count)
        drawn = weights.astype(np.float64)
        # Of single instances every resample has as many; a sum of ones would say so too, but cost a product.
        total = np.full((rows, 1), float(count)) if sizes is None else (drawn @ sizes)[:, None]
        sums: npt.NDArray[np.float64] = drawn @ columns
        sums /= total
        return sums

    # A generator for each chunk, so that the draws do not depend on the number of threads; the threads are ours,
    # since those of the matrix product alone would leave the draws, half of the work, on one core.
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(os.cpu_count()) as pool:
        drawn = list(pool.map(chunk, starts, rng.spawn(len(starts))))
    means: npt.NDArray[np.float64] = np.concatenate(drawn).round(12)
    return means if paired else rng.permuted(means, axis=0)
