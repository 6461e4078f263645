"""What the three families with labels share: a model with a head, the loss over micro-batches, and predictions.

Shape suffixes: B examples, L padded length, K classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from benchmarks.finetuning.device import Device
from benchmarks.finetuning.encoders import Encoder
from benchmarks.finetuning.heads import SequenceHead, TokenHead
from benchmarks.finetuning.trainer import FineTuningError, Groups
from benchmarks.protocol import FineTuning
from benchmarks.ragged import Ragged, padded_batches

__all__ = ["IGNORED", "PaddedBatch", "SupervisedObjective", "TaskModel", "predict"]

IGNORED = -100
"""Label of positions without one."""


class TaskModel(nn.Module):
    """An encoder with the head of a family, or without one for retrieval."""

    def __init__(self, encoder: Encoder, head: SequenceHead | TokenHead | None) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Return logits, (B, K) of sequences or (B, L, K) of tokens; hidden states (B, L, H) without a head."""
        hidden: Tensor = self.encoder(ids, lengths)
        return hidden if self.head is None else self.head(hidden, lengths)


@dataclass(frozen=True, kw_only=True)
class SupervisedObjective:
    """Cross-entropy on sequences (SC) or tokens (TC, QA), averaged within micro-batches and then over them."""

    ids: Ragged
    """Token ids of the training examples at hand."""
    labels: NDArray[np.int64] | Ragged
    """A class an example, or one a token; `IGNORED` where there is none."""
    size: int
    """Number of training examples in the dataset."""
    fine_tuning: FineTuning
    """Batch and micro-batch."""
    pad: int
    """Id put after a row's end; attention never sees it."""
    rows: NDArray[np.int64]
    """Which of the dataset's examples are at hand, ascending: those that the runs use."""

    @property
    def micro_batch(self) -> int:
        """Examples of a micro-batch."""
        return self.fine_tuning.micro_batch

    @property
    def groups(self) -> int:
        """Micro-batches of a step."""
        return self.fine_tuning.batch // self.fine_tuning.micro_batch

    def backward(self, model: nn.Module, groups: Groups, device: Device) -> Tensor:
        """Add the gradient of the mean of the micro-batches' means, whatever shares a forward pass."""
        rows = np.searchsorted(self.rows, np.concatenate(groups))
        weights = self._weights(rows, [len(group) for group in groups])
        total = torch.zeros((), device=device.torch_device)
        for part in self._passes(rows, groups, device):
            ids = device.tensor(self.ids.padded(rows[part], self.pad))
            lengths = device.tensor(self.ids.lengths[rows[part]])
            if isinstance(self.labels, Ragged):
                labels = self.labels.padded(rows[part], IGNORED)
            else:
                labels = self.labels[rows[part]][:, None]
            with device.autocast():
                logits = model(ids.long(), lengths)
            losses = F.cross_entropy(
                logits.float().flatten(0, -2),
                device.tensor(labels.astype(np.int64)).flatten(),
                ignore_index=IGNORED,
                reduction="none",
            )
            sums = losses.view(len(part), -1).sum(1)
            loss = (sums * device.tensor(weights[part])).sum()
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        return total

    def _weights(self, rows: NDArray[np.int64], sizes: Sequence[int]) -> NDArray[np.float32]:
        """Return the weight of each label of an example: 1 / (micro-batches x labels in its micro-batch)."""
        if isinstance(self.labels, Ragged):
            counts = np.array([int((self.labels[int(row)] != IGNORED).sum()) for row in rows])
        else:
            counts = np.ones(len(rows), dtype=np.int64)
        group = np.repeat(np.arange(len(sizes)), sizes)
        labels = np.maximum(np.bincount(group, weights=counts), 1)
        weights: NDArray[np.float32] = (1.0 / (len(sizes) * labels[group])).astype(np.float32)
        return weights

    def _passes(self, rows: NDArray[np.int64], groups: Groups, device: Device) -> Iterator[NDArray[np.int64]]:
        """Yield which examples of a step share a forward pass."""
        widths = self.ids.lengths[rows]
        if not device.exact_micro_batches:
            yield from padded_batches(widths, device.train_positions, device.overhead)
            return
        start = 0
        for group in groups:
            for part in padded_batches(widths[start : start + len(group)], device.train_positions):
                yield start + np.sort(part)
            start += len(group)


@dataclass(frozen=True, kw_only=True)
class PaddedBatch:
    """Rows that share a forward pass in evaluation, already on the device."""

    rows: NDArray[np.int64]
    """Row numbers in the split."""
    ids: Tensor
    """Token ids (B, L), int32."""
    lengths: Tensor
    """Tokens of each row (B,)."""

    @classmethod
    def cut(cls, ids: Ragged, device: Device, pad: int, block: int = 1) -> list[PaddedBatch]:
        """Cut a split into batches, longest rows first.

        Args:
            ids: token ids.
            device: gives the device and the size of a batch.
            pad: id put after a row's end.
            block: consecutive rows that are padded to a common width, as batches of that size would be.
        """
        starts = np.arange(0, len(ids), block)
        widths = np.maximum.reduceat(ids.lengths, starts)
        batches = []
        for blocks in padded_batches(widths * block, device.eval_positions, device.overhead):
            rows = np.concatenate([np.arange(s, min(s + block, len(ids))) for s in starts[blocks]])
            batches.append(
                cls(
                    rows=rows,
                    ids=device.tensor(ids.padded(rows, pad).astype(np.int32)),
                    lengths=device.tensor(ids.lengths[rows]),
                )
            )
        return batches


@torch.inference_mode()
def predict(
    model: nn.Module, batches: Sequence[PaddedBatch], device: Device
) -> Iterator[tuple[Any, NDArray[Any]]]:
    """Yield each batch's rows and its logits in float32, on the CPU.

    Raises:
        FineTuningError: a logit is not finite, or memory does not suffice for one row.
    """
    model.eval()
    for batch in batches:
        logits = _logits(model, batch.ids, batch.lengths, device)
        if not bool(torch.isfinite(logits).all()):
            raise FineTuningError("the fine-tuned model's outputs are not finite")
        yield batch.rows, logits.cpu().numpy()


def _logits(model: nn.Module, ids: Tensor, lengths: Tensor, device: Device) -> Tensor:
    try:
        with device.autocast():
            return model(ids.long(), lengths).float()  # type: ignore[no-any-return]
    except torch.OutOfMemoryError:
        if len(ids) == 1:
            raise FineTuningError("out of memory in evaluation with one row; use a larger device") from None
    half = len(ids) // 2
    return torch.cat(
        [_logits(model, ids[part], lengths[part], device) for part in (slice(half), slice(half, None))]
    )
