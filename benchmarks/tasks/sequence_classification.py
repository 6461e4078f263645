"""Sequence classification (SC): a class for each text; of datasets of one's own also several labels, or a number.

The paper has classes alone. Losses of the others are those of transformers' classes: binary cross-entropy averaged over
labels, and the squared error.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.finetuning.device import Device
from benchmarks.finetuning.encoders import Encoder, LoadedModel
from benchmarks.finetuning.heads import Head, HeadKind, Pooling
from benchmarks.finetuning.tokenization import classification_text, encode_texts
from benchmarks.metrics.metric import ClassPredictions, LabelPredictions, ValuePredictions
from benchmarks.protocol import Dataset
from benchmarks.ragged import Ragged
from benchmarks.tasks.base import TaskModel
from benchmarks.tasks.supervised import Examples, PaddedBatch, SupervisedFamily, cross_entropy, predict

__all__ = ["MultiLabelClassification", "Regression", "SequenceClassification", "SequenceSplit"]


class _Sequences(SupervisedFamily):
    """Something said of each text or pair of texts."""

    @abstractmethod
    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of each example (B,), of logits (B, K) and labels (B, K) or classes (B, 1)."""

    @abstractmethod
    def gold(self, dataset: Dataset, table: pa.Table) -> NDArray[Any]:
        """Return what is said of each example, by row."""

    @abstractmethod
    def predictions(self, dataset: Dataset, gold: NDArray[Any], logits: NDArray[np.float32]) -> object:
        """Return the predictions that the metrics read, of logits (examples, K)."""

    def examples(self, dataset: Dataset, table: pa.Table, loaded: LoadedModel) -> Examples:
        """Return token ids, and what is said of each example."""
        gold = self.gold(dataset, table)
        kind = np.int64 if gold.dtype == np.int64 else np.float32
        labels = gold.reshape(len(gold), -1).astype(kind)
        return Examples(ids=_encoded(dataset, table, loaded), labels=labels, loss=self.loss)

    def split(
        self, dataset: Dataset, table: pa.Table, labels: tuple[str, ...], loaded: LoadedModel, device: Device
    ) -> SequenceSplit:
        """Tokenise and batch a split."""
        batches = PaddedBatch.cut(_encoded(dataset, table, loaded), device, loaded.tokenizer.pad_token_id)
        return SequenceSplit(family=self, dataset=dataset, gold=self.gold(dataset, table), batches=batches)

    def head(self, dataset: Dataset, encoder: Encoder, pooling: Pooling, kind: HeadKind) -> Head:
        """Return the head for so many classes, labels, or one number."""
        assert dataset.labels is not None
        return kind.of_sequences(encoder, dataset.labels, pooling)

    def texts(self, dataset: Dataset, part: str, row: Mapping[str, Any]) -> list[str]:
        """Return the text that a model reads of a row."""
        return [classification_text(dataset, row["first"], row["second"])]


class SequenceClassification(_Sequences):
    """A class for each text or pair of texts."""

    name = "SC"

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the cross-entropies."""
        return cross_entropy(logits, labels)

    def gold(self, dataset: Dataset, table: pa.Table) -> NDArray[np.int64]:
        """Return the class of each example."""
        classes: NDArray[np.int64] = table["label"].to_numpy().astype(np.int64)
        return classes

    def predictions(self, dataset: Dataset, gold: NDArray[Any], logits: NDArray[np.float32]) -> object:
        """Return the likeliest classes."""
        return ClassPredictions(predicted=logits.argmax(axis=1), gold=gold)


class MultiLabelClassification(_Sequences):
    """Any number of labels for each text or pair of texts."""

    name = "SC-labels"

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the mean of the binary cross-entropies of an example's labels."""
        return F.binary_cross_entropy_with_logits(logits, labels, reduction="none").mean(1)

    def gold(self, dataset: Dataset, table: pa.Table) -> NDArray[np.bool_]:
        """Return which labels each example has, (examples, labels)."""
        found = np.zeros((table.num_rows, dataset.labels or 0), dtype=bool)
        for row, labels in enumerate(table["labels"].to_pylist()):
            found[row, labels] = True
        return found

    def predictions(self, dataset: Dataset, gold: NDArray[Any], logits: NDArray[np.float32]) -> object:
        """Return the labels that are likelier than not."""
        return LabelPredictions(predicted=logits > 0, gold=gold)


class Regression(_Sequences):
    """A number for each text or pair of texts."""

    name = "SC-value"

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the squared errors."""
        return (logits - labels).square()[:, 0]

    def gold(self, dataset: Dataset, table: pa.Table) -> NDArray[np.float64]:
        """Return the value of each example."""
        values: NDArray[np.float64] = table["value"].to_numpy()
        return values

    def predictions(self, dataset: Dataset, gold: NDArray[Any], logits: NDArray[np.float32]) -> object:
        """Return the values."""
        assert dataset.value_range is not None
        predicted = logits[:, 0].astype(np.float64)
        return ValuePredictions(predicted=predicted, gold=gold, limits=dataset.value_range)


@dataclass(frozen=True, kw_only=True)
class SequenceSplit:
    """A split to evaluate on, tokenised and batched once for all runs."""

    family: _Sequences
    """What makes predictions of logits."""
    dataset: Dataset
    """The dataset."""
    gold: NDArray[Any]
    """What is said of each example."""
    batches: list[PaddedBatch]
    """What the model reads."""

    def predict(self, model: TaskModel, device: Device) -> object:
        """Return a fine-tuned model's predictions."""
        rows, logits = zip(*predict(model, self.batches, device), strict=True)
        order = np.argsort(np.concatenate(rows))
        return self.family.predictions(self.dataset, self.gold, np.concatenate(logits)[order])


def _encoded(dataset: Dataset, table: pa.Table, loaded: LoadedModel) -> Ragged:
    """Return the token ids of the texts or pairs of texts of a table."""
    texts = [
        classification_text(dataset, first, second)
        for first, second in zip(table["first"].to_pylist(), table["second"].to_pylist(), strict=True)
    ]
    return encode_texts(loaded.tokenizer, texts, loaded.limits.labelled)
