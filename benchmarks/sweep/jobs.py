"""Cells: the 30 runs of a model on a dataset, sharing everything but the fine-tuning itself.

Cells that are trained on the same data form a job; for retrieval that makes three cells of one fine-tuning. A
job is locked while it is worked on, so any number of processes can share a store. A run is written when it is
done and never repeated; a killed process loses the run it was in.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.datasets.local_dataset import LocalDataset, load, read_manifest
from benchmarks.datasets.schema import FORMS
from benchmarks.finetuning.trainer import FineTuningError, Objective, Watch, fine_tune
from benchmarks.protocol import DATASETS, PROTOCOLS, format_lr
from benchmarks.runs import DETAILS, RESULTS, RUN, SPLITS, RunKey, record_of, results_text
from benchmarks.sweep.finetuned_weights import FinetunedWeights, weights_path
from benchmarks.sweep.model_reset import ResettableModel
from benchmarks.sweep.request import Request
from benchmarks.sweep.run_state import failure, folder_of, is_done, lock_path
from benchmarks.tasks.base import Evaluator
from benchmarks.tasks.families import family_of, fine_tuning_steps, objective_of
from common.description import description_hash, difference
from common.errors import UserError
from common.files import sha256_bytes, write_text
from common.manifest import write_manifest
from common.plain_text import redacted
from common.progress import progress
from common.provenance import provenance

__all__ = [
    "Job", "Outcome", "Prepared", "check_labels", "check_sources", "jobs_of", "pending", "prepare", "remove_leftovers",
]  # fmt: skip

PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "seqeval", "pytrec-eval-terrier")


@dataclass(frozen=True, kw_only=True)
class Job:
    """Cells of one model that share their fine-tunings."""

    request: Request
    """Model, learning rates, seeds, data, store and settings."""
    trained_on: str
    """The dataset that is trained on."""
    datasets: tuple[str, ...]
    """The datasets that are evaluated: itself, or retrieval datasets."""
    identities: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False, compare=False)
    """For each dataset what its runs are made from (`benchmarks.sweep.identity`)."""

    @property
    def lock(self) -> Path:
        """The file to lock while working on it."""
        return lock_path(self.request.store, self.request.name, self.trained_on)

    @property
    def keys(self) -> list[RunKey]:
        """The job's runs: learning rates outermost, then seeds, then datasets."""
        return [
            RunKey(model=self.request.name, dataset=dataset, lr=lr, seed=seed)
            for lr in self.request.lrs
            for seed in self.request.seeds
            for dataset in self.datasets
        ]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How one fine-tuning with its evaluations ended."""

    done: int
    """Runs written."""
    failed: int
    """Runs recorded as failed."""
    words: str
    """The scores, or why there are none."""
    seconds: float
    """What it took."""


def jobs_of(request: Request, identities: Mapping[str, Mapping[str, Any]] | None = None) -> list[Job]:
    """Group a request's datasets by what they are trained on; `identities` say what their runs are made from."""
    groups: dict[str, list[str]] = {}
    for name in request.datasets:
        groups.setdefault(DATASETS[name].trained_on, []).append(name)
    known = identities or {}
    return [
        Job(
            request=request,
            trained_on=name,
            datasets=tuple(own),
            identities={dataset: known[dataset] for dataset in own if dataset in known},
        )
        for name, own in groups.items()
    ]


def pending(job: Job) -> list[RunKey]:
    """Return the job's runs that are still to be done; a failure under other settings is none."""
    missing = [key for key in job.keys if not is_done(job.request.store, key)]
    return missing if job.request.retry_failed else [key for key in missing if not _failed(job, key)]


def _failed(job: Job, key: RunKey) -> bool:
    if failure(job.request.store, key) is None:
        return False
    before = record_of(folder_of(job.request.store, key)).get("description")
    return before is None or difference(before, job.identities.get(key.dataset, before)) is None


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A job with all that its runs share: the model, tokenised data and evaluation batches."""

    job: Job
    """What to do."""
    resettable: ResettableModel
    """The model."""
    objective: Objective
    """What is trained on."""
    evaluators: dict[str, Evaluator]
    """What each dataset is evaluated with."""
    steps: int
    """Optimiser steps of a fine-tuning."""
    todo: tuple[RunKey, ...]
    """Runs to do."""
    provenance: dict[str, object]
    """Code, versions and command, as each run records them."""

    @property
    def fine_tunings(self) -> list[tuple[float, int]]:
        """Learning rate and seed of each fine-tuning to do."""
        return list(dict.fromkeys((key.lr, key.seed) for key in self.todo))

    def run(self, lr: float, seed: int, watch: Watch | None = None) -> Outcome:
        """Do one fine-tuning, evaluate it on each dataset and write its runs, as failed ones if it cannot end."""
        keys = [key for key in self.todo if (key.lr, key.seed) == (lr, seed)]
        start = time.perf_counter()
        failed: list[RunKey] = []
        try:
            words = _one(self, keys, watch)
        except FineTuningError as error:
            words = f"failed: {error}"
            failed = [key for key in keys if not is_done(self.job.request.store, key)]
            for key in failed:
                _write_run(self, key, {"status": "failed", "reason": str(error)}, {})
        return Outcome(
            done=len(keys) - len(failed),
            failed=len(failed),
            words=words,
            seconds=time.perf_counter() - start,
        )


def prepare(job: Job, resettable: ResettableModel) -> Prepared:
    """Make ready what a job's pending runs share; its lock must protect this and the runs.

    Raises:
        UserError: a dataset is not there, has other labels, or it or the model has changed since the command began.
    """
    todo = pending(job)
    sets = {name: load(job.request.data, name) for name in dict.fromkeys((job.trained_on, *job.datasets))}
    for dataset in sets.values():
        check_labels(dataset)
    _check_unchanged(job, resettable, sets)
    seeds = sorted({key.seed for key in todo})
    loaded, pooling = resettable.loaded, resettable.pooling
    return Prepared(
        job=job,
        resettable=resettable,
        objective=objective_of(
            sets[job.trained_on], loaded, job.request.fine_tuning, seeds=seeds, pooling=pooling
        ),
        evaluators={
            name: family_of(sets[name].dataset).evaluator(
                sets[name], loaded, resettable.device, job.request.fine_tuning, pooling
            )
            for name in job.datasets
            if any(key.dataset == name for key in todo)
        },
        steps=fine_tuning_steps(sets[job.trained_on], job.request.fine_tuning),
        todo=tuple(todo),
        provenance=provenance("full", PACKAGES),
    )


def remove_leftovers(job: Job) -> None:
    """Delete the weights that no run of the job waits for; its lock must protect this."""
    waiting = {(key.lr, key.seed) for key in pending(job)}
    for key in job.keys:
        if (key.lr, key.seed) not in waiting:
            weights_path(job.request.store, key).unlink(missing_ok=True)


def _one(prepared: Prepared, keys: list[RunKey], watch: Watch | None) -> str:
    """Do one fine-tuning, evaluate it on each dataset, write the runs, and return the scores in words."""
    job, resettable, prints = prepared.job, prepared.resettable, prepared.job.identities
    lr, seed = keys[0].lr, keys[0].seed
    what = f"{job.trained_on} lr{format_lr(lr)}_sd{seed}"
    device = resettable.device
    device.kind.forget_peak_memory(device.torch_device)
    weights = FinetunedWeights.of(job.request.store, keys[0], prints[keys[0].dataset])
    model = resettable.reset(DATASETS[keys[0].dataset], seed)
    start = time.perf_counter()
    record = weights.restore(model)
    if record is None:
        record = fine_tune(
            model,
            prepared.objective,
            device,
            lr=lr,
            seed=seed,
            steps=prepared.steps,
            fine_tuning=job.request.fine_tuning,
            watch=watch or (lambda steps: progress(steps, what, unit="step")),
        )
        if len(keys) > 1:
            weights.save(model, record)
    tuned = time.perf_counter() - start
    words = []
    for key in keys:
        start = time.perf_counter()
        evaluations = prepared.evaluators[key.dataset].evaluate(model, device)
        content = {
            "status": "complete",
            "protocol": {protocol.written_to: protocol.name for protocol in PROTOCOLS.values()},
            "standard": {split: evaluations[split].standard for split in SPLITS},
            "limits": dataclasses.asdict(resettable.loaded.limits),
            "steps": record.steps,
            "seconds": {"tuning": round(tuned, 3), "evaluation": round(time.perf_counter() - start, 3)},
            "machine": {
                **device.description,
                "train_positions": record.train_positions,
                **device.kind.peak_memory(device.torch_device),
            },
        }
        scores = {split: evaluations[split].scores for split in SPLITS}
        details = {
            "losses": [round(loss, 6) for loss in record.losses],
            "standard": {split: evaluations[split].instances for split in SPLITS},
        }
        texts = {DETAILS: json.dumps(details, indent=1) + "\n", RESULTS: results_text(scores)}
        _write_run(prepared, key, content, texts)
        means = (100 * sum(scores[split]) / len(scores[split]) for split in SPLITS)
        words.append(
            f"{key.dataset} " + ", ".join(f"{s} {m:.2f}" for s, m in zip(SPLITS, means, strict=True))
        )
    weights.remove()
    return "; ".join(words)


def _write_run(prepared: Prepared, key: RunKey, content: Mapping[str, Any], texts: Mapping[str, str]) -> None:
    """Write a run's files, results.json last: where that is whole, so are the others."""
    folder = folder_of(prepared.job.request.store, key)
    description = prepared.job.identities[key.dataset]
    record = {
        **content,
        **{name: getattr(key, name) for name in ("model", "dataset", "task", "lr", "seed")},
        "description": description,
        "description_sha256": description_hash(description),
        "provenance": prepared.provenance,
        "ended": datetime.now(UTC).isoformat(timespec="seconds"),
        "model_source": redacted(prepared.resettable.loaded.source),
    }
    for name, text in texts.items():
        if name != RESULTS:
            write_text(folder / name, text)
    write_manifest(folder / RUN, record, {name: sha256_bytes(text.encode()) for name, text in texts.items()})
    if RESULTS in texts:
        write_text(folder / RESULTS, texts[RESULTS])


def _check_unchanged(job: Job, resettable: ResettableModel, sets: Mapping[str, LocalDataset]) -> None:
    """Refuse a model or data that are no longer what the command compared with the finished runs."""
    loaded = resettable.loaded
    for name, identity in job.identities.items():
        for what, now in (
            ("weights", loaded.weights),
            ("tokenizer", loaded.tokens),
            ("training_data", sets[job.trained_on].manifest.content),
            ("evaluation_data", sets[name].manifest.content),
        ):
            if identity[what] != now:
                raise UserError(
                    f"the {what.replace('_', ' ')} of {job.request.name} on {name} changed while this command ran, "
                    f"from {identity[what][:12]} to {now[:12]}; leave the files alone and run the same command again"
                )


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


def check_labels(dataset: LocalDataset) -> None:
    """Refuse labels that the head has no class for."""
    entry = dataset.dataset
    if FORMS[entry.form].label is not None and len(dataset.labels) != entry.labels:
        raise UserError(
            f"{dataset.name} has {len(dataset.labels)} labels ({', '.join(dataset.labels)}), the protocol's head "
            f"has {entry.labels} classes; correct its entry in benchmarks/protocol.py or import the dataset again"
        )
