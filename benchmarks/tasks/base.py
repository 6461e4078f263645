"""What a task family is: what its datasets train on, what they are evaluated with, and what a model reads.

A step trains on a batch, which is a number of micro-batches. A pass is one forward pass of the model, which may compute
several micro-batches or a part of one. A kept encoder is the folder of a fine-tuned model that `--keep` writes, with a
model card.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from benchmarks.datasets.local_dataset import LocalDataset
from benchmarks.finetuning.device import RunDevice
from benchmarks.finetuning.encoders import Encoder, LoadedModel
from benchmarks.finetuning.heads import MEAN, POOLINGS, Head, Pooling
from benchmarks.finetuning.own_ends import ending_tokenizer, lower_case_tokenizer
from benchmarks.finetuning.tokenization import Tokenizer
from benchmarks.finetuning.trainer import Groups, TrainingLoss, example_order
from benchmarks.metrics.metric import Evaluation
from benchmarks.protocol import FINE_TUNING, Dataset, FineTuning, HeadName
from common.embedding import PAPER_READING, Embedding


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What all fine-tunings of a job have in common: the model, the device and how texts are read."""

    loaded: LoadedModel
    """The model and its tokenizer."""
    device: RunDevice
    """The device on which the model is fine-tuned and evaluated."""
    fine_tuning: FineTuning = FINE_TUNING
    """Hyper-parameters."""
    pooling: Pooling = MEAN
    """How a text becomes a vector."""
    reading: Embedding = PAPER_READING
    """How texts of retrieval are read: their prompts, pooling and length, and whether in lower case."""
    head: HeadName = "paper"
    """Whose heads are put on the encoder."""

    def reading_as(self, reading: Embedding) -> Setting:
        """Return this setting with another reading, and with the pooling that belongs to it."""
        return replace(self, reading=reading, pooling=POOLINGS[reading.pooling])

    @property
    def pad(self) -> int:
        """The id that fills up short rows of a batch; not in retrieval, which has another tokenizer."""
        return int(self.loaded.tokenizer.pad_token_id)

    @cached_property
    def own_tokenizer(self) -> Tokenizer:
        """The tokenizer for retrieval sets of one's own, in training, in evaluation and in the kept folder."""
        tokenizer = self.loaded.retrieval_tokenizer
        if self.reading.lower:
            tokenizer = lower_case_tokenizer(tokenizer)
        # The end of text goes behind each text where the tokenizer puts nothing there. Not `alone`: the
        # tokenizer's other special tokens stay.
        if self.reading.ends:
            tokenizer = ending_tokenizer(tokenizer, alone=False)
        return tokenizer

    @property
    def own_longest(self) -> int:
        """Most tokens of a text of a retrieval set of one's own: the limit of the model's maker, or training's.

        It is never beyond what the model and its tokenizer can read.
        """
        limits = self.loaded.limits
        # `longest` is the maker's limit, None if there is none; `retrieval` is training's limit; `paper_retrieval` is
        # all that the model and its tokenizer can read.
        return min(self.reading.longest or limits.retrieval, limits.paper_retrieval)


class TaskModel(nn.Module):
    """An encoder with the head of a task family; retrieval has no head."""

    def __init__(self, encoder: Encoder, head: Head | None) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head

    def forward(
        self, ids: Tensor, lengths: Tensor, kinds: Tensor | None = None
    ) -> Tensor:
        """Return logits, (B, K) of sequences or (B, L, K) of tokens; hidden states (B, L, H) without a head.

        `lengths` may be on the CPU (`Encoder.forward`); `kinds` are token type ids (B, L), where there are any.
        """
        hidden: Tensor = self.encoder(ids, lengths, kinds)
        if self.head is None:
            return hidden
        logits: Tensor = self.head(hidden, lengths.to(hidden.device, non_blocking=True))
        return logits


def packs(model: nn.Module) -> bool:
    """Return whether a model's forward passes in fine-tuning leave padding out."""
    return isinstance(model, TaskModel) and model.encoder.packs


@dataclass(frozen=True, kw_only=True)
class TrainedRows:
    """Which of a dataset's examples are trained on, and how: what every objective has in addition to their tokens."""

    order: Callable[[int], Iterator[Groups]]
    """Yields, for a seed, the example numbers of each step's micro-batches, without end."""
    fine_tuning: FineTuning
    """Batch, micro-batch and temperature."""
    pad: int
    """The id that fills up short rows; attention never sees it."""
    rows: NDArray[np.int64]
    """Which of the dataset's examples are tokenised here, by number, ascending: those that the runs use."""


Evaluator = Callable[[TaskModel, RunDevice], dict[str, Evaluation]]
"""Scores a fine-tuned model on a dataset's `validation` and `test`, which are tokenised once for all models."""


class Family(ABC):
    """One of the task families."""

    name: str
    """A form of datasets."""

    def micro_batch(self, fine_tuning: FineTuning) -> int:
        """Return the number of examples in a micro-batch."""
        return fine_tuning.micro_batch

    def order(
        self, dataset: LocalDataset, fine_tuning: FineTuning, seed: int
    ) -> Iterator[Groups]:
        """Yield the numbers of the training examples in each step's micro-batches, without end."""
        micro_batch = self.micro_batch(fine_tuning)
        groups = fine_tuning.batch // micro_batch
        return example_order(dataset.train.num_rows, seed, micro_batch, groups)

    @abstractmethod
    def objective(
        self, dataset: LocalDataset, rows: NDArray[np.int64], setting: Setting
    ) -> TrainingLoss:
        """Tokenise the training examples with the numbers `rows`, which ascend: those that the runs use."""

    @abstractmethod
    def evaluator(self, dataset: LocalDataset, setting: Setting) -> Evaluator:
        """Tokenise and batch a dataset's two evaluation splits."""

    @abstractmethod
    def code(self, pooling: Pooling, *, has_head_file: bool) -> str:
        """Return Python code that uses a kept encoder, for its card.

        Args:
            pooling: the encoder's pooling.
            has_head_file: whether its head is a file beside the weights, not a part of a class of transformers.
        """

    @abstractmethod
    def reads(self, dataset: Dataset, longest: int) -> str:
        """Return a sentence for the card of a kept encoder: how it reads a text, of at most `longest` tokens."""

    def head(
        self, dataset: Dataset, encoder: Encoder, pooling: Pooling, kind: HeadName
    ) -> Head | None:
        """Return a dataset's head on an encoder; None where the family has none."""
        return None

    def check(self, dataset: LocalDataset, loaded: LoadedModel) -> None:  # noqa: B027  (most read anything)
        """Check that a model can read every example; in most families it always can.

        Raises:
            UserError: there is an example that the model cannot read.
        """
