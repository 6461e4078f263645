"""The covariance between runs over test instances: what the runs of a dataset have in common through its test set.

Instances of one cluster, where the runs name clusters, are sampled together (`analysis.statistics.crossed`). NQ's split
differs run by run, so there runs have nothing in common.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.records import records
from analysis.statistics.crossed import covariance_of_means, freedom_of
from analysis.store.instances import read_clusters, read_instances
from benchmarks.protocol import DATASETS, in_order, is_paired
from common.progress import progress

__all__ = ["MEMBERS", "InstanceCovariance", "note_single_instances"]

logger = logging.getLogger(__name__)

Array = npt.NDArray[np.float64]
Weighted = tuple[float, str, str]
"""A weight, a model and a dataset."""
MEMBERS = "members"
"""Column of a runs table: (model, learning rate, seed) of the runs whose mean a row is; missing where it is a run."""


def note_single_instances(datasets: Iterable[str]) -> None:
    """Say of which datasets, of those whose runs name no clusters, instances may come in clusters all the same."""
    if names := [name for name in datasets if name not in DATASETS or DATASETS[name].cluster]:
        logger.warning(
            "%s: the runs do not record which test instances share a passage, premise or document, so instances are "
            "treated as independent; if some are related, intervals over instances are too narrow (docs/intervals.md)",
            ", ".join(names),
        )


@dataclass(frozen=True, kw_only=True)
class InstanceCovariance:
    """The covariances between the chosen runs of every dataset."""

    _matrices: dict[str, Array]
    _freedoms: dict[str, float]
    _places: dict[str, dict[tuple[str, int], int]]

    @classmethod
    def of(cls, chosen: pd.DataFrame, instances: Path) -> InstanceCovariance:
        """Read the instances of the chosen runs, one dataset after another, and keep only the covariances."""
        matrices, freedoms, places, single = {}, {}, {}, []
        for dataset in progress(in_order(chosen["dataset"]), "covariances over instances", unit="dataset"):
            rows = chosen[chosen["dataset"] == dataset]
            runs, weights = _runs_of(rows) if MEMBERS in rows else (rows, None)
            scores, clusters = (
                read_instances(instances, dataset, runs),
                read_clusters(instances, dataset, runs),
            )
            scores = scores if weights is None else weights @ scores
            matrices[dataset] = 1e4 * covariance_of_means(scores, clusters, paired=is_paired(dataset))
            single += [dataset] if clusters is None else []
            freedoms[dataset] = freedom_of(scores.shape[1] if clusters is None else clusters)
            places[dataset] = {key: place for place, key in enumerate(records(rows, "model", "seed"))}
        note_single_instances(single)
        return cls(_matrices=matrices, _freedoms=freedoms, _places=places)

    def between_seeds(self, parts: Sequence[Weighted], seeds: Sequence[int]) -> tuple[Array, float] | None:
        """Return the covariance between seeds of a weighted sum of scores, in squared points.

        Args:
            parts: weights with their models and datasets.
            seeds: the seeds, within each of which the sum is taken.

        Returns:
            (n_seeds, n_seeds), and the degrees of freedom of what the seeds have in common there: of several datasets
            Satterthwaite's, infinite where they have nothing. None when a run's instances are not known.
        """
        size = len(seeds)
        covariance, variances = np.zeros((size, size)), []
        for dataset in dict.fromkeys(name for _, _, name in parts):
            places = self._places.get(dataset, {})
            here = [(weight, model) for weight, model, name in parts if name == dataset]
            keys = [(model, seed) for _, model in here for seed in seeds]
            if any(key not in places for key in keys):
                return None
            rows = np.array([places[key] for key in keys])
            weights = np.array([weight for weight, _ in here])
            blocks = self._matrices[dataset][np.ix_(rows, rows)].reshape(len(here), size, len(here), size)
            block = np.einsum("i,ikjl,j->kl", weights, blocks, weights)
            covariance = covariance + block
            variances.append((max(0.0, float(block.sum() - np.trace(block))), self._freedoms[dataset]))
        return covariance, _satterthwaite(variances)

    def between_cells(self, parts: Sequence[Weighted]) -> tuple[float, float] | None:
        """Return the variance that a weighted sum of models' means has through the test instances, seeds being apart.

        Each run's own is left out: it is part of the spread between seeds (`analysis.statistics.crossed`).

        Returns:
            Squared points, and Satterthwaite's degrees of freedom; None where a model's runs are not known.
        """
        weights: dict[str, dict[str, float]] = {}
        for weight, model, dataset in parts:
            of_models = weights.setdefault(dataset, {})
            of_models[model] = of_models.get(model, 0.0) + weight
        variances = []
        for dataset, of_models in weights.items():
            runs = {
                name: [n for key, n in self._places.get(dataset, {}).items() if key[0] == name]
                for name in of_models
            }
            if min(map(len, runs.values())) < 2:
                return None
            total = 0.0
            for first, second in product(of_models, repeat=2):
                block = self._matrices[dataset][np.ix_(runs[first], runs[second])]
                own = np.trace(block) if first == second else 0.0
                count = block.size - (len(block) if first == second else 0)
                total += of_models[first] * of_models[second] * float(block.sum() - own) / count
            variances.append((max(0.0, total), self._freedoms[dataset]))
        return sum(variance for variance, _ in variances), _satterthwaite(variances)


def _satterthwaite(variances: Sequence[tuple[float, float]]) -> float:
    """Return the degrees of freedom of a sum of independent variances with their own."""
    squares = sum(variance**2 / freedom for variance, freedom in variances)
    return sum(variance for variance, _ in variances) ** 2 / squares if squares > 0 else math.inf


def _runs_of(rows: pd.DataFrame) -> tuple[pd.DataFrame, Array]:
    """Return the runs behind some rows, and the weight of each in each row: (n_rows, n_runs)."""
    listed = [
        members if isinstance(members, list) else [own]
        for members, own in zip(rows[MEMBERS], records(rows, "model", "lr", "seed"), strict=True)
    ]
    weights = np.repeat(np.eye(len(rows)), [len(runs) for runs in listed], axis=1)
    runs = pd.DataFrame([run for runs in listed for run in runs], columns=["model", "lr", "seed"])
    return runs, weights / weights.sum(axis=1, keepdims=True)
