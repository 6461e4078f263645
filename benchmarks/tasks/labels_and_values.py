"""Sequence classification with several labels of a text, or with a number: datasets of one's own (GLUE's STS-B, say).

The paper has none of these. Losses are those of transformers' classes: binary cross-entropy averaged over labels, and
the squared error.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.finetuning.device import Device
from benchmarks.finetuning.encoders import LoadedModel
from benchmarks.metrics.metric import LabelPredictions, ValuePredictions
from benchmarks.protocol import Dataset
from benchmarks.tasks.base import TaskModel
from benchmarks.tasks.sequence_classification import SequenceClassification, encoded
from benchmarks.tasks.supervised import Examples, PaddedBatch, predict

__all__ = ["MultiLabelClassification", "Regression"]


class MultiLabelClassification(SequenceClassification):
    """Any number of labels for each text or pair of texts."""

    name = "SC-labels"

    def examples(self, dataset: Dataset, table: pa.Table, loaded: LoadedModel) -> Examples:
        """Return token ids, and 1 for each label that an example has, 0 for the others."""
        gold = _has_label(table, dataset.labels or 0)
        return Examples(ids=encoded(dataset, table, loaded), labels=gold.astype(np.float32), loss=_binary)

    def split(
        self, dataset: Dataset, table: pa.Table, labels: tuple[str, ...], loaded: LoadedModel, device: Device
    ) -> _LabelSplit:
        """Tokenise and batch a split."""
        batches = PaddedBatch.cut(encoded(dataset, table, loaded), device, loaded.tokenizer.pad_token_id)
        return _LabelSplit(gold=_has_label(table, len(labels)), batches=batches)


class Regression(SequenceClassification):
    """A number for each text or pair of texts."""

    name = "SC-value"

    def examples(self, dataset: Dataset, table: pa.Table, loaded: LoadedModel) -> Examples:
        """Return token ids, and the value of each example."""
        values = table["value"].to_numpy().astype(np.float32)
        return Examples(ids=encoded(dataset, table, loaded), labels=values[:, None], loss=_squared)

    def split(
        self, dataset: Dataset, table: pa.Table, labels: tuple[str, ...], loaded: LoadedModel, device: Device
    ) -> _ValueSplit:
        """Tokenise and batch a split."""
        assert dataset.value_range is not None
        batches = PaddedBatch.cut(encoded(dataset, table, loaded), device, loaded.tokenizer.pad_token_id)
        return _ValueSplit(gold=table["value"].to_numpy(), limits=dataset.value_range, batches=batches)


def _binary(logits: Tensor, labels: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(logits, labels, reduction="none").mean(1)


def _squared(logits: Tensor, labels: Tensor) -> Tensor:
    return (logits - labels).square()[:, 0]


def _has_label(table: pa.Table, number: int) -> NDArray[np.bool_]:
    found = np.zeros((table.num_rows, number), dtype=bool)
    for row, labels in enumerate(table["labels"].to_pylist()):
        found[row, labels] = True
    return found


@dataclass(frozen=True, kw_only=True)
class _LabelSplit:
    gold: NDArray[np.bool_]
    batches: list[PaddedBatch]

    def predict(self, model: TaskModel, device: Device) -> LabelPredictions:
        """Return a fine-tuned model's labels: those that are likelier than not."""
        predicted = np.zeros_like(self.gold)
        for rows, logits in predict(model, self.batches, device):
            predicted[rows] = logits > 0
        return LabelPredictions(predicted=predicted, gold=self.gold)


@dataclass(frozen=True, kw_only=True)
class _ValueSplit:
    gold: NDArray[np.float64]
    limits: tuple[float, float]
    batches: list[PaddedBatch]

    def predict(self, model: TaskModel, device: Device) -> ValuePredictions:
        """Return a fine-tuned model's values."""
        predicted = np.zeros_like(self.gold)
        for rows, logits in predict(model, self.batches, device):
            predicted[rows] = logits[:, 0]
        return ValuePredictions(predicted=predicted, gold=self.gold, limits=self.limits)
