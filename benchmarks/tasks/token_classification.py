"""Token classification (TC): a tag for each sub-token, from which metrics make the words' tags."""

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
from benchmarks.finetuning.heads import TokenHead
from benchmarks.finetuning.poolings import Pooling
from benchmarks.finetuning.tokenization import Words, encode_words
from benchmarks.metrics.metric import TagPredictions
from benchmarks.protocol import Dataset, FineTuning
from benchmarks.ragged import Ragged
from benchmarks.tasks.family import SupervisedFamily
from benchmarks.tasks.supervised import IGNORED, PaddedBatch, SupervisedObjective, TaskModel, predict

__all__ = ["TokenClassification", "TokenClassificationSplit", "token_classification_split"]


class TokenClassification(SupervisedFamily):
    """A tag for each word."""

    name = "TC"

    def objective(
        self,
        dataset: LocalDataset,
        rows: NDArray[np.int64],
        loaded: LoadedModel,
        fine_tuning: FineTuning,
        pooling: Pooling,
    ) -> SupervisedObjective:
        """Tokenise the training sentences that the runs use; every sub-token carries its word's tag."""
        taken = dataset.train.take(rows)
        words = encode_words(loaded.tokenizer, taken["words"].to_pylist(), loaded.limits[0])
        tags = Ragged.of(taken["tags"].to_pylist())
        number = _word_numbers(words, tags)
        labels = np.where(number >= 0, tags.values[np.maximum(number, 0)], IGNORED)
        return SupervisedObjective(
            ids=words.ids,
            labels=Ragged(labels, words.ids.offsets),
            size=dataset.train.num_rows,
            fine_tuning=fine_tuning,
            pad=loaded.tokenizer.pad_token_id,
            rows=rows,
        )

    def split(
        self, dataset: LocalDataset, table: pa.Table, loaded: LoadedModel, device: Device
    ) -> TokenClassificationSplit:
        """Tokenise and batch a split."""
        return token_classification_split(table, dataset.labels, loaded, device)

    def new_head(self, width: int, labels: int, pooling: Pooling) -> TokenHead:
        """Return the head on hidden states of that width."""
        return TokenHead(width, labels)

    def texts(self, dataset: Dataset, part: str, row: Mapping[str, Any]) -> list[str]:
        """Return the text that a model reads of a row."""
        return [" ".join(row["words"])]


@dataclass(frozen=True, kw_only=True)
class TokenClassificationSplit:
    """A split to evaluate on, tokenised and batched once for all runs."""

    names: tuple[str, ...]
    """Tag names by id."""
    gold: Ragged
    """Tag of each word, a row a sentence."""
    words: NDArray[np.int64]
    """For each token of the split, the number of its word in the split; -1 for none."""
    offsets: NDArray[np.int64]
    """Where each sentence's tokens start."""
    batches: list[PaddedBatch]
    """What the model reads."""

    def predict(self, model: TaskModel, device: Device) -> TagPredictions:
        """Return a fine-tuned model's tags."""
        tokens = np.zeros(len(self.words), dtype=np.int64)
        for rows, logits in predict(model, self.batches, device):
            best = logits.argmax(axis=2)
            for row, tags in zip(rows, best, strict=True):
                start, end = self.offsets[row], self.offsets[row + 1]
                tokens[start:end] = tags[: end - start]
        return TagPredictions(tokens=tokens, words=self.words, gold=self.gold, names=self.names)


def token_classification_split(
    table: pa.Table, names: tuple[str, ...], loaded: LoadedModel, device: Device
) -> TokenClassificationSplit:
    """Tokenise and batch a split."""
    words = encode_words(loaded.tokenizer, table["words"].to_pylist(), loaded.limits[0])
    gold = Ragged.of(table["tags"].to_pylist())
    return TokenClassificationSplit(
        names=names,
        gold=gold,
        words=_word_numbers(words, gold),
        offsets=words.ids.offsets,
        batches=PaddedBatch.cut(words.ids, device, loaded.tokenizer.pad_token_id),
    )


def _word_numbers(words: Words, tags: Ragged) -> NDArray[np.int64]:
    """Return for each token the number of its word counted over all sentences; -1 for none."""
    first = tags.offsets[words.ids.row_of]
    numbers: NDArray[np.int64] = np.where(words.words.values >= 0, words.words.values + first, -1)
    return numbers
