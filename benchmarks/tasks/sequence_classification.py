"""Sequence classification (SC): accuracy; F1 too where the dataset is QQP."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.finetuning.device import Machine
from benchmarks.finetuning.encoders import Loaded
from benchmarks.finetuning.tokenization import classification_text, encode_texts
from benchmarks.metrics import paper as paper_metrics
from benchmarks.metrics import standard as standard_metrics
from benchmarks.protocol import Tuning
from benchmarks.ragged import Ragged
from benchmarks.tasks.supervised import Evaluation, LabelledObjective, Measured, PaddedBatch, predict

__all__ = ["ClassificationSplit", "classification_objective", "classification_split"]


def classification_objective(
    dataset: str, table: pa.Table, rows: NDArray[np.int64], loaded: Loaded, tuning: Tuning
) -> LabelledObjective:
    """Tokenise the training examples that the runs draw.

    Args:
        dataset: name, which decides the text of pairs.
        table: the whole training split.
        rows: examples that are needed, ascending.
        loaded: tokenizer and limits.
        tuning: batch and micro-batch.
    """
    ids, labels = _encode(dataset, table.take(rows), loaded)
    return LabelledObjective(
        ids=ids,
        labels=labels,
        size=table.num_rows,
        tuning=tuning,
        pad=loaded.tokenizer.pad_token_id,
        rows=rows,
    )


@dataclass(frozen=True, kw_only=True)
class ClassificationSplit:
    """A split to evaluate on, tokenised and batched once for all runs."""

    dataset: str
    """Its dataset."""
    gold: NDArray[np.int64]
    """Class of each example."""
    batches: list[PaddedBatch]
    """What the model reads."""

    def evaluate(self, model: Measured, machine: Machine) -> Evaluation:
        """Score a fine-tuned model."""
        predicted = np.empty_like(self.gold)
        for rows, logits in predict(model, self.batches, machine):
            predicted[rows] = logits.argmax(axis=1)
        scores = paper_metrics.accuracies(predicted, self.gold)
        standard: dict[str, object] = {"accuracy": float(scores.mean())}
        if self.dataset == "qqp":
            standard["f1"] = standard_metrics.binary_f1(predicted, self.gold)
        standard["instances"] = {"predicted": predicted.tolist()}
        return Evaluation(scores=scores.tolist(), standard=standard)


def classification_split(
    dataset: str, table: pa.Table, loaded: Loaded, machine: Machine
) -> ClassificationSplit:
    """Tokenise and batch a split."""
    ids, labels = _encode(dataset, table, loaded)
    batches = PaddedBatch.cut(ids, machine, loaded.tokenizer.pad_token_id)
    return ClassificationSplit(dataset=dataset, gold=labels, batches=batches)


def _encode(dataset: str, table: pa.Table, loaded: Loaded) -> tuple[Ragged, NDArray[np.int64]]:
    texts = [
        classification_text(dataset, first, second)
        for first, second in zip(table["first"].to_pylist(), table["second"].to_pylist(), strict=True)
    ]
    ids = encode_texts(loaded.tokenizer, texts, loaded.limits[0])
    return ids, table["label"].to_numpy().astype(np.int64)
