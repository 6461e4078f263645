"""Cells: the 30 runs of a model on a dataset, sharing everything but the fine-tuning itself.

Cells that are trained on the same data form a job; for retrieval that makes three cells of one fine-tuning. A
job is locked while it is worked on, so any number of processes can share a store. A run is written when it is
done and never repeated; a killed process loses the run it was in.
"""

from __future__ import annotations

import dataclasses
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.datasets.local_dataset import LocalDataset, load, read_manifest
from benchmarks.datasets.schema import FORMS
from benchmarks.finetuning.trainer import FineTuningError, Objective, Watch, fine_tune
from benchmarks.protocol import DATASETS, PROTOCOL_VERSION, PROTOCOLS, format_lr
from benchmarks.runs import RESULTS, RUN, SPLITS, RunKey, write_results
from benchmarks.sweep.finetuned_weights import FinetunedWeights, weights_path
from benchmarks.sweep.model_reset import ResettableModel
from benchmarks.sweep.request import Request
from benchmarks.sweep.run_state import failure, folder_of, is_done, lock_path
from benchmarks.tasks.base import Evaluator
from benchmarks.tasks.families import family_of, fine_tuning_steps, objective_of
from common.errors import UserError
from common.files import write_text
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


def jobs_of(request: Request) -> list[Job]:
    """Group a request's datasets by what they are trained on."""
    groups: dict[str, list[str]] = {}
    for name in request.datasets:
        groups.setdefault(DATASETS[name].trained_on, []).append(name)
    return [Job(request=request, trained_on=name, datasets=tuple(own)) for name, own in groups.items()]


def pending(job: Job) -> list[RunKey]:
    """Return the job's runs that are still to be done."""
    missing = [key for key in job.keys if not is_done(job.request.store, key)]
    return (
        missing
        if job.request.retry_failed
        else [key for key in missing if failure(job.request.store, key) is None]
    )


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
    settings: dict[str, dict[str, Any]]
    """For each dataset, what all its runs must have in common."""
    todo: tuple[RunKey, ...]
    """Runs to do."""
    provenance: dict[str, object]
    """Code, versions and command, as each `run.json` records them."""

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
                content = {"status": "failed", "reason": str(error), "settings": self.settings[key.dataset]}
                _write_run(self.job, key, content)
        return Outcome(
            done=len(keys) - len(failed),
            failed=len(failed),
            words=words,
            seconds=time.perf_counter() - start,
        )


def prepare(job: Job, resettable: ResettableModel) -> Prepared:
    """Make ready what a job's pending runs share; its lock must protect this and the runs.

    Raises:
        UserError: a dataset is not there, has other labels, or the store has runs of other settings.
    """
    todo = pending(job)
    sets = {name: load(job.request.data, name) for name in dict.fromkeys((job.trained_on, *job.datasets))}
    for dataset in sets.values():
        check_labels(dataset)
    settings = {name: _settings(job, resettable, sets[job.trained_on], sets[name]) for name in job.datasets}
    for name in job.datasets:
        _check_same_settings(job, name, settings[name])
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
        settings=settings,
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
    job, resettable, prints = prepared.job, prepared.resettable, prepared.settings
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
            "model": key.model,
            "dataset": key.dataset,
            "task": key.task,
            "lr": lr,
            "seed": seed,
            "protocol": {protocol.written_to: protocol.name for protocol in PROTOCOLS.values()},
            "settings": prints[key.dataset],
            "standard": {split: evaluations[split].standard for split in SPLITS},
            "steps": record.steps,
            "losses": [round(loss, 6) for loss in record.losses],
            "seconds": {"tuning": round(tuned, 3), "evaluation": round(time.perf_counter() - start, 3)},
            "machine": {**device.description, "train_positions": record.train_positions},
            "model_source": resettable.loaded.source,
            "provenance": prepared.provenance,
        }
        content |= device.kind.peak_memory(device.torch_device)
        _write_run(job, key, content)
        scores = {split: evaluations[split].scores for split in SPLITS}
        write_results(job.request.store, key, scores)
        means = (100 * sum(scores[split]) / len(scores[split]) for split in SPLITS)
        words.append(
            f"{key.dataset} " + ", ".join(f"{s} {m:.2f}" for s, m in zip(SPLITS, means, strict=True))
        )
    weights.remove()
    return "; ".join(words)


def _write_run(job: Job, key: RunKey, content: dict[str, Any]) -> None:
    write_text(folder_of(job.request.store, key) / RUN, json.dumps(content, indent=1) + "\n")


def _settings(
    job: Job, resettable: ResettableModel, trained_on: LocalDataset, dataset: LocalDataset
) -> dict[str, Any]:
    """Return what all runs of a cell must have in common, as `run.json` records it."""
    return {
        "protocol_version": PROTOCOL_VERSION,
        "tuning": json.loads(json.dumps(dataclasses.asdict(job.request.fine_tuning))),
        "epochs": trained_on.dataset.epochs,
        "pooling": resettable.pooling.name,
        "head": resettable.head.name,
        "precision": resettable.device.precision.name,
        "max_length": dataclasses.asdict(resettable.loaded.limits),
        "training_data": trained_on.manifest.content,
        "evaluation_data": dataset.manifest.content,
        "weights": resettable.loaded.weights,
    }


def _check_same_settings(job: Job, dataset: str, settings: dict[str, Any]) -> None:
    """Refuse to mix runs of different settings, data or weights in one cell."""
    cell = folder_of(job.request.store, next(key for key in job.keys if key.dataset == dataset)).parent
    for results in sorted(cell.glob(f"*/{RESULTS}")):
        path = results.with_name(RUN)
        before = json.loads(path.read_text(encoding="utf-8"))["settings"] if path.is_file() else {}
        before = {"protocol_version": 1, **before} if before else {}
        different = [name for name in settings if name in before and before[name] != settings[name]]
        if different:
            name, old, new = different[0], before[different[0]], settings[different[0]]
            if isinstance(old, dict) and isinstance(new, dict):
                name = next(key for key in new if old.get(key) != new[key])
                old, new = old.get(name), new[name]
            raise UserError(
                f"{path.parent} was made with {name} {json.dumps(old)}, this command has {json.dumps(new)}; runs "
                "of one cell must not differ: use another --name or --out"
            )
        if before:
            return


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
