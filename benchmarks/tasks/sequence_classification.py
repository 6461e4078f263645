"""Sequence classification (SC): a class for each text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.finetuning.device import Device
from benchmarks.finetuning.encoders import Encoder, LoadedModel
from benchmarks.finetuning.heads import Head, HeadKind, Pooling
from benchmarks.finetuning.tokenization import classification_text, encode_texts
from benchmarks.metrics.metric import ClassPredictions
from benchmarks.protocol import Dataset
from benchmarks.ragged import Ragged
from benchmarks.tasks.base import TaskModel
from benchmarks.tasks.supervised import Examples, PaddedBatch, Split, SupervisedFamily, predict

__all__ = ["SequenceClassification", "SequenceClassificationSplit", "encoded"]


class SequenceClassification(SupervisedFamily):
    """A class for each text or pair of texts."""

    name = "SC"

    def examples(self, dataset: Dataset, table: pa.Table, loaded: LoadedModel) -> Examples:
        """Return token ids, and the class of each example."""
        return Examples(ids=encoded(dataset, table, loaded), labels=_classes(table)[:, None])

    def split(
        self, dataset: Dataset, table: pa.Table, labels: tuple[str, ...], loaded: LoadedModel, device: Device
    ) -> Split:
        """Tokenise and batch a split."""
        batches = PaddedBatch.cut(encoded(dataset, table, loaded), device, loaded.tokenizer.pad_token_id)
        return SequenceClassificationSplit(gold=_classes(table), batches=batches)

    def new_head(self, encoder: Encoder, labels: int, pooling: Pooling, kind: HeadKind) -> Head:
        """Return the head for so many classes."""
        return kind.of_sequences(encoder, labels, pooling)

    def texts(self, dataset: Dataset, part: str, row: Mapping[str, Any]) -> list[str]:
        """Return the text that a model reads of a row."""
        return [classification_text(dataset, row["first"], row["second"])]


@dataclass(frozen=True, kw_only=True)
class SequenceClassificationSplit:
    """A split to evaluate on, tokenised and batched once for all runs."""

    gold: NDArray[np.int64]
    """Class of each example."""
    batches: list[PaddedBatch]
    """What the model reads."""

    def predict(self, model: TaskModel, device: Device) -> ClassPredictions:
        """Return a fine-tuned model's classes."""
        predicted = np.empty_like(self.gold)
        for rows, logits in predict(model, self.batches, device):
            predicted[rows] = logits.argmax(axis=1)
        return ClassPredictions(predicted=predicted, gold=self.gold)


def encoded(dataset: Dataset, table: pa.Table, loaded: LoadedModel) -> Ragged:
    """Return the token ids of the texts or pairs of texts of a table."""
    texts = [
        classification_text(dataset, first, second)
        for first, second in zip(table["first"].to_pylist(), table["second"].to_pylist(), strict=True)
    ]
    return encode_texts(loaded.tokenizer, texts, loaded.limits.labelled)


def _classes(table: pa.Table) -> NDArray[np.int64]:
    classes: NDArray[np.int64] = table["label"].to_numpy().astype(np.int64)
    return classes
