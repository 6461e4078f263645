"""What one process does of a job: a fine-tuning, its evaluations, and the files of its runs.

One fine-tuning gives a run for each dataset that it is evaluated on. A run is written when it is done and never
repeated, but for its weights; a killed process loses the run that it was computing.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import torch
from torch import Tensor

from benchmarks.datasets.local_dataset import LocalDataset, load_dataset
from benchmarks.finetuning.trainer import (
    FineTuningError,
    FineTuningLog,
    TrainingLoss,
    Watch,
    fine_tune,
)
from benchmarks.metrics.metric import Evaluation
from benchmarks.protocol import PAPER, STANDARD, Dataset
from benchmarks.runs import (
    CLUSTERS,
    DETAILS,
    RESULTS,
    RUN,
    SCORED_SPLITS,
    RunKey,
    clusters_hash,
    results_text,
)
from benchmarks.sweep.keep import Keeper
from benchmarks.sweep.preflight import check_labels
from benchmarks.sweep.run_jobs import RunJob
from benchmarks.sweep.run_store import RunStore
from benchmarks.sweep.window import window_cuts
from benchmarks.tasks.base import Evaluator, Setting, TaskModel
from benchmarks.tasks.families import (
    family_of,
    fine_tuning_steps,
    new_model,
    objective_of,
)
from common.description import description_hash
from common.errors import UserError
from common.files import sha256_bytes, write_text
from common.manifest import write_manifest
from common.plain_text import redacted
from common.provenance import provenance
from pretraining.model.modeling import EuroBertModel

log = logging.getLogger(__name__)

RUN_PACKAGES = (  # whose versions a run records
    "torch",
    "transformers",
    "tokenizers",
    "numpy",
    "seqeval",
    "pytrec-eval-terrier",
)


@dataclass
class ResettableModel:
    """A loaded model on its device that gets its original weights back before every run.

    A run that starts here does not depend on what ran before: weights and buffers are copied back, the head is
    new and initialised from the run's seed.
    """

    setting: Setting
    """The model, which is moved to the device, and what its runs are done with."""
    _pristine: dict[str, Tensor] = field(init=False, repr=False)
    """Copies of weights and buffers as loaded."""

    def __post_init__(self) -> None:
        encoder = self.setting.loaded.encoder
        is_own = isinstance(encoder.base, EuroBertModel)
        encoder.packs = self.setting.device.packs and is_own
        self.setting.device.place(encoder)
        state = self._state()
        self._pristine = {name: tensor.clone() for name, tensor in state.items()}

    def _state(self) -> dict[str, Tensor]:
        """Return weights and buffers by name, also buffers that no checkpoint holds."""
        encoder = self.setting.loaded.encoder
        return encoder.state_dict() | dict(encoder.named_buffers())

    @torch.no_grad()
    def reset(self, dataset: Dataset, seed: int) -> TaskModel:
        """Return the model as loaded, with a new head for the dataset."""
        encoder = self.setting.loaded.encoder
        for parameter in encoder.parameters():
            parameter.grad = None
        for name, tensor in self._state().items():
            tensor.copy_(self._pristine[name])
        model = new_model(
            dataset, encoder, self.setting.pooling, self.setting.head, seed
        )
        if model.head is not None:
            self.setting.device.place(model.head)
        return model


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A job with all that its runs share: the model, tokenised data and evaluation batches."""

    job: RunJob
    """The fine-tunings to do, and the datasets that they are evaluated on."""
    runs: frozenset[RunKey]
    """The runs that it is prepared for."""
    resettable: ResettableModel
    """The model."""
    objective: TrainingLoss
    """The training data and the loss."""
    evaluators: dict[str, Evaluator]
    """A function for each dataset that scores a model on it."""
    steps: int
    """Optimiser steps of a fine-tuning."""
    provenance: dict[str, object]
    """Code, versions and command, as each run records them."""
    cuts: Mapping[str, str] = field(default_factory=dict)
    """What the model's window cuts of each dataset, in words; empty where it cuts nothing."""
    keeper: Keeper | None = None
    """What keeps the best runs' weights, where they are wanted."""

    def run(self, keys: Sequence[RunKey], watch: Watch = iter) -> str:
        """Do one fine-tuning, evaluate it, and write its runs, as failed if the fine-tuning cannot end.

        Args:
            keys: the runs of the fine-tuning, one for each dataset; they have one learning rate and seed.
            watch: yields the steps and may show progress.

        Returns:
            The scores on each dataset in words, and why runs failed.
        """
        words: list[str] = []
        setting = self.resettable.setting
        first = keys[0]
        try:
            start = time.perf_counter()
            # The head is the first dataset's. There are several only in retrieval, which has no head.
            dataset = self.job.request.known[first.dataset]
            model = self.resettable.reset(dataset, first.seed)
            tuned = fine_tune(
                model,
                self.objective,
                setting.device,
                lr=first.lr,
                seed=first.seed,
                steps=self.steps,
                fine_tuning=setting.fine_tuning,
                watch=watch,
            )
            seconds = time.perf_counter() - start
            for key in keys:
                words.append(self._evaluate(key, model, tuned, seconds))
        except FineTuningError as error:
            # `words` has one entry for each evaluated dataset; the runs on the others have failed. Of these,
            # a run that was done before, and is repeated only for its weights, keeps the results that it has.
            for key in keys[len(words) :]:
                if not self._is_done(key):
                    self._write(key, {"status": "failed", "reason": str(error)}, {})
            words.append(f"failed: {error}")

        return "; ".join(words)

    def _evaluate(
        self, key: RunKey, model: TaskModel, tuned: FineTuningLog, tuning_seconds: float
    ) -> str:
        """Evaluate a fine-tuned model on a dataset, write the run, and return its scores in words."""
        setting = self.resettable.setting
        evaluator = self.evaluators[key.dataset]
        start = time.perf_counter()
        evaluations = evaluator(model, setting.device)
        seconds = time.perf_counter() - start
        # Fields of run.json that say the scores, and the texts of the run's other files.
        scored, texts = scored_run(evaluations, losses=tuned.losses)

        # A run that is already done is repeated only for its weights, and keeps the results that were written.
        if self._is_done(key):
            path = self.job.request.runs.folder(key) / RESULTS
            if path.read_text("utf-8") != texts[RESULTS]:
                log.warning(
                    "%s: repeated for its weights, the run has other scores here",
                    key.folder,
                )
            return self._keep_and_describe(key, model)

        content: dict[str, Any] = {
            "status": "complete",
            **scored,
            "limits": dataclasses.asdict(setting.loaded.limits),
            "seconds": {
                "tuning": round(tuning_seconds, 3),
                "evaluation": round(seconds, 3),
            },
            # Forward passes may have become smaller than the device's, where memory ran out.
            "machine": {
                **setting.device.description,
                "train_positions": tuned.train_positions,
            },
        }
        cut = self.cuts.get(key.dataset)
        if cut:
            content["cut"] = cut
        self._write(key, content, texts)
        return self._keep_and_describe(key, model)

    def _is_done(self, key: RunKey) -> bool:
        """Return whether the store has the run already."""
        return self.job.request.runs.state(key).done

    def _keep_and_describe(self, key: RunKey, model: TaskModel) -> str:
        """Keep the model of a run that is written, where that is wanted; return the run's scores in words."""
        if self.keeper is not None:
            self.keeper.keep(key, model)
        # A run that was written has scores, unless something else has changed its files since.
        scores = self.job.request.runs.scores(key) or (math.nan, math.nan)
        means = []
        for split, score in zip(SCORED_SPLITS, scores, strict=True):
            means.append(f"{split} {100 * score:.2f}")
        return f"{key.dataset} {', '.join(means)}"

    def _write(
        self, key: RunKey, content: Mapping[str, Any], texts: Mapping[str, str]
    ) -> None:
        """Write the files of a run of this job."""
        write_run(
            self.job.request.runs,
            key,
            content,
            texts,
            description=self.job.descriptions[key.dataset],
            origin=self.provenance,
            source=self.resettable.setting.loaded.source,
        )


def scored_run(
    evaluations: Mapping[str, Evaluation], *, losses: Sequence[float]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return what a run's manifest says of its scores, and the texts of details.json and results.json by file name.

    Args:
        evaluations: scores on `validation` and `test`.
        losses: the losses of the training steps.
    """
    splits = {split: evaluations[split] for split in SCORED_SPLITS}
    standard = {split: evaluation.standard for split, evaluation in splits.items()}
    instances = {split: evaluation.instances for split, evaluation in splits.items()}
    clusters = {split: evaluation.clusters for split, evaluation in splits.items()}
    scores = {split: evaluation.scores for split, evaluation in splits.items()}
    content: dict[str, Any] = {
        # By which protocol scores are: those of results.json, and those in this manifest under `standard`.
        "protocol": {RESULTS: PAPER, STANDARD: STANDARD},
        STANDARD: standard,
        "steps": len(losses),
    }

    # Scores of single instances are in details.json, so that run.json stays small to read.
    details: dict[str, Any] = {
        "losses": [round(loss, 6) for loss in losses],
        STANDARD: instances,
    }
    # Instances of one cluster belong together, as the questions on one passage. Clusters are empty where the data do
    # not say so. The manifest has their hash, so that a reader of many runs reads equal clusters once.
    if any(clusters.values()):
        details[CLUSTERS] = clusters
        content[CLUSTERS] = clusters_hash(clusters)

    texts = {
        DETAILS: json.dumps(details, indent=1) + "\n",
        RESULTS: results_text(scores),
    }
    return content, texts


def write_run(
    store: RunStore,
    key: RunKey,
    content: Mapping[str, Any],
    texts: Mapping[str, str],
    *,
    description: Mapping[str, Any],
    origin: Mapping[str, object],
    source: str,
) -> None:
    """Write a run's files, and its key and the time into its manifest.

    results.json is written last: where it is whole, so are the others.

    Args:
        store: the store that the run goes into.
        key: which run it is.
        content: fields of the run's manifest, such as its scores.
        texts: the run's other files by name; none of a run that failed.
        description: what the run was made from, which decides whether runs compare.
        origin: the run's provenance: code, versions and command.
        source: the run's model as the user named it.
    """
    folder = store.folder(key)
    record = {
        **content,
        "description": description,
        "description_sha256": description_hash(description),
        "provenance": origin,
        "model_source": redacted(source),
        "ended": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    for name in ("model", "dataset", "task", "lr", "seed"):
        record[name] = getattr(key, name)
    hashes = {name: sha256_bytes(text.encode()) for name, text in texts.items()}

    # Results are written last: other processes take a run for done once they are there.
    for name in texts.keys() - {RESULTS}:
        write_text(folder / name, texts[name])
    write_manifest(folder / RUN, record, hashes)
    if RESULTS in texts:
        write_text(folder / RESULTS, texts[RESULTS])


def prepare_runs(job: RunJob, resettable: ResettableModel) -> Prepared:
    """Load and tokenise what a job's pending runs share.

    Raises:
        UserError: a dataset is not there or has other labels, or a dataset or the model has changed since the command
            began.
    """
    # The data, which have to be those that the command has looked at.
    request, todo = job.request, job.pending()
    # Each once: the dataset that is trained on may be evaluated as well.
    names = dict.fromkeys((job.trained_on, *job.datasets))
    sets = {name: load_dataset(request.data, request.known[name]) for name in names}
    for dataset in sets.values():
        check_labels(dataset)
    _check_unchanged(job, resettable, sets)

    # All datasets of a job are read alike: as the one that is trained on, or without training as the maker means it.
    setting = resettable.setting.reading_as(request.reading(job.datasets[0]))
    cuts = {name: window_cuts(dataset, setting) for name, dataset in sets.items()}
    for name, cut in cuts.items():
        if cut:
            log.info("%s: %s", name, cut)

    # Tokens and batches, and what keeps weights.
    training = sets[job.trained_on]
    # The seeds decide which training examples the runs use: no others are tokenised.
    seeds = sorted({key.seed for key in todo})
    objective = objective_of(training, setting, seeds)

    # Batches are made only for datasets on which a run is scored.
    scored = {key.dataset for key in todo}
    evaluators = {}
    for name in job.datasets:
        if name in scored:
            family = family_of(sets[name].dataset)
            evaluators[name] = family.evaluator(sets[name], setting)

    keeper = None
    if request.keep == "best":
        keeper = Keeper(request=request, setting=setting, sets=sets)

    # "full" is the environment whose lock file the runs record.
    return Prepared(
        job=job,
        runs=frozenset(todo),
        resettable=resettable,
        objective=objective,
        evaluators=evaluators,
        steps=fine_tuning_steps(training, setting.fine_tuning),
        provenance=provenance("full", RUN_PACKAGES),
        cuts=cuts,
        keeper=keeper,
    )


def _check_unchanged(
    job: RunJob, resettable: ResettableModel, sets: Mapping[str, LocalDataset]
) -> None:
    """Refuse a model or data that have changed since the command compared them with the finished runs."""
    loaded = resettable.setting.loaded
    for name in job.datasets:
        hashes = {
            "weights": loaded.weights,
            "tokenizer": loaded.tokens,
            "training_data": sets[job.trained_on].manifest.content,
            "evaluation_data": sets[name].manifest.content,
        }
        for part, now in hashes.items():
            # The hash when the command began.
            before = job.descriptions[name][part]
            if before != now:
                words = part.replace("_", " ")
                raise UserError(
                    f"the {words} of {job.request.name} on {name} changed while this command was "
                    f"running, from {before[:12]} to {now[:12]}; leave the files alone and run the command again"
                )
