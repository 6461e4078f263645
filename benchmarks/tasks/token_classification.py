"""Token classification (TC): per-sentence macro-F1 of voted word tags, and entity F1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.finetuning.device import Machine
from benchmarks.finetuning.encoders import Loaded
from benchmarks.finetuning.tokenization import Words, encode_words
from benchmarks.metrics import paper as paper_metrics
from benchmarks.metrics import standard as standard_metrics
from benchmarks.protocol import Tuning
from benchmarks.ragged import Ragged
from benchmarks.tasks.supervised import IGNORED, Evaluation, LabelledObjective, Measured, PaddedBatch, predict

__all__ = ["TaggingSplit", "tagging_objective", "tagging_split"]


def tagging_objective(
    table: pa.Table, rows: NDArray[np.int64], loaded: Loaded, tuning: Tuning
) -> LabelledObjective:
    """Tokenise the training sentences that the runs draw; every sub-token carries its word's tag.

    Args:
        table: the whole training split.
        rows: examples that are needed, ascending.
        loaded: tokenizer and limits.
        tuning: batch and micro-batch.
    """
    taken = table.take(rows)
    words = encode_words(loaded.tokenizer, taken["words"].to_pylist(), loaded.limits[0])
    tags = Ragged.of(taken["tags"].to_pylist())
    number = _word_numbers(words, tags)
    labels = np.where(number >= 0, tags.values[np.maximum(number, 0)], IGNORED)
    return LabelledObjective(
        ids=words.ids,
        labels=Ragged(labels, words.ids.offsets),
        size=table.num_rows,
        tuning=tuning,
        pad=loaded.tokenizer.pad_token_id,
        rows=rows,
    )


@dataclass(frozen=True, kw_only=True)
class TaggingSplit:
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

    def evaluate(self, model: Measured, machine: Machine) -> Evaluation:
        """Score a fine-tuned model."""
        tokens = np.zeros(len(self.words), dtype=np.int64)
        for rows, logits in predict(model, self.batches, machine):
            best = logits.argmax(axis=2)
            for row, tags in zip(rows, best, strict=True):
                start, end = self.offsets[row], self.offsets[row + 1]
                tokens[start:end] = tags[: end - start]
        return Evaluation(scores=self._paper(tokens), standard=self._standard(tokens))

    def _paper(self, tokens: NDArray[np.int64]) -> list[float]:
        """Score sentences by their words' votes; words without sub-tokens, cut off or lost, do not count."""
        words, voted = paper_metrics.vote_words(tokens, self.words)
        per_sentence = np.bincount(self.gold.row_of[words], minlength=len(self.gold))
        offsets = np.concatenate([[0], np.cumsum(per_sentence)])
        scores = paper_metrics.sentence_f1s(
            Ragged(voted, offsets), Ragged(self.gold.values[words].astype(np.int64), offsets)
        )
        return [float(score) for score in scores]

    def _standard(self, tokens: NDArray[np.int64]) -> dict[str, object]:
        """Score entities by each word's first sub-token; words without sub-tokens are O."""
        inside = np.flatnonzero(self.words >= 0)
        words, first = np.unique(self.words[inside], return_index=True)
        outside = self.names.index("O") if "O" in self.names else 0
        tags = np.full(len(self.gold.values), outside, dtype=np.int64)
        tags[words] = tokens[inside[first]]
        predicted = Ragged(tags, self.gold.offsets)
        counts = standard_metrics.entity_counts(self._named(predicted), self._named(self.gold))
        return {
            "entity_f1": standard_metrics.f1_of_counts(counts),
            "instances": {
                name: counts[:, column].tolist()
                for column, name in enumerate(("entities_right", "entities_predicted", "entities_gold"))
            },
        }

    def _named(self, tags: Ragged) -> list[list[str]]:
        return [[self.names[int(tag)] for tag in tags[row]] for row in range(len(tags))]


def tagging_split(table: pa.Table, names: tuple[str, ...], loaded: Loaded, machine: Machine) -> TaggingSplit:
    """Tokenise and batch a split."""
    words = encode_words(loaded.tokenizer, table["words"].to_pylist(), loaded.limits[0])
    gold = Ragged.of(table["tags"].to_pylist())
    return TaggingSplit(
        names=names,
        gold=gold,
        words=_word_numbers(words, gold),
        offsets=words.ids.offsets,
        batches=PaddedBatch.cut(words.ids, machine, loaded.tokenizer.pad_token_id),
    )


def _word_numbers(words: Words, tags: Ragged) -> NDArray[np.int64]:
    """Return for each token the number of its word counted over all sentences; -1 for none."""
    first = tags.offsets[words.ids.row_of]
    numbers: NDArray[np.int64] = np.where(words.words.values >= 0, words.words.values + first, -1)
    return numbers
