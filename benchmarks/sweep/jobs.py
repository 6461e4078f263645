"""What is to be done, and what it is made from: compared with every finished run before any of them is reused.

Cells that are trained on the same data form a job; for retrieval that makes three cells of one fine-tuning. A run's
description has the hashes of the model's weights and tokenizer and of its data, its settings, and the versions of the
protocol and of the code that decides scores. Paths, names, machines and commits are no part of it: they change without
changing a score.
"""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.datasets.local_dataset import read_manifest
from benchmarks.finetuning.device import PRECISIONS, choose_kind
from benchmarks.finetuning.heads import HEADS, POOLINGS
from benchmarks.finetuning.model_files import resolve, tokenizer_hash, weights_hash
from benchmarks.protocol import PROTOCOL_VERSION, format_lr
from benchmarks.runs import RESULTS_VERSION, RunKey, found_keys, record_of
from benchmarks.sweep.request import Request
from benchmarks.sweep.run_state import Stamp, claim_path, failure, fault, folder_of, is_done, record_stamp
from common.description import difference
from common.errors import UserError
from common.plain_text import redacted

__all__ = [
    "FineTuningKey", "Job", "check_finished", "check_sources", "compared_jobs", "descriptions", "jobs_of", "pending",
]  # fmt: skip

log = logging.getLogger(__name__)

_OF_MODEL = ("weights", "tokenizer")
"""What all runs of a model share, whatever the dataset."""


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
    """For each dataset what its runs are made from (`descriptions`)."""
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
        lr, seed, known = fine_tuning.lr, fine_tuning.seed, self.request.known
        return [
            RunKey(model=self.request.name, dataset=name, lr=lr, seed=seed, task=known[name].task)
            for name in self.datasets
        ]

    def claim_path(self, fine_tuning: FineTuningKey) -> Path:
        """Return the file whose lock a process holds while it works on a fine-tuning."""
        key = self.keys_of(fine_tuning)[0]
        return claim_path(self.request.store, key, self.request.known[key.dataset])


def jobs_of(request: Request, descriptions: Mapping[str, Mapping[str, Any]] | None = None) -> list[Job]:
    """Group a request's datasets by what they are trained on; `descriptions` say what their runs are made from."""
    groups: dict[str, list[str]] = {}
    for name in request.datasets:
        groups.setdefault(request.known[name].trained_on, []).append(name)
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
            read_manifest(request.data, request.known[name])
        except UserError as error:
            waiting = [
                other for other in request.datasets if request.known[other].trained_on == name != other
            ]
            if name in request.datasets or not waiting:
                raise
            raise UserError(
                f"{waiting[0]} is evaluated with a model that is fine-tuned on {name}: {error}"
            ) from None


def compared_jobs(request: Request) -> list[Job]:
    """Return the jobs of a request once every finished run of theirs has been compared with what is asked for.

    Raises:
        UserError: as `descriptions` and `check_finished`.
    """
    check_sources(request)
    wanted = descriptions(request)
    check_finished(request, wanted)
    jobs = jobs_of(request, wanted)
    for key in (key for job in jobs for key in job.keys):
        if (reason := fault(request.store, key)) is not None:
            log.warning("%s %s; the run is made again", folder_of(request.store, key), reason)
    return jobs


def descriptions(request: Request) -> dict[str, dict[str, Any]]:
    """Return, for each dataset of a request, the description of what its runs are made from, as `run.json` has it.

    Raises:
        UserError: the model or a dataset is not there, or a name is unknown.
    """
    folder = resolve(request.model, revision=request.revision, code=request.trust_remote_code)
    kind = choose_kind(request.device)
    shared = {
        "tuning": dataclasses.asdict(request.fine_tuning),
        "pooling": POOLINGS[request.pooling].name,
        "head": HEADS[request.head].name,
        "precision": PRECISIONS[kind.precision if request.precision == "auto" else request.precision].name,
        "weights": weights_hash(folder, code=request.trust_remote_code),
        "tokenizer": tokenizer_hash(folder),
        "protocol_version": PROTOCOL_VERSION,
        "results_version": RESULTS_VERSION,
    }
    known = request.known
    contents = {name: read_manifest(request.data, known[name]).content for name in request.sources}
    return {
        name: {
            **shared,
            "epochs": known[known[name].trained_on].epochs,
            "prompt": known[name].prompt,
            "metric": known[name].headline,
            "training_data": contents[known[name].trained_on],
            "evaluation_data": contents[name],
        }
        for name in request.datasets
    }


def check_finished(request: Request, wanted: Mapping[str, Mapping[str, Any]]) -> None:
    """Compare every finished run of a request's cells with what is asked for, also when nothing is left to do.

    Args:
        request: what is asked for.
        wanted: `descriptions(request)`.

    Raises:
        UserError: a run was made from something else, or does not say what from and `request.adopt` is off.
    """
    unsaid: list[RunKey] = []
    anywhere = next(iter(wanted.values()))
    for key in _finished(request):
        before, now = record_of(folder_of(request.store, key)).get("description"), wanted.get(key.dataset)
        if before is None:
            unsaid += [key] if now else []
            continue
        if now is None:
            before, now = ({name: of[name] for name in _OF_MODEL} for of in (before, anywhere))
        if (found := difference(before, now)) is not None:
            _refuse(request, key, *found)
    if not unsaid:
        return
    first = request.store / "results" / unsaid[0].folder
    if not request.adopt:
        raise UserError(
            f"{first} and {len(unsaid) - 1} more finished runs do not say what they were made from, so that nobody "
            f"knows whether {request.model} would give the same: use another --name or --out, or count them as done "
            "with --adopt"
        )
    log.warning(
        "%s and %d more finished runs do not say what they were made from; they are counted as done (--adopt)",
        first, len(unsaid) - 1,
    )  # fmt: skip


def _finished(request: Request) -> Iterator[RunKey]:
    """Yield the finished runs of a request's model, by dataset and folder."""
    for dataset in request.known.values():
        keys = found_keys(request.store, request.name, dataset)
        yield from (key for key in keys if is_done(request.store, key))


def _refuse(request: Request, key: RunKey, name: str, old: Any, new: Any) -> None:
    folder = folder_of(request.store, key)
    if name in _OF_MODEL:
        source = str(record_of(folder).get("model_source"))[:300]
        raise UserError(
            f"{folder} was made from {source} with the {name} {_short(old)}, this command has "
            f"{redacted(request.model)} with {_short(new)}; runs of one model must not differ: use another --name or "
            "--out"
        )
    raise UserError(
        f"{folder} was made with {name} {_short(old)}, this command has {_short(new)}; runs of one cell must not "
        "differ: use another --name or --out"
    )


def _short(value: Any) -> str:
    text = json.dumps(value)
    return f"{text[1:13]}..." if isinstance(value, str) and len(value) == 64 else text
