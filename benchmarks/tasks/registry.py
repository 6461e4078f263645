"""The four families by name: what a dataset trains on, and what it is evaluated with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks.datasets.local_dataset import LocalDataset
from benchmarks.finetuning.device import Machine
from benchmarks.finetuning.encoders import Loaded
from benchmarks.finetuning.trainer import Objective, example_order, steps_of
from benchmarks.protocol import Tuning
from benchmarks.runs import SPLITS
from benchmarks.tasks.question_answering import AnsweringSplit, answering_objective, answering_split
from benchmarks.tasks.retrieval import contrastive_objective, retrieval_evaluator
from benchmarks.tasks.sequence_classification import (
    ClassificationSplit,
    classification_objective,
    classification_split,
)
from benchmarks.tasks.supervised import Evaluation, Measured
from benchmarks.tasks.token_classification import TaggingSplit, tagging_objective, tagging_split

__all__ = ["Evaluator", "drawn_rows", "evaluator_of", "objective_of", "tuning_steps"]


class Evaluator(Protocol):
    """A dataset's two splits, ready to score any number of models."""

    def evaluate(self, model: Measured, machine: Machine) -> dict[str, Evaluation]:
        """Score a fine-tuned model on `validation` and `test`."""


@dataclass(frozen=True, kw_only=True)
class _Splits:
    splits: dict[str, ClassificationSplit | TaggingSplit | AnsweringSplit]

    def evaluate(self, model: Measured, machine: Machine) -> dict[str, Evaluation]:
        return {name: split.evaluate(model, machine) for name, split in self.splits.items()}


def tuning_steps(dataset: LocalDataset, tuning: Tuning) -> int:
    """Return how many optimiser steps fine-tuning on a dataset takes."""
    micro_batch = tuning.batch if dataset.dataset.task == "IR" else tuning.micro_batch
    return steps_of(dataset.train.num_rows, tuning, dataset.dataset.epochs, micro_batch)


def drawn_rows(dataset: LocalDataset, tuning: Tuning, seeds: Sequence[int]) -> NDArray[np.int64]:
    """Return which training examples the runs of these seeds draw, ascending: the rest is never tokenised."""
    size = dataset.train.num_rows
    contrastive = dataset.dataset.task == "IR"
    micro_batch, groups = (tuning.batch, 1) if contrastive else _accumulated(tuning)
    steps = tuning_steps(dataset, tuning)
    drawn = np.zeros(size, dtype=bool)
    for seed in seeds:
        for step in islice(example_order(size, seed, micro_batch, groups), steps):
            drawn[np.concatenate(step)] = True
    return np.flatnonzero(drawn)


def objective_of(
    dataset: LocalDataset, loaded: Loaded, tuning: Tuning, *, seeds: Sequence[int], pooling: str
) -> Objective:
    """Tokenise what the runs of these seeds draw from a dataset's training split."""
    rows = drawn_rows(dataset, tuning, seeds)
    match dataset.dataset.task:
        case "SC":
            return classification_objective(dataset.name, dataset.train, rows, loaded, tuning)
        case "TC":
            return tagging_objective(dataset.train, rows, loaded, tuning)
        case "QA":
            return answering_objective(dataset.train, rows, loaded, tuning)
        case _:
            return contrastive_objective(dataset.train, rows, loaded, tuning, pooling)


def evaluator_of(
    dataset: LocalDataset, loaded: Loaded, machine: Machine, tuning: Tuning, *, pooling: str
) -> Evaluator:
    """Tokenise and batch a dataset's two evaluation splits."""
    tables = {"validation": dataset.validation, "test": dataset.test} if dataset.dataset.task != "IR" else {}
    match dataset.dataset.task:
        case "SC":
            return _Splits(
                splits={n: classification_split(dataset.name, tables[n], loaded, machine) for n in SPLITS}
            )
        case "TC":
            return _Splits(
                splits={n: tagging_split(tables[n], dataset.labels, loaded, machine) for n in SPLITS}
            )
        case "QA":
            abstain = dataset.name == "squad_v2"
            return _Splits(
                splits={n: answering_split(tables[n], loaded, machine, may_abstain=abstain) for n in SPLITS}
            )
        case _:
            return retrieval_evaluator(dataset, loaded, machine, pooling=pooling, cutoff=tuning.cutoff)


def _accumulated(tuning: Tuning) -> tuple[int, int]:
    return tuning.micro_batch, tuning.batch // tuning.micro_batch
