"""The paper's fine-tuning protocol as data: tasks, datasets, metrics, grid and optimiser.

Standard library only: the analysis imports this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from benchmarks.dataset import TASKS, Dataset, Task
from benchmarks.paper_datasets import DATASETS

__all__ = [
    "AVERAGE", "DATASETS", "EXTRA_DATASETS", "FINE_TUNING", "LEARNING_RATES", "PAPER",
    "PROTOCOL_VERSION", "SEEDS", "STANDARD", "TASKS", "Dataset", "FineTuning", "Task", "datasets_of",
    "format_lr", "get_dataset", "in_order", "is_paired", "title_of",
]  # fmt: skip

AVERAGE = "average"
"""The `dataset` of a score that is the mean over a task's three datasets."""

PAPER, STANDARD = "paper", "standard"
"""The protocols by which every run is scored: `paper` (to results.json) has every quirk of the release; `standard`
(to run.json) is the usual definition of each metric."""

PROTOCOL_VERSION = 2
"""Version of the protocol: raised when a dataset, a grid, an input or a metric comes to mean something else."""

LEARNING_RATES = (1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4)
SEEDS = (0, 1, 2, 3, 4)


EXTRA_DATASETS = frozenset({"qed", "stsb", "mnli_mm"})
"""Folders that the release's code can write but the paper's twelve datasets do not hold."""


@dataclass(frozen=True, kw_only=True)
class FineTuning:
    """Hyper-parameters of every fine-tuning."""

    steps: int = 1_000
    """Optimiser steps, unless the dataset says one epoch."""
    batch: int = 32
    """Examples a step; for retrieval also the number of documents each query is scored against."""
    micro_batch: int = 4
    """Examples a forward pass; the gradient is the mean of the micro-batches' means."""
    warmup_share: float = 0.1
    """Share of the steps with rising learning rate; it falls linearly to zero afterwards."""
    betas: tuple[float, float] = (0.9, 0.95)
    """AdamW's momenta."""
    eps: float = 1e-5
    """AdamW's epsilon."""
    weight_decay: float = 0.1
    """AdamW's weight decay; none on biases and norms."""
    clip_norm: float = 1.0
    """Largest global gradient norm."""
    temperature: float = 0.05
    """Temperature of the contrastive loss on cosine similarities."""
    max_length: int = 2_028
    """Longest input in tokens: 99 % of the 2,048 positions."""
    cutoff: int = 10
    """Depth of the ranking that NDCG looks at."""


FINE_TUNING = FineTuning()
"""The paper's settings."""


def get_dataset(given: Dataset | str) -> Dataset:
    """Return a dataset itself, or one of the twelve by name; `UserError` names the nearest for an unknown one."""
    return DATASETS[given] if isinstance(given, str) else given


def datasets_of(task: str) -> tuple[str, ...]:
    """Return the names of a task's three datasets in the paper, in the order of its columns."""
    return tuple(dataset.name for dataset in DATASETS.values() if dataset.task == TASKS[task].name)


def in_order(names: Iterable[str]) -> list[str]:
    """Return names of datasets, each once: the paper's in its order, then others by name."""
    given = set(names)
    return [*(name for name in DATASETS if name in given), *sorted(given - DATASETS.keys())]


def is_paired(name: str) -> bool:
    """Return whether test instance i of a dataset is the same in every run, as in all but one of the paper's."""
    return name not in DATASETS or DATASETS[name].paired


def title_of(name: str, known: Mapping[str, Dataset] = DATASETS) -> str:
    """Return how a dataset is called in print; its name where it is none of those that are known."""
    return known[name].title if name in known else name


def format_lr(lr: float) -> str:
    """Return `1e-04` for 0.0001, as the release names its folders; two digits only when they are needed."""
    mantissa, exponent = f"{lr:e}".split("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{exponent}"
