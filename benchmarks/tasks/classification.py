"""Classification of texts (SC) and of words (TC): a class for each text, a tag for each sub-token.

The paper has only classes and tags. In datasets of one's own a text may also have several labels, or a number. Their
losses are those of transformers' classes: binary cross-entropy averaged over labels, and the squared error.

Shape suffixes: B examples, L padded length, K outputs of the head (classes, labels, tags, or one for a number).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import torch.nn.functional as F
from numpy.typing import NDArray

from benchmarks.finetuning.device import RunDevice
from benchmarks.finetuning.encoders import Encoder, LoadedModel
from benchmarks.finetuning.heads import Head, Pooling, sequence_head
from benchmarks.finetuning.tokenization import (
    classification_text,
    encode_texts,
    encode_words,
)
from benchmarks.metrics.metric import (
    ClassPredictions,
    LabelPredictions,
    TagPredictions,
    ValuePredictions,
)
from benchmarks.protocol import Dataset, HeadName
from benchmarks.ragged import Ragged
from benchmarks.tasks.base import Setting, TaskModel
from benchmarks.tasks.snippets import code_of_tokens, snippet
from benchmarks.tasks.supervised import (
    IGNORED,
    Examples,
    Loss,
    PaddedBatch,
    Predict,
    SupervisedFamily,
    cross_entropy,
    predict,
)


@dataclass(frozen=True, kw_only=True)
class SequenceFamily(SupervisedFamily):
    """Classification or regression: a class, classes or a value for each text or pair of texts."""

    name: str
    """A form of datasets."""
    gold: Callable[[Dataset, pa.Table], NDArray[Any]]
    """Returns the gold class, labels or value of each example, by row of a table."""
    loss: Loss
    """Returns the loss of each example (B,) for logits (B, K), and labels (B, K), or a class or value each (B, 1)."""
    predictions: Callable[[Dataset, NDArray[Any], NDArray[np.float32]], object]
    """Returns the predictions that the metrics read, for the result of `gold` and logits (examples, K)."""

    def code(self, pooling: Pooling, *, has_head_file: bool) -> str:
        """Return Python code with which a kept encoder classifies a text."""
        if not has_head_file:
            return snippet("pipeline", task="text-classification")
        parts = [snippet("head_beside", vector=pooling.code), snippet("text_head")]
        if pooling.of_logits:
            parts.append(snippet("mean_of_logits"))
        return "\n".join(parts)

    def reads(self, dataset: Dataset, longest: int) -> str:
        """Return a sentence with the pattern of a text or pair if there is one: a prompt, or names before two texts."""
        # A pair's texts have names before them: the paper's sets their own, such as Premise, others `Text 1`.
        # Sets of single texts have `Text 1` as well, which is the default, but never read it. So a set
        # without it is one of the paper's pairs, and a pair of one's own is known by its kind only.
        is_pair = dataset.files.content.get("kind") == "pair"
        if dataset.prompt or is_pair or "Text 1" not in dataset.segments:
            pattern = classification_text(dataset, "FIRST", "SECOND")
            in_one_line = pattern.replace("\n", "\\n")
            return f"A text, or a pair of texts, is read as `{in_one_line}`."
        return f"A text is read as it is, up to {longest:,} tokens, with the end of text behind it."

    def examples(
        self, dataset: Dataset, table: pa.Table, loaded: LoadedModel
    ) -> Examples:
        """Return token ids, and the class, labels or value of each example."""
        gold = self.gold(dataset, table)
        # Classes are integers and index the outputs; labels and values are compared with logits, which are float32.
        kind = np.int64 if gold.dtype == np.int64 else np.float32
        labels = gold.reshape(len(gold), -1).astype(kind)
        ids = _encoded(dataset, table, loaded)
        return Examples(ids=ids, labels=labels, loss=self.loss)

    def split(
        self,
        dataset: Dataset,
        table: pa.Table,
        labels: tuple[str, ...],
        setting: Setting,
    ) -> Predict:
        """Tokenise and batch a split once; return a function that predicts it with a model."""
        gold = self.gold(dataset, table)
        ids = _encoded(dataset, table, setting.loaded)
        batches = PaddedBatch.cut(ids, setting.device, setting.pad)

        # The device is that of `setting`, on which the batches are.
        def predict_split(model: TaskModel, device: RunDevice) -> object:
            # Of each batch the numbers of its rows in the split, and their logits.
            rows, logits = zip(*predict(model, batches, device), strict=True)
            # Batches come longest texts first: sort back into the split's order.
            order = np.argsort(np.concatenate(rows))
            in_order = np.concatenate(logits)[order]
            return self.predictions(dataset, gold, in_order)

        return predict_split

    def head(
        self, dataset: Dataset, encoder: Encoder, pooling: Pooling, kind: HeadName
    ) -> Head:
        """Return the head, with an output for each class or label, or one for a number."""
        # Only retrieval has no number of outputs.
        assert dataset.labels is not None
        return sequence_head(encoder, dataset.labels, pooling, kind)


def _labels(dataset: Dataset, table: pa.Table) -> NDArray[np.bool_]:
    """Return whether each example has each label, shape (examples, labels)."""
    has_label = np.zeros((table.num_rows, dataset.labels or 0), dtype=bool)
    for row, labels in enumerate(table["labels"].to_pylist()):
        has_label[row, labels] = True
    return has_label


def _values(
    dataset: Dataset, gold: NDArray[Any], logits: NDArray[np.float32]
) -> ValuePredictions:
    """Return the predicted values, which are the head's only output, next to the gold ones."""
    # A definition of values always has a range.
    assert dataset.value_range is not None
    return ValuePredictions(
        predicted=logits[:, 0].astype(np.float64), gold=gold, limits=dataset.value_range
    )


CLASSES = SequenceFamily(
    name="SC",
    gold=lambda _, table: table["label"].to_numpy().astype(np.int64),
    loss=cross_entropy,
    predictions=lambda _, gold, logits: ClassPredictions(
        predicted=logits.argmax(axis=1), gold=gold
    ),
)
"""A class for each text or pair of texts; the likeliest one is predicted."""

LABELS = SequenceFamily(
    name="SC-labels",
    gold=_labels,
    loss=lambda logits, labels: F.binary_cross_entropy_with_logits(
        logits, labels, reduction="none"
    ).mean(1),
    predictions=lambda _, gold, logits: LabelPredictions(
        predicted=logits > 0, gold=gold
    ),
)
"""Any number of labels for each text; those are predicted that are likelier than not (a logit above 0)."""

VALUES = SequenceFamily(
    name="SC-value",
    gold=lambda _, table: table["value"].to_numpy(),
    loss=lambda logits, labels: (logits - labels).square()[:, 0],
    predictions=_values,
)
"""A number for each text or pair of texts."""


def _encoded(dataset: Dataset, table: pa.Table, loaded: LoadedModel) -> Ragged:
    """Return the token ids of the texts or pairs of texts of a table."""
    firsts = table["first"].to_pylist()
    seconds = table["second"].to_pylist()
    texts = []
    for first, second in zip(firsts, seconds, strict=True):
        texts.append(classification_text(dataset, first, second))
    return encode_texts(loaded.tokenizer, texts, loaded.limits.labelled)


class TokenClassification(SupervisedFamily):
    """A tag for each word."""

    name = "TC"

    def code(self, pooling: Pooling, *, has_head_file: bool) -> str:
        """Return Python code with which a kept encoder tags words."""
        if has_head_file:
            return code_of_tokens()
        return snippet("pipeline", task="token-classification")

    def reads(self, dataset: Dataset, longest: int) -> str:
        """Return a sentence about how words become a text."""
        return "Words are joined by one space; each token has its word's tag."

    def examples(
        self, dataset: Dataset, table: pa.Table, loaded: LoadedModel
    ) -> Examples:
        """Return token ids, and the tag of each token: every sub-token carries its word's tag."""
        ids, words, tags = _encode(table, loaded)
        # The end of text belongs to no word and has no label; 0 is only there for the look-up.
        tags_of_tokens = tags.values[np.maximum(words, 0)]
        labels = np.where(words >= 0, tags_of_tokens, IGNORED)
        return Examples(ids=ids, labels=Ragged(labels, ids.offsets))

    def split(
        self,
        dataset: Dataset,
        table: pa.Table,
        labels: tuple[str, ...],
        setting: Setting,
    ) -> Predict:
        """Tokenise and batch a split once; return a function that predicts it with a model."""
        ids, words, gold = _encode(table, setting.loaded)
        batches = PaddedBatch.cut(ids, setting.device, setting.pad)

        # The device is that of `setting`, on which the batches are.
        def predict_split(model: TaskModel, device: RunDevice) -> TagPredictions:
            # The predicted tag of every token of the split, sentence after sentence, as in `ids.values`.
            tokens = np.zeros(len(words), dtype=np.int64)
            for rows, logits in predict(model, batches, device):
                tags_of_rows = logits.argmax(axis=2)
                for row, tags in zip(rows, tags_of_rows, strict=True):
                    start, end = ids.offsets[row : row + 2]
                    # A row of a batch is as wide as the longest one: what follows its own tokens is padding.
                    tokens[start:end] = tags[: end - start]
            return TagPredictions(tokens=tokens, words=words, gold=gold, names=labels)

        return predict_split


def _encode(
    table: pa.Table, loaded: LoadedModel
) -> tuple[Ragged, NDArray[np.int64], Ragged]:
    """Tokenise a table of sentences.

    Returns:
        Token ids by sentence; for each token the number of its word, counted over all sentences, or -1 for none; the
        tags of the words by sentence.
    """
    sentences = table["words"].to_pylist()
    ids, words = encode_words(loaded.tokenizer, sentences, loaded.limits.labelled)
    tags = Ragged.of(table["tags"].to_pylist())
    # `words` counts from 0 in each sentence; the offset of a sentence is the number of words in those before it.
    numbers_over_all = words.values + tags.offsets[ids.row_of]
    numbers = np.where(words.values >= 0, numbers_over_all, -1)
    return ids, numbers, tags
