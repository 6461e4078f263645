"""Sequence classification (SC): a class for each text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.datasets.local_dataset import LocalDataset
from benchmarks.finetuning.device import Device
from benchmarks.finetuning.encoders import LoadedModel
from benchmarks.finetuning.heads import SequenceHead
from benchmarks.finetuning.poolings import Pooling
from benchmarks.finetuning.tokenization import classification_text, encode_texts
from benchmarks.metrics.metric import ClassPredictions
from benchmarks.protocol import Dataset, FineTuning
from benchmarks.ragged import Ragged
from benchmarks.tasks.family import SupervisedFamily
from benchmarks.tasks.supervised import PaddedBatch, SupervisedObjective, TaskModel, predict

__all__ = ["SequenceClassification", "SequenceClassificationSplit", "sequence_classification_split"]


class SequenceClassification(SupervisedFamily):
    """A class for each text or pair of texts."""

    name = "SC"

    def objective(
        self,
        dataset: LocalDataset,
        rows: NDArray[np.int64],
        loaded: LoadedModel,
        fine_tuning: FineTuning,
        pooling: Pooling,
    ) -> SupervisedObjective:
        """Tokenise the training examples that the runs use."""
        ids, labels = _encode(dataset.dataset, dataset.train.take(rows), loaded)
        return SupervisedObjective(
            ids=ids,
            labels=labels,
            size=dataset.train.num_rows,
            fine_tuning=fine_tuning,
            pad=loaded.tokenizer.pad_token_id,
            rows=rows,
        )

    def split(
        self, dataset: LocalDataset, table: pa.Table, loaded: LoadedModel, device: Device
    ) -> SequenceClassificationSplit:
        """Tokenise and batch a split."""
        return sequence_classification_split(dataset.dataset, table, loaded, device)

    def new_head(self, width: int, labels: int, pooling: Pooling) -> SequenceHead:
        """Return the head on hidden states of that width."""
        return SequenceHead(width, labels, pooling)

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


def sequence_classification_split(
    dataset: Dataset, table: pa.Table, loaded: LoadedModel, device: Device
) -> SequenceClassificationSplit:
    """Tokenise and batch a split."""
    ids, labels = _encode(dataset, table, loaded)
    batches = PaddedBatch.cut(ids, device, loaded.tokenizer.pad_token_id)
    return SequenceClassificationSplit(gold=labels, batches=batches)


def _encode(dataset: Dataset, table: pa.Table, loaded: LoadedModel) -> tuple[Ragged, NDArray[np.int64]]:
    texts = [
        classification_text(dataset, first, second)
        for first, second in zip(table["first"].to_pylist(), table["second"].to_pylist(), strict=True)
    ]
    ids = encode_texts(loaded.tokenizer, texts, loaded.limits[0])
    return ids, table["label"].to_numpy().astype(np.int64)
