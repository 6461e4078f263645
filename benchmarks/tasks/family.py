"""What a task family is: what its datasets train on, what they are evaluated with, and what a model reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.datasets.local_dataset import LocalDataset
from benchmarks.finetuning.device import Device
from benchmarks.finetuning.encoders import LoadedModel
from benchmarks.finetuning.heads import SequenceHead, TokenHead
from benchmarks.finetuning.poolings import Pooling
from benchmarks.finetuning.trainer import Objective
from benchmarks.metrics.registry import Evaluation, evaluate
from benchmarks.protocol import Dataset, FineTuning
from benchmarks.runs import SPLITS
from benchmarks.tasks.supervised import TaskModel
from common.errors import UserError

__all__ = ["Evaluator", "Family", "Split", "SupervisedFamily"]


class Evaluator(Protocol):
    """A dataset's two splits, ready to score any number of models."""

    def evaluate(self, model: TaskModel, device: Device) -> dict[str, Evaluation]:
        """Score a fine-tuned model on `validation` and `test`."""


class Split(Protocol):
    """A split to evaluate on, tokenised and batched once for all runs."""

    def predict(self, model: TaskModel, device: Device) -> object:
        """Return a fine-tuned model's predictions, of the class that the task's metrics read."""


class Family(ABC):
    """One of the task families."""

    name: ClassVar[str]
    """A name in `benchmarks.protocol.TASKS`."""
    evaluations: ClassVar[int] = 1
    """How often a model reads what it is evaluated on."""

    def micro_batch(self, fine_tuning: FineTuning) -> int:
        """Return the number of examples of a micro-batch."""
        return fine_tuning.micro_batch

    @abstractmethod
    def objective(
        self,
        dataset: LocalDataset,
        rows: NDArray[np.int64],
        loaded: LoadedModel,
        fine_tuning: FineTuning,
        pooling: Pooling,
    ) -> Objective:
        """Tokenise the training examples `rows`, ascending, which are those that the runs use."""

    @abstractmethod
    def evaluator(
        self,
        dataset: LocalDataset,
        loaded: LoadedModel,
        device: Device,
        fine_tuning: FineTuning,
        pooling: Pooling,
    ) -> Evaluator:
        """Tokenise and batch a dataset's two evaluation splits."""

    @abstractmethod
    def head(self, dataset: Dataset, width: int, pooling: Pooling) -> SequenceHead | TokenHead | None:
        """Return a dataset's head on hidden states of that width; None where the family has none."""

    @abstractmethod
    def evaluated(self, dataset: LocalDataset) -> Mapping[str, pa.Table]:
        """Return by name what a model reads in evaluation."""

    @abstractmethod
    def texts(self, dataset: Dataset, part: str, row: Mapping[str, Any]) -> Sequence[str]:
        """Return what a model reads of a row of `train`, or of a part of `evaluated`, to estimate its length."""


class SupervisedFamily(Family):
    """A family with a head and labels, whose splits are evaluated one by one."""

    @abstractmethod
    def new_head(self, width: int, labels: int, pooling: Pooling) -> SequenceHead | TokenHead:
        """Return the head on hidden states of that width."""

    def head(self, dataset: Dataset, width: int, pooling: Pooling) -> SequenceHead | TokenHead:
        """Return a dataset's head on hidden states of that width."""
        if dataset.labels is None:
            raise UserError(f"{dataset.name} has no number of labels in benchmarks/protocol.py")
        return self.new_head(width, dataset.labels, pooling)

    @abstractmethod
    def split(self, dataset: LocalDataset, table: pa.Table, loaded: LoadedModel, device: Device) -> Split:
        """Tokenise and batch a split."""

    def evaluator(
        self,
        dataset: LocalDataset,
        loaded: LoadedModel,
        device: Device,
        fine_tuning: FineTuning,
        pooling: Pooling,
    ) -> Evaluator:
        """Tokenise and batch a dataset's two evaluation splits."""
        splits = {name: self.split(dataset, dataset.tables[name], loaded, device) for name in SPLITS}
        return _Splits(dataset=dataset.dataset, splits=splits)

    def evaluated(self, dataset: LocalDataset) -> Mapping[str, pa.Table]:
        """Return by name what a model reads in evaluation."""
        return {name: dataset.tables[name] for name in SPLITS}


@dataclass(frozen=True, kw_only=True)
class _Splits:
    dataset: Dataset
    splits: Mapping[str, Split]

    def evaluate(self, model: TaskModel, device: Device) -> dict[str, Evaluation]:
        return {
            name: evaluate(self.dataset, split.predict(model, device)) for name, split in self.splits.items()
        }
