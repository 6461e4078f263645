"""The task families by name, and which of a dataset's training examples the runs use."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from benchmarks.datasets.local_dataset import LocalDataset
from benchmarks.finetuning.encoders import Encoder
from benchmarks.finetuning.heads import Pooling
from benchmarks.finetuning.trainer import TrainingLoss, steps_of
from benchmarks.protocol import Dataset, FineTuning, HeadName
from benchmarks.tasks.base import Family, Setting, TaskModel
from benchmarks.tasks.classification import CLASSES, LABELS, VALUES, TokenClassification
from benchmarks.tasks.question_answering import QuestionAnswering
from benchmarks.tasks.retrieval import Retrieval
from common.registry import Registry

TASK_FAMILIES: Registry[Family] = Registry(
    "task",
    [CLASSES, LABELS, VALUES, TokenClassification(), QuestionAnswering(), Retrieval()],
)
"""The paper's four families, and two of sequence classification for datasets of one's own."""


def family_of(dataset: Dataset) -> Family:
    """Return the family of a dataset."""
    return TASK_FAMILIES[dataset.form]


def new_model(
    dataset: Dataset, encoder: Encoder, pooling: Pooling, head: HeadName, seed: int = 0
) -> TaskModel:
    """Return an encoder with a new head for a dataset, whose weights are drawn from the seed."""
    new_head = family_of(dataset).head(dataset, encoder, pooling, head)
    # Retrieval has no head: its vectors are pooled hidden states of the encoder.
    if new_head is not None:
        new_head.draw(encoder.init_std, seed)
    return TaskModel(encoder, new_head)


def fine_tuning_steps(dataset: LocalDataset, fine_tuning: FineTuning) -> int:
    """Return how many optimiser steps fine-tuning on a dataset takes."""
    micro_batch = family_of(dataset.dataset).micro_batch(fine_tuning)
    return steps_of(
        dataset.train.num_rows, fine_tuning, dataset.dataset.epochs, micro_batch
    )


def sampled_rows(
    dataset: LocalDataset, fine_tuning: FineTuning, seeds: Sequence[int]
) -> NDArray[np.int64]:
    """Return the numbers, ascending, of the training examples that runs of these seeds use; no others are tokenised."""
    size = dataset.train.num_rows
    family = family_of(dataset.dataset)
    steps = fine_tuning_steps(dataset, fine_tuning)
    is_used = np.zeros(size, dtype=bool)
    for seed in seeds:
        order = family.order(dataset, fine_tuning, seed)
        # The order goes on without end; a step has the example numbers of each of its micro-batches.
        for micro_batches in islice(order, steps):
            is_used[np.concatenate(micro_batches)] = True
    return np.flatnonzero(is_used)


def objective_of(
    dataset: LocalDataset, setting: Setting, seeds: Sequence[int]
) -> TrainingLoss:
    """Return the loss that runs of these seeds train on, with the training examples that they use, tokenised."""
    rows = sampled_rows(dataset, setting.fine_tuning, seeds)
    return family_of(dataset.dataset).objective(dataset, rows, setting)
