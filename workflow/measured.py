"""What a study's fine-tunings took so far, by size of model and training set; read from the records of its runs."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.protocol import DATASETS
from benchmarks.runs import found_keys
from benchmarks.sweep.run_state import timings
from pretraining.plan.study_file import Study

__all__ = ["Measured", "measure"]

_ENOUGH = 5
"""Runs that are read of a cell."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Seconds of a fine-tuning with its evaluations."""

    taken: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """Mean by (size of model, training set)."""

    def seconds(self, size: str, trained_on: str, flops: Mapping[str, float]) -> float | None:
        """Return what one fine-tuning takes, None where no run of the training set was measured.

        Args:
            size: the model's.
            trained_on: the training set.
            flops: operations of a token by size; a measurement at another size is scaled by them.
        """
        if (size, trained_on) in self.taken:
            return self.taken[size, trained_on]
        others = [
            seconds * flops[size] / flops[other]
            for (other, name), seconds in self.taken.items()
            if name == trained_on and other in flops
        ]
        return max(others, default=None)


def measure(folder: Path, study: Study) -> Measured:
    """Return what the runs in a study's folder took; what cannot be read counts as not there."""
    seconds: dict[tuple[str, str], dict[str, list[float]]] = {}
    for model, dataset in itertools.product(study.models.values(), DATASETS.values()):
        keys = found_keys(folder, model.name, dataset.name)[:_ENOUGH]
        found = [taken for key in keys if (taken := timings(folder, key)).keys() >= {"tuning", "evaluation"}]
        # Datasets that share a fine-tuning are evaluated after it: each has the tuning's time and its own.
        own = seconds.setdefault((model.size, dataset.trained_on), {})
        own.setdefault("tuning", []).extend(taken["tuning"] for taken in found)
        own.setdefault(dataset.name, []).extend(taken["evaluation"] for taken in found)
    return Measured(
        taken={
            key: sum(statistics.fmean(values) for values in parts.values() if values)
            for key, parts in seconds.items()
            if parts["tuning"]
        }
    )
