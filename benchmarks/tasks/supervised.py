"""What the families with labels (SC, TC, QA) share: the loss over micro-batches, batches, and predictions.

A micro-batch is a part of a step's batch whose loss is averaged by itself. A pass is a forward pass, for which examples
of any micro-batches may be put together.

Shape suffixes: B examples, L padded length, K classes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from benchmarks.datasets.local_dataset import LocalDataset, cluster_ids
from benchmarks.finetuning.device import RunDevice
from benchmarks.finetuning.encoders import Encoder, LoadedModel
from benchmarks.finetuning.heads import Head, Pooling, token_head
from benchmarks.finetuning.trainer import FineTuningError, Groups
from benchmarks.metrics.metric import Evaluation, evaluate
from benchmarks.protocol import Dataset, HeadName
from benchmarks.ragged import Ragged, padded_batches
from benchmarks.tasks.base import (
    Evaluator,
    Family,
    Setting,
    TaskModel,
    TrainedRows,
    packs,
)

IGNORED = -100
"""Stands in place of a label at positions that have none, such as padding; the loss leaves them out."""


Loss = Callable[[Tensor, Tensor], Tensor]
"""Returns the loss of each example (B,) for logits (B, K) or (B, L, K) and labels."""


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Return for each example the sum of its cross-entropies (B,): of one class (B, 1), or of each token's (B, L)."""
    losses = F.cross_entropy(
        logits.flatten(0, -2), labels.flatten(), ignore_index=IGNORED, reduction="none"
    )
    return losses.view(len(labels), -1).sum(1)


@dataclass(frozen=True, kw_only=True)
class Examples:
    """Tokenised examples with their labels."""

    ids: Ragged
    """Token ids."""
    labels: NDArray[Any] | Ragged
    """What the loss compares with the logits: an array with a row for each example, or a class for each token, which is
    `IGNORED` where a token has none."""
    kinds: Ragged | None = None
    """Token type ids; None: the model gets none."""
    loss: Loss = cross_entropy
    """The loss of each example, not averaged over its tokens."""


@dataclass(frozen=True, kw_only=True)
class SupervisedObjective(Examples, TrainedRows):
    """A loss on sequences (SC) or tokens (TC, QA), averaged within micro-batches and then over them."""

    def backward(self, model: nn.Module, groups: Groups, device: RunDevice) -> Tensor:
        """Add the gradient of a step's loss, the mean of its micro-batches' means, and return the loss.

        Which examples share a forward pass does not matter: each brings the weight of its micro-batch.
        """
        # From numbers of the dataset's examples to those of the tokenised ones, which `self.rows` lists in order.
        rows = np.searchsorted(self.rows, np.concatenate(groups))
        sizes = [len(group) for group in groups]
        weights = self._weights(rows, sizes)
        total = torch.zeros((), device=device.torch_device)
        passes = device.passes(self.ids.lengths[rows], sizes, packed=packs(model))

        # A pass has the numbers, within the step, of the examples that share it.
        for part in passes:
            rows_of_pass = rows[part]
            ids = device.tensor(self.ids.padded(rows_of_pass, self.pad))
            lengths = torch.from_numpy(self.ids.lengths[rows_of_pass])
            # A class for each token, to be padded as the tokens are; or, as an array, the labels of each
            # example.
            if isinstance(self.labels, Ragged):
                labels = self.labels.padded(rows_of_pass, IGNORED).astype(np.int64)
            else:
                labels = self.labels[rows_of_pass]

            with device.autocast():
                kinds = kinds_of(self.kinds, rows_of_pass, device)
                logits = model(ids.long(), lengths, kinds)

            # The loss of an example is summed over its labels, which all have the same weight.
            sums = self.loss(logits.float(), device.tensor(labels))
            weighted = sums * device.tensor(weights[part])
            loss = weighted.sum()
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.detach()

        return total

    def _weights(
        self, rows: NDArray[np.int64], sizes: Sequence[int]
    ) -> NDArray[np.float32]:
        """Return for each example the weight of its labels: 1 / (micro-batches x labels in its micro-batch).

        Args:
            rows: the examples of a step, micro-batch after micro-batch.
            sizes: number of examples in each micro-batch.
        """
        # How many labels each example has: one, or one for each labelled token. Several labels of a text
        # count as one, since their loss is a mean over them (`LABELS` in `benchmarks.tasks.classification`).
        counts = np.ones(len(rows), dtype=np.int64)
        if isinstance(self.labels, Ragged):
            for number, row in enumerate(rows):
                labels = self.labels[int(row)]
                counts[number] = np.count_nonzero(labels != IGNORED)

        # The number of each example's micro-batch.
        group = np.repeat(np.arange(len(sizes)), sizes)
        labels_of_groups = np.bincount(group, weights=counts)

        # D8: a mean of means. Three labelled tokens can weigh as much as ninety.
        # A micro-batch may have no label: no division by 0.
        divisors = len(sizes) * np.maximum(labels_of_groups, 1)
        return (1.0 / divisors[group]).astype(np.float32)


@dataclass(frozen=True, kw_only=True)
class PaddedBatch:
    """Rows that share a forward pass in evaluation, their tokens already on the device."""

    rows: NDArray[np.int64]
    """Row numbers in the split."""
    ids: Tensor
    """Token ids (B, L), int32."""
    lengths: Tensor
    """Tokens of each row (B,), on the CPU."""
    kinds: Tensor | None = None
    """Token type ids (B, L); None: the model gets none."""

    @classmethod
    def cut(
        cls,
        ids: Ragged,
        device: RunDevice,
        pad: int,
        block: int = 1,
        kinds: Ragged | None = None,
    ) -> list[PaddedBatch]:
        """Cut a split into batches, longest rows first, or blocks of rows by their longest.

        Args:
            ids: token ids.
            device: has the size of a batch, and gets its tokens.
            pad: the id that fills up short rows.
            block: so many consecutive rows stay together, as in a batch of that size, so that each row is padded at
                least to the longest of its block.
            kinds: token type ids.
        """
        if not len(ids):
            return []
        starts = np.arange(0, len(ids), block)
        widths = np.maximum.reduceat(ids.lengths, starts)
        batches = []
        # Most positions of a batch, padding included; and what a batch costs besides, counted in positions.
        budget, overhead = device.eval_positions, device.kind.overhead

        # A batch has whole blocks, each as large as its rows times its width. The last one may be smaller.
        for blocks in padded_batches(widths * block, budget, overhead):
            parts = []
            for start in starts[blocks]:
                # The last block may have fewer rows.
                end = min(start + block, len(ids))
                parts.append(np.arange(start, end))

            rows = np.concatenate(parts)
            padded = ids.padded(rows, pad).astype(np.int32)
            batch = cls(
                rows=rows,
                ids=device.tensor(padded),
                lengths=torch.from_numpy(ids.lengths[rows]),
                kinds=kinds_of(kinds, rows, device),
            )
            batches.append(batch)

        return batches


def kinds_of(
    kinds: Ragged | None, rows: NDArray[np.int64], device: RunDevice
) -> Tensor | None:
    """Return the token type ids of the chosen rows, padded with 0 to one width; None if the model gets none."""
    if kinds is None:
        return None
    padded = kinds.padded(rows, 0)
    return device.tensor(padded.astype(np.int64))


@torch.inference_mode()
def predict(
    model: nn.Module, batches: Sequence[PaddedBatch], device: RunDevice
) -> Iterator[tuple[Any, NDArray[Any]]]:
    """Yield each batch's rows and its logits in float32, on the CPU, while a GPU computes the next batch's.

    Raises:
        FineTuningError: a logit is not finite, or memory does not suffice for one row.
    """
    model.eval()
    # The rows of the batch before, and a function that waits for its logits.
    previous: tuple[NDArray[np.int64], Callable[[], NDArray[Any]]] | None = None

    # A batch's logits are only waited for after the next batch was handed to the device. So there is one round more
    # than there are batches, in which the last batch's logits are fetched.
    for batch in (*batches, None):
        current = None
        if batch is not None:
            with device.autocast():
                current = batch.rows, device.fetch(in_halves(model, batch))

        if previous is not None:
            rows, wait_for_logits = previous
            logits = wait_for_logits()
            if not np.isfinite(logits).all():
                raise FineTuningError("the fine-tuned model's outputs are not finite")
            yield rows, logits

        previous = current


def in_halves(compute: Callable[..., Tensor], batch: PaddedBatch) -> Tensor:
    """Return the output of `compute` for a batch, in float32; a batch that is too large for the memory is halved.

    Args:
        compute: takes token ids, lengths and token type ids, and returns a tensor with a row for each of the batch.
        batch: the batch.

    Raises:
        FineTuningError: memory does not suffice for one row.
    """
    try:
        return compute(batch.ids.long(), batch.lengths, batch.kinds).float()
    except torch.OutOfMemoryError:
        if len(batch.ids) == 1:
            raise FineTuningError(
                "out of memory in evaluation even with one row; use a device with more memory"
            ) from None

    # Outside of the except clause, whose traceback would keep the tensors that filled the memory.
    middle = len(batch.ids) // 2
    outputs = []
    for part in (slice(middle), slice(middle, None)):
        half = PaddedBatch(
            rows=batch.rows[part],
            ids=batch.ids[part],
            lengths=batch.lengths[part],
            kinds=None if batch.kinds is None else batch.kinds[part],
        )
        outputs.append(in_halves(compute, half))

    return torch.cat(outputs)


Predict = Callable[[TaskModel, RunDevice], object]
"""Returns a fine-tuned model's predictions on a split, as an object of the class that the task's metrics read.

The device is the one for which the split was batched (`Setting.device`).
"""


class SupervisedFamily(Family):
    """A family with a head and labels, whose splits are evaluated one by one."""

    @abstractmethod
    def examples(
        self, dataset: Dataset, table: pa.Table, loaded: LoadedModel
    ) -> Examples:
        """Return the tokenised examples to train on."""

    @abstractmethod
    def split(
        self,
        dataset: Dataset,
        table: pa.Table,
        labels: tuple[str, ...],
        setting: Setting,
    ) -> Predict:
        """Tokenise and batch a split once for all runs, and return a function that predicts it with a model.

        Args:
            dataset: the dataset.
            table: the split.
            labels: the names of classes or tags by id.
            setting: the model, the device and how texts are read.
        """

    def head(
        self, dataset: Dataset, encoder: Encoder, pooling: Pooling, kind: HeadName
    ) -> Head:
        """Return a head that classifies each token; families that classify texts have another."""
        # Only retrieval has no number of outputs.
        assert dataset.labels is not None
        return token_head(encoder, dataset.labels, kind)

    def objective(
        self, dataset: LocalDataset, rows: NDArray[np.int64], setting: Setting
    ) -> SupervisedObjective:
        """Tokenise the training examples that the runs use."""
        table = dataset.train.take(rows)
        examples = self.examples(dataset.dataset, table, setting.loaded)
        order = partial(self.order, dataset, setting.fine_tuning)
        # An objective has the fields of `Examples` (ids, labels, kinds, loss), and those of `TrainedRows`,
        # named below.
        return SupervisedObjective(
            **vars(examples),
            order=order,
            fine_tuning=setting.fine_tuning,
            pad=setting.pad,
            rows=rows,
        )

    def evaluator(self, dataset: LocalDataset, setting: Setting) -> Evaluator:
        """Tokenise and batch a dataset's two evaluation splits; return a function that scores a model on both."""
        entry = dataset.dataset
        splits: dict[str, Predict] = {}
        clusters = {}
        for name, table in dataset.evaluated().items():
            # Here `labels` are names; `entry.labels` is the number of the head's outputs.
            splits[name] = self.split(entry, table, dataset.labels, setting)
            clusters[name] = cluster_ids(entry, table)

        # The device is that of `setting`, on which the batches of `splits` are.
        def score_splits(model: TaskModel, device: RunDevice) -> dict[str, Evaluation]:
            evaluations = {}
            for name, predictions_of in splits.items():
                evaluation = evaluate(entry, predictions_of(model, device))
                evaluations[name] = replace(evaluation, clusters=clusters[name])
            return evaluations

        return score_splits
