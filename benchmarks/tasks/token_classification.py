"""Token classification (TC): a tag for each sub-token, from which metrics make the words' tags."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.finetuning.device import Device
from benchmarks.finetuning.encoders import LoadedModel
from benchmarks.finetuning.tokenization import Words, encode_words
from benchmarks.metrics.metric import TagPredictions
from benchmarks.protocol import Dataset
from benchmarks.ragged import Ragged
from benchmarks.tasks.base import TaskModel
from benchmarks.tasks.supervised import IGNORED, Examples, PaddedBatch, SupervisedFamily, predict

__all__ = ["TokenClassification", "TokenClassificationSplit"]


class TokenClassification(SupervisedFamily):
    """A tag for each word."""

    name = "TC"

    def examples(self, dataset: Dataset, table: pa.Table, loaded: LoadedModel) -> Examples:
        """Return token ids, and the tag of each token: every sub-token carries its word's tag."""
        words, tags = _encode(table, loaded)
        number = _word_numbers(words, tags)
        labels = np.where(number >= 0, tags.values[np.maximum(number, 0)], IGNORED)
        return Examples(ids=words.ids, labels=Ragged(labels, words.ids.offsets))

    def split(
        self, dataset: Dataset, table: pa.Table, labels: tuple[str, ...], loaded: LoadedModel, device: Device
    ) -> TokenClassificationSplit:
        """Tokenise and batch a split."""
        words, gold = _encode(table, loaded)
        return TokenClassificationSplit(
            names=labels,
            gold=gold,
            words=_word_numbers(words, gold),
            offsets=words.ids.offsets,
            batches=PaddedBatch.cut(words.ids, device, loaded.tokenizer.pad_token_id),
        )


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


def _encode(table: pa.Table, loaded: LoadedModel) -> tuple[Words, Ragged]:
    words = encode_words(loaded.tokenizer, table["words"].to_pylist(), loaded.limits.labelled)
    return words, Ragged.of(table["tags"].to_pylist())


def _word_numbers(words: Words, tags: Ragged) -> NDArray[np.int64]:
    """Return for each token the number of its word counted over all sentences; -1 for none."""
    first = tags.offsets[words.ids.row_of]
    numbers: NDArray[np.int64] = np.where(words.words.values >= 0, words.words.values + first, -1)
    return numbers
