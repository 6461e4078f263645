"""Jobs, and descriptions of what their runs are made from, compared with every finished run before any is reused.

A cell is one model on one dataset: a run for each learning rate and seed. Cells that are trained on the same data form
a job; in retrieval, three cells share each fine-tuning. A run's description has the hashes of the model's weights and
tokenizer and of its data, its settings, and the versions of the protocol and of the code that decides scores. Paths,
names, machines and commits are no part of it: they change without changing a score.
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
"""Fields of a description that all runs of a model share: weights and tokenizer."""


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
    """For each dataset the description of what its runs are made from, as the function `descriptions` returns it."""
    again: frozenset[RunKey] = frozenset()
    """Runs to repeat although they are done, as long as they are their cell's best and their weights are not kept."""

    def __str__(self) -> str:
        return f"{self.request.name} on {self.trained_on}"

    @property
    def fine_tunings(self) -> list[tuple[RunKey, ...]]:
        """The runs of each fine-tuning, one per dataset; learning rates outermost, then seeds."""
        request = self.request
        cells = [
            cell_keys(request.name, request.known[name], request.lrs, request.seeds)
            for name in self.datasets
        ]
        # Each cell lists its runs in the same order: the first runs of all cells are of one fine-tuning, and so on.
        return list(zip(*cells, strict=True))

    @property
    def runs(self) -> list[RunKey]:
        """The runs of all fine-tunings, in their order."""
        return [key for keys in self.fine_tunings for key in keys]

    def pending(self, runs: Iterable[RunKey] | None = None) -> list[RunKey]:
        """Return which runs are still to be done, of the given ones or of all of the job."""

        def is_pending(key: RunKey) -> bool:
            """Return whether a run is not done, has lost its weights, or failed under other settings."""
            # `request.runs` is the store; `self.runs` has only the keys of this job's runs.
            state = self.request.runs.state(key)
            if state.done:
                return key in self.again and self.request.runs.is_lost(key)
            has_failed = state.reason is not None
            if not has_failed:
                return True

            # A run that failed is tried again only if its settings have changed since.
            before = state.description
            # Without a description, nothing shows a change.
            if before is None:
                return False

            # A job without a description of the dataset does not show a change either: then `before` is
            # compared with itself.
            now = self.descriptions.get(key.dataset, before)
            return first_difference(before, now) is not None

        return list(filter(is_pending, runs or self.runs))


def jobs_of(
    request: RunRequest, descriptions: Mapping[str, Mapping[str, Any]] | None = None
) -> list[RunJob]:
    """Return the jobs of a request: its datasets grouped by their training set.

    Args:
        request: the runs that are asked for.
        descriptions: for each dataset what its runs are made from; None where only the grouping matters.
    """
    groups: dict[str, list[str]] = {}
    # Datasets with one training set share its fine-tunings, as NQ and MS MARCO do.
    for name in request.datasets:
        groups.setdefault(request.known[name].trained_on, []).append(name)
    jobs = []
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
    """Return the jobs of a request, after comparing every finished run of its model with what is asked for.

    Results that cannot be used are named in a warning.

    Raises:
        UserError: as `descriptions` and `check_finished`.
    """
    wanted = descriptions(request)
    check_finished(request, wanted)
    jobs = jobs_of(request, wanted)
    store = request.runs
    for job in jobs:
        for key in job.runs:
            fault = store.state(key).fault
            if fault is not None:
                log.warning("%s %s; the run will be repeated", store.folder(key), fault)
    return jobs


def lost_jobs(jobs: Iterable[RunJob]) -> list[RunJob]:
    """Return jobs that repeat the best run of each cell whose weights should be kept and are not."""
    lost: list[RunJob] = []
    for job in jobs:
        request = job.request
        # The best runs of several cells may be of one fine-tuning, which has a learning rate and a seed: it is repeated
        # once for all of them.
        best_runs: dict[tuple[float, int], list[RunKey]] = {}
        # `request.runs` is the store: a cell's best run is looked for among all that are in it.
        for name in job.datasets:
            best = request.runs.best(request.name, name)
            if best is not None and request.runs.is_lost(best):
                best_runs.setdefault((best.lr, best.seed), []).append(best)

        for (lr, seed), keys in best_runs.items():
            names = tuple(key.dataset for key in keys)
            narrowed = replace(request, datasets=names, lrs=(lr,), seeds=(seed,))
            # These runs are done, and the job repeats them all the same.
            again = frozenset(keys)
            lost.append(replace(job, request=narrowed, datasets=names, again=again))

    return lost


def forget_failed(jobs: Iterable[RunJob]) -> None:
    """Delete the files of runs that failed, so that these are tried again."""
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
    # The data.
    known = request.known
    # `sources` also names datasets that are only trained on; `request.datasets` has those to score.
    data_hashes: dict[str, str] = {}
    for name in request.sources:
        try:
            data_hashes[name] = dataset_manifest(request.data, known[name]).content
        except UserError as error:
            if name in request.datasets:
                raise
            # Only a training set: the user asked for another dataset, and may not know that it is trained on this one.
            scored = [
                dataset
                for dataset in request.datasets
                if known[dataset].trained_on == name
            ]
            raise UserError(
                f"{scored[0]} is evaluated with a model fine-tuned on {name}: {error}"
            ) from None

    # The model and the settings, which all runs of the request share.
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

    # With them, what differs between datasets.
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
    # The look-up refuses the name of a pooling that is not there.
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
    """Return the field that says how a decoder of another class is made bidirectional; none for other models.

    Runs of decoders without this field were made with a full mask, which also opens sliding windows: they do not agree
    with new runs.
    """
    model_type = read_config(folder).get("model_type")
    return {"direction": "configuration"} if is_decoder_type(model_type) else {}


def check_finished(
    request: RunRequest, wanted: Mapping[str, Mapping[str, Any]]
) -> None:
    """Compare every finished run of a request's model with what is asked for, also when nothing is left to do.

    Args:
        request: the runs that are asked for.
        wanted: `descriptions(request)`, by dataset. Runs on other datasets are compared by weights and tokenizer only.

    Raises:
        UserError: a run was made from something else, or does not say what it was made from.
    """
    # Weights and tokenizer are the same in all descriptions of a request, so that the first one tells them.
    any_description = next(iter(wanted.values()))
    of_model = {name: any_description[name] for name in _OF_MODEL}
    for dataset in request.known.values():
        # None for a dataset that is not asked for.
        now = wanted.get(dataset.name)
        for key in request.runs.found(request.name, dataset.name):
            state = request.runs.state(key)
            if not state.done:
                continue

            # A run of the release has no description. It is accepted on a dataset that is not asked for: none
            # of this request's cells counts it.
            if state.description is None and now is None:
                continue
            folder = request.runs.folder(key)
            if state.description is None:
                raise UserError(
                    f"{folder} does not record what it was made from, so it is unknown whether "
                    f"{redacted(request.model)} would give the same results; use a different --name or --out"
                )

            # What has changed: the field, its value in the run, and its value now; None if nothing has.
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
    """Return how a finished run differs from what is asked for, as the end of a sentence that begins with the run.

    Args:
        request: the runs that are asked for.
        source: the model as the finished run's command named it.
        name: the field of the description that differs.
        old: its value of the finished run.
        new: its value now.
    """
    before, now = _short(old), _short(new)
    if name in _OF_MODEL:
        model = redacted(request.model)
        return (
            f"was made from {source[:300]} with the {name} {before}, but this command uses "
            f"{model} with {now}, and all runs of a model must agree"
        )
    return f"was made with {name} {before}, but this command has {now}, and runs of a cell must agree"


def _short(value: Any) -> str:
    """Return a value as JSON; a SHA-256, which has 64 digits, by its first 12."""
    text = json.dumps(value)
    if isinstance(value, str) and len(value) == 64:
        return f"{text[1:13]}..."  # without the quotation mark of JSON
    return text
