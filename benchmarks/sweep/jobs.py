"""What is to be done: the fine-tunings of a request, and the cells that are evaluated with each. Light: no torch.

Cells that are trained on the same data form a job; for retrieval that makes three cells of one fine-tuning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.datasets.local_dataset import read_manifest
from benchmarks.protocol import DATASETS, format_lr
from benchmarks.runs import RunKey, record_of
from benchmarks.sweep.request import Request
from benchmarks.sweep.run_state import Stamp, claim_path, failure, folder_of, is_done, record_stamp
from common.description import difference
from common.errors import UserError

__all__ = ["FineTuningKey", "Job", "check_sources", "jobs_of", "pending"]


@dataclass(frozen=True, kw_only=True)
class FineTuningKey:
    """One fine-tuning of a job: learning rate and seed."""

    lr: float
    seed: int

    def __str__(self) -> str:
        return f"lr{format_lr(self.lr)}_sd{self.seed}"


@dataclass(frozen=True, kw_only=True)
class Job:
    """Cells of one model that share their fine-tunings."""

    request: Request
    """Model, learning rates, seeds, data, store and settings."""
    trained_on: str
    """The dataset that is trained on."""
    datasets: tuple[str, ...]
    """The datasets that are evaluated: itself, or retrieval datasets."""
    descriptions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False, compare=False)
    """For each dataset what its runs are made from (`benchmarks.sweep.identity`)."""
    tried: Mapping[RunKey, Stamp] = field(default_factory=dict, repr=False, compare=False)
    """Failures that are tried again: those whose records are still as they were when the call began."""

    def __str__(self) -> str:
        return f"{self.request.name} on {self.trained_on}"

    @property
    def fine_tunings(self) -> list[FineTuningKey]:
        """All fine-tunings, learning rates outermost."""
        return [FineTuningKey(lr=lr, seed=seed) for lr in self.request.lrs for seed in self.request.seeds]

    @property
    def keys(self) -> list[RunKey]:
        """The job's runs: learning rates outermost, then seeds, then datasets."""
        return [key for fine_tuning in self.fine_tunings for key in self.keys_of(fine_tuning)]

    def keys_of(self, fine_tuning: FineTuningKey) -> list[RunKey]:
        """Return the runs of a fine-tuning."""
        return [
            RunKey(model=self.request.name, dataset=dataset, lr=fine_tuning.lr, seed=fine_tuning.seed)
            for dataset in self.datasets
        ]

    def claim_path(self, fine_tuning: FineTuningKey) -> Path:
        """Return the file whose lock a process holds while it works on a fine-tuning."""
        return claim_path(self.request.store, self.keys_of(fine_tuning)[0])


def jobs_of(request: Request, descriptions: Mapping[str, Mapping[str, Any]] | None = None) -> list[Job]:
    """Group a request's datasets by what they are trained on; `descriptions` say what their runs are made from."""
    groups: dict[str, list[str]] = {}
    for name in request.datasets:
        groups.setdefault(DATASETS[name].trained_on, []).append(name)
    jobs = [
        Job(request=request, trained_on=name, datasets=tuple(own), descriptions=descriptions or {})
        for name, own in groups.items()
    ]
    if not request.retry_failed:
        return jobs
    return [replace(job, tried={key: record_stamp(request.store, key) for key in job.keys}) for job in jobs]


def pending(job: Job, fine_tuning: FineTuningKey | None = None) -> list[RunKey]:
    """Return the runs of a job, or of one of its fine-tunings, that are still to be done."""
    keys = job.keys if fine_tuning is None else job.keys_of(fine_tuning)
    return [key for key in keys if not is_done(job.request.store, key) and not _failed(job, key)]


def _failed(job: Job, key: RunKey) -> bool:
    """Return whether a run failed under these settings, and is not to be tried again."""
    store = job.request.store
    if failure(store, key) is None or (key in job.tried and job.tried[key] == record_stamp(store, key)):
        return False
    before = record_of(folder_of(store, key)).get("description")
    return before is None or difference(before, job.descriptions.get(key.dataset, before)) is None


def check_sources(request: Request) -> None:
    """Check that every dataset that a request reads is there, also those that it only trains on.

    Raises:
        UserError: one is not.
    """
    for name in request.sources:
        try:
            read_manifest(request.data, name)
        except UserError as error:
            waiting = [other for other in request.datasets if DATASETS[other].trained_on == name != other]
            if name in request.datasets or not waiting:
                raise
            raise UserError(
                f"{waiting[0]} is evaluated with a model that is fine-tuned on {name}: {error}"
            ) from None
