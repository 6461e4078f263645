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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.datasets.local_dataset import dataset_manifest
from benchmarks.finetuning.base_models import is_decoder_type
from benchmarks.finetuning.device import choose_precision
from benchmarks.finetuning.heads import POOLINGS
from benchmarks.protocol import PROTOCOL_VERSION
from benchmarks.run_fields import fields_that_decide
from benchmarks.runs import RESULTS, RESULTS_VERSION, RUN, RunKey, cell_keys
from benchmarks.sweep.request import RunRequest
from common.description import first_difference
from common.errors import UserError
from common.model_files import read_config, resolve, tokenizer_hash, weights_hash
from common.plain_text import redacted

log = logging.getLogger(__name__)

_OF_MODEL = fields_that_decide("of the model")


@dataclass(frozen=True, kw_only=True)
class RunJob:
    """Cells of one model that share their fine-tunings."""

    request: RunRequest
    """Model, learning rates, seeds, data, store and settings."""
    trained_on: str
    """The dataset that is trained on."""
    datasets: tuple[str, ...]
    """The datasets that are evaluated: itself, or retrieval datasets."""
    descriptions: Mapping[str, Mapping[str, Any]] = field(
        default_factory=dict, repr=False, compare=False
    )
    """For each dataset what its runs are made from (`descriptions`)."""
    again: frozenset[RunKey] = frozenset()
    """Done runs that are repeated while they are their cell's best and their weights are not kept."""

    def __str__(self) -> str:
        return f"{self.request.name} on {self.trained_on}"

    @property
    def fine_tunings(self) -> list[tuple[RunKey, ...]]:
        """The runs of each fine-tuning, one per dataset; learning rates outermost, then seeds."""
        asked = self.request
        cells = [
            cell_keys(asked.name, asked.known[name], asked.lrs, asked.seeds)
            for name in self.datasets
        ]
        return list(zip(*cells, strict=True))

    @property
    def runs(self) -> list[RunKey]:
        """All runs of its fine-tunings, in their order."""
        return [key for each in self.fine_tunings for key in each]

    def pending(self, runs: Iterable[RunKey] | None = None) -> list[RunKey]:
        """Return which of the job's runs, or of the given ones, are still to be done."""

        def waits(key: RunKey) -> bool:
            """Return whether a run is to be done: not there, its weights lost, or failed under other settings."""
            state = self.request.runs.state(key)
            if state.done:
                return key in self.again and self.request.runs.is_lost(key)
            if state.reason is None:
                return True
            before = state.description
            if before is None:
                return False
            # A run that failed is tried again if the settings have changed since.
            now = self.descriptions.get(key.dataset, before)
            return first_difference(before, now) is not None

        return list(filter(waits, runs or self.runs))


def jobs_of(
    request: RunRequest, descriptions: Mapping[str, Mapping[str, Any]] | None = None
) -> list[RunJob]:
    """Group a request's datasets by their training set; `descriptions` say what their runs are made from."""
    groups: dict[str, list[str]] = {}
    for name in request.datasets:
        groups.setdefault(request.known[name].trained_on, []).append(name)
    jobs = []
    # Datasets with one training set share its fine-tunings, as NQ and MS MARCO do.
    for trained_on, evaluated in groups.items():
        job = RunJob(
            request=request,
            trained_on=trained_on,
            datasets=tuple(evaluated),
            descriptions=descriptions or {},
        )
        jobs.append(job)
    return jobs


def compared_jobs(request: RunRequest) -> list[RunJob]:
    """Return the jobs of a request once every finished run of theirs has been compared with what is asked for.

    Raises:
        UserError: as `descriptions` and `check_finished`.
    """
    wanted = descriptions(request)
    check_finished(request, wanted)
    jobs = jobs_of(request, wanted)
    store = request.runs
    for key in (key for job in jobs for key in job.runs):
        fault = store.state(key).fault
        if fault is not None:
            log.warning("%s %s; the run will be repeated", store.folder(key), fault)
    return jobs


def lost_jobs(jobs: Iterable[RunJob]) -> list[RunJob]:
    """Return jobs of the runs to repeat so that each cell's best weights are kept; cells may share a run."""
    lost: list[RunJob] = []
    for job in jobs:
        asked = job.request
        # Runs with the same learning rate and seed are one fine-tuning.
        best_runs: dict[tuple[float, int], list[RunKey]] = {}
        for name in job.datasets:
            best = asked.runs.best(asked.name, name)
            if best is not None and asked.runs.is_lost(best):
                best_runs.setdefault((best.lr, best.seed), []).append(best)
        for (lr, seed), keys in best_runs.items():
            names = tuple(key.dataset for key in keys)
            request = replace(asked, datasets=names, lrs=(lr,), seeds=(seed,))
            again = frozenset(keys)
            lost.append(replace(job, request=request, datasets=names, again=again))
    return lost


def forget_failed(jobs: Iterable[RunJob]) -> None:
    """Delete what is recorded of runs that failed, so that they are tried again."""
    for job in jobs:
        for key in job.runs:
            if job.request.runs.state(key).reason is not None:
                for name in (RESULTS, RUN):
                    (job.request.runs.folder(key) / name).unlink(missing_ok=True)


def descriptions(request: RunRequest) -> dict[str, dict[str, Any]]:
    """Return, for each dataset of a request, the description of what its runs are made from, as `run.json` has it.

    Its fields are those of `benchmarks.run_fields.RUN_FIELDS`.

    Raises:
        UserError: the model or a dataset is not there, or a name is unknown.
    """
    known = request.known
    data_hashes: dict[str, str] = {}
    for name in request.sources:
        try:
            data_hashes[name] = dataset_manifest(request.data, known[name]).content
        except UserError as error:
            if name in request.datasets:
                raise
            # The user asked for another dataset, and may not know that it is trained on this one.
            scored = [one for one in request.datasets if known[one].trained_on == name]
            raise UserError(
                f"{scored[0]} is evaluated with a model fine-tuned on {name}: {error}"
            ) from None
    code = request.trust_remote_code
    folder = resolve(request.model, revision=request.revision, code=code)
    precision = choose_precision(request.device, request.precision)
    shared = {
        "tuning": dataclasses.asdict(request.fine_tuning),
        "head": request.head,
        "precision": precision.name,
        # Hashes of the content: a path or a name on the hub may hold another model later.
        "weights": weights_hash(folder, code=code),
        "tokenizer": tokenizer_hash(folder),
        "protocol_version": PROTOCOL_VERSION,
        "results_version": RESULTS_VERSION,
        **_direction(folder),
    }
    by_dataset = {}
    for name in request.datasets:
        dataset = known[name]
        by_dataset[name] = {
            **shared,
            **_reading(request, name),
            "epochs": known[dataset.trained_on].epochs,
            "prompt": dataset.prompt,
            "metric": dataset.headline,
            "training_data": data_hashes[dataset.trained_on],
            "evaluation_data": data_hashes[name],
        }
    return by_dataset


def _reading(request: RunRequest, name: str) -> dict[str, Any]:
    """Return the pooling and, for a retrieval set of one's own, how its texts are read."""
    reading = request.reading(name)
    pooling = {"pooling": POOLINGS[reading.pooling].name}
    if not request.known[name].is_own_retrieval:
        return pooling
    made = dataclasses.asdict(reading)
    del made["pooling"]
    # `lower` is recorded only if set: earlier runs, from before it was read, have no such field.
    if not reading.lower:
        del made["lower"]
    return {**pooling, "reading": made}


def _direction(folder: Path) -> dict[str, str]:
    """Return how a decoder of another class is made bidirectional; nothing for encoders and the paper's class.

    Decoders' runs without this field were made with a full mask, which opens sliding windows, too: they do not agree
    with new ones.
    """
    model_type = read_config(folder).get("model_type")
    return {"direction": "configuration"} if is_decoder_type(model_type) else {}


def check_finished(
    request: RunRequest, wanted: Mapping[str, Mapping[str, Any]]
) -> None:
    """Compare every finished run of a request's model with what is asked for, also when nothing is left to do.

    Args:
        request: the runs that are asked for.
        wanted: `descriptions(request)`. Of other datasets' runs, weights and tokenizer are compared.

    Raises:
        UserError: a run was made from something else, or does not say what from.
    """
    of_model = {name: next(iter(wanted.values()))[name] for name in _OF_MODEL}
    for dataset in request.known.values():
        # None for a dataset that is not asked for.
        now = wanted.get(dataset.name)
        for key in request.runs.found(request.name, dataset.name):
            state = request.runs.state(key)
            # For a dataset that is not asked for, a run without a description is accepted.
            if not state.done or (state.description is None and now is None):
                continue
            folder = request.runs.folder(key)
            if state.description is None:
                raise UserError(
                    f"{folder} does not record what it was made from, so it is unknown whether "
                    f"{redacted(request.model)} would give the same results; use a different --name or --out"
                )
            before = state.description
            if now is None:
                before_of_model = {name: before.get(name) for name in _OF_MODEL}
                changed = first_difference(before_of_model, of_model)
            else:
                changed = first_difference(before, now)
            if changed is not None:
                differs = _differs(request, state.source, *changed)
                raise UserError(f"{folder} {differs}; use a different --name or --out")


def _differs(request: RunRequest, source: str, name: str, old: Any, new: Any) -> str:
    """Return a sentence on the field `name`, in which a finished run of the model at `source` is not as asked for."""
    before, now = _short(old), _short(new)
    if name in _OF_MODEL:
        model = redacted(request.model)
        return (
            f"was made from {source[:300]} with the {name} {before}, but this command uses "
            f"{model} with {now}, and all runs of a model must agree"
        )
    return f"was made with {name} {before}, but this command has {now}, and runs of a cell must agree"


def _short(value: Any) -> str:
    """Return a value as JSON, a SHA-256 by its first 12 digits."""
    text = json.dumps(value)
    return f"{text[1:13]}..." if isinstance(value, str) and len(value) == 64 else text
