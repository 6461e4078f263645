"""The covariance between runs over test instances: what the runs of a dataset have in common through its test set.

It is that of the mean scores over samples of so many instances, which a bootstrap over instances would estimate by
drawing; for means no drawing is needed. NQ's split differs run by run, so there runs have nothing in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.records import records
from analysis.store.instances import read_instances
from benchmarks.protocol import in_order, is_paired
from common.progress import progress

__all__ = ["InstanceCovariance", "covariance_of_means"]

Array = npt.NDArray[np.float64]
Weighted = tuple[float, str, str]
"""A weight, a model and a dataset."""


def covariance_of_means(scores: Array, *, paired: bool = True) -> Array:
    """Return the covariance of runs' mean scores over samples of test instances.

    Args:
        scores: (n_runs, n_instances).
        paired: whether a column of `scores` is the same instance in every run.

    Returns:
        (n_runs, n_runs), diagonal where runs are not paired; zero for a single instance, which says nothing.
    """
    count = scores.shape[1]
    if count < 2:
        return np.zeros((len(scores), len(scores)))
    centred = scores - scores.mean(axis=1, keepdims=True)
    scale = count * (count - 1)
    if not paired:
        return np.diag((centred**2).sum(axis=1) / scale)
    covariance: Array = np.round(
        centred @ centred.T / scale, 16
    )  # so that matrix products of all machines agree
    return covariance


@dataclass(frozen=True, kw_only=True)
class InstanceCovariance:
    """The covariances between the chosen runs of every dataset."""

    _matrices: dict[str, Array]
    _places: dict[str, dict[tuple[str, int], int]]

    @classmethod
    def of(cls, chosen: pd.DataFrame, instances: Path) -> InstanceCovariance:
        """Read the instances of the chosen runs, one dataset after another, and keep only the covariances."""
        matrices, places = {}, {}
        for dataset in progress(in_order(chosen["dataset"]), "covariances over instances", unit="dataset"):
            rows = chosen[chosen["dataset"] == dataset]
            scores = read_instances(instances, dataset, rows)
            matrices[dataset] = 1e4 * covariance_of_means(scores, paired=is_paired(dataset))
            places[dataset] = {key: place for place, key in enumerate(records(rows, "model", "seed"))}
        return cls(_matrices=matrices, _places=places)

    def between_seeds(self, parts: Sequence[Weighted], seeds: Sequence[int]) -> Array | None:
        """Return the covariance between seeds of a weighted sum of scores, in squared points.

        Args:
            parts: weights with their models and datasets.
            seeds: the seeds, within each of which the sum is taken.

        Returns:
            (n_seeds, n_seeds); None when a run's instances are not known.
        """
        total = np.zeros((len(seeds), len(seeds)))
        for dataset in dict.fromkeys(name for _, _, name in parts):
            if dataset not in self._places:
                return None
            places = self._places[dataset]
            here = [(weight, model) for weight, model, name in parts if name == dataset]
            keys = [(model, seed) for _, model in here for seed in seeds]
            if any(key not in places for key in keys):
                return None
            rows = np.array([places[key] for key in keys])
            weights = np.array([weight for weight, _ in here])
            size = len(seeds)
            blocks = self._matrices[dataset][np.ix_(rows, rows)].reshape(len(here), size, len(here), size)
            total += np.einsum("i,ikjl,j->kl", weights, blocks, weights)
        return total
