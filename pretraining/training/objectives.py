"""Objectives (CLM, MLM): what a batch's input is and which positions predict what; how micro-batches are weighed.

An objective turns a packed batch into an `ObjectiveBatch` on the CPU, in the data loader's thread; its loss is one
function for all. Logits exist at predicting positions only, and there a chunk at a time
(`pretraining.model.cross_entropy`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from common.registry import Registry
from pretraining.model.cross_entropy import IGNORE, linear_cross_entropy
from pretraining.model.heads import EuroBertForMaskedLM
from pretraining.model.masking import MaskRule, batch_mask
from pretraining.model.packed_batch import PackedBatch

__all__ = [
    "OBJECTIVES", "WEIGHTINGS", "LossSum", "Objective", "ObjectiveBatch", "Weighting", "clm", "loss_sum",
    "mlm",
]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ObjectiveBatch:
    """A packed batch made ready for one objective."""

    inputs: PackedBatch
    """What the model reads; masked tokens are replaced already."""
    labels: Tensor
    """Tokens to predict, int64: (M,) with `positions`, or (T,) with -100 where nothing is predicted."""
    positions: Tensor | None
    """Packed positions that predict, (M,), int64, rising; None when all of them pass the head."""
    count: int
    """Number of predicted tokens, known without asking the device."""
    is_causal: bool
    """Whether attention looks back only."""

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> ObjectiveBatch:
        """Return the batch with its tensors on `device`."""
        positions = self.positions
        return replace(
            self,
            inputs=self.inputs.to(device, non_blocking=non_blocking),
            labels=self.labels.to(device, non_blocking=non_blocking),
            positions=None if positions is None else positions.to(device, non_blocking=non_blocking),
        )


@dataclass(frozen=True, kw_only=True)
class LossSum:
    """A loss as its sum and the number of tokens in it, so that weighing them stays the caller's choice."""

    total: Tensor
    """Summed cross-entropy in nats, a scalar with gradient."""
    count: int
    """Number of predicted tokens; may be 0, then `total` is 0 too."""

    @property
    def mean(self) -> Tensor:
        """Mean cross-entropy in nats a token; 0 when nothing is predicted."""
        return self.total / max(self.count, 1)


def clm(batch: PackedBatch, rule: MaskRule | None = None) -> ObjectiveBatch:
    """Return the batch for causal language modeling: each token predicts the next of its own sequence.

    The last token of a sequence predicts nothing; the first is predicted by nothing.
    """
    del rule
    labels = torch.full_like(batch.tokens, IGNORE)
    labels[:-1] = batch.tokens[1:]
    labels[batch.cu_seqlens[1:].long() - 1] = IGNORE
    count = batch.num_tokens - len(batch)
    return ObjectiveBatch(inputs=batch, labels=labels, positions=None, count=count, is_causal=True)


def mlm(batch: PackedBatch, rule: MaskRule | None) -> ObjectiveBatch:
    """Return the batch for masked language modeling: masked tokens are replaced and predicted, others neither.

    The batch must be on the CPU, where its masks come from.
    """
    assert rule is not None, "names of MLM stages have a ratio"
    masked = torch.from_numpy(batch_mask(batch, rule))
    positions = masked.nonzero().squeeze(1)
    inputs = replace(batch, tokens=batch.tokens.masked_fill(masked, rule.mask_token_id))
    labels, count = batch.tokens[positions], len(positions)
    return ObjectiveBatch(inputs=inputs, labels=labels, positions=positions, count=count, is_causal=False)


@dataclass(frozen=True, kw_only=True)
class Objective:
    """A pretraining objective."""

    name: str
    """As in names of models (`pretraining.study.OBJECTIVES`)."""
    is_causal: bool
    """Whether attention looks back only, in training and in the exported model's configuration."""
    prepare: Callable[[PackedBatch, MaskRule | None], ObjectiveBatch]
    """Makes a packed batch ready; the rule is there for stages with a masking ratio."""


CLM = Objective(name="clm", is_causal=True, prepare=clm)
MLM = Objective(name="mlm", is_causal=False, prepare=mlm)
OBJECTIVES = Registry("objective", [CLM, MLM])
"""What a stage can be trained on."""


def loss_sum(model: EuroBertForMaskedLM, batch: ObjectiveBatch, *, chunk: int | None = None) -> LossSum:
    """Return the loss of one micro-batch, as a sum over its predicted tokens.

    Args:
        model: body and head; its configuration's `is_causal` is overruled by the batch's.
        batch: on the model's device.
        chunk: positions whose logits exist at a time; chosen by the vocabulary's size when left out.
    """
    hidden = model.model.encode(batch.inputs, is_causal=batch.is_causal)
    if batch.positions is not None:
        hidden = hidden.index_select(0, batch.positions)
    total = linear_cross_entropy(
        hidden, model.lm_head.weight, batch.labels, chunk, fused=model.blocks_compiled
    )
    return LossSum(total=total, count=batch.count)


@dataclass(frozen=True, kw_only=True)
class Weighting:
    """How micro-batches are weighed; a micro-batch without predicted tokens takes no part."""

    name: str
    """Value of the setting `weighting`."""
    weight: Callable[[int], int]
    """Weight of a micro-batch's mean loss, from its number of predicted tokens."""


EQUAL = Weighting(name="equal", weight=lambda count: int(count > 0))
TOKEN = Weighting(name="token", weight=lambda count: count)
WEIGHTINGS = Registry("micro-batch weighting", [EQUAL, TOKEN])
"""`equal`, the paper's rule: the loss is the mean of the micro-batches' means. A masked token weighs less in a
micro-batch that holds more of them, and the gradient depends on how the batch is cut. `token`: the mean over all
predicted tokens, which does not."""
