"""Objectives (CLM, MLM, MNTP): what a batch's input is and which positions predict what; how sequences are weighed.

The fifth file of the loop (`train` lists them): `dataloader` calls `prepare`, `composer_parts` the rest.

An objective turns a packed batch (sequences laid end to end) into an `ObjectiveBatch` on the CPU, in the data loader's
thread. All objectives have the same loss, the cross-entropy of the predicted tokens. Logits are computed only at the
positions that predict a token, and for a few of them at a time (`pretraining.model.cross_entropy`).

A batch is what one forward and backward pass computes. A step, which is one update of the weights, has several of them.
The sequences of a step form fixed groups, the paper's micro-batches of 12, and the weight of a predicted token in the
loss follows from how many tokens its group and the step predict (`group_weights`). The weights travel with the
sequences, so that the gradient does not depend on which of them are computed together, where, and in how many passes.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pretraining.model.adapted import AdaptedModel
from pretraining.model.cross_entropy import IGNORE
from pretraining.model.masking import MaskRule, batch_mask
from pretraining.model.modeling import EuroBertForMaskedLM
from pretraining.model.packed_batch import PackedBatch, on_device
from pretraining.models import OBJECTIVES


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
    groups: Tensor | None = None
    """For each label, the number of its group among those of the step, int64, of the labels' shape; None outside
    training."""
    weights: Tensor | None = None
    """Weight of a predicted token of each group, (G,), as `group_weights` returns it; None weighs all by 1."""

    def to(
        self, device: torch.device | str, *, non_blocking: bool = False
    ) -> ObjectiveBatch:
        """Return the batch with its tensors on `device`."""
        return on_device(self, device, non_blocking=non_blocking)

    def grouped(self, groups: Tensor) -> ObjectiveBatch:
        """Return the batch with a group for each label.

        Args:
            groups: number of the group of each of the batch's S sequences, (S,), int64.
        """
        lengths = self.inputs.cu_seqlens.diff().long()
        of_tokens = torch.repeat_interleave(
            groups, lengths, output_size=self.inputs.num_tokens
        )
        # Without positions there is a label for each token.
        if self.positions is None:
            return replace(self, groups=of_tokens)
        return replace(self, groups=of_tokens[self.positions])

    def counts(self, groups: int) -> Tensor:
        """Return how many tokens this batch predicts of each of the step's `groups` groups, (groups,), float64."""
        assert self.groups is not None, "only training batches have groups"
        predicted = self.groups[self.labels != IGNORE]
        return torch.bincount(predicted, minlength=groups).double()


@dataclass(frozen=True, kw_only=True)
class LossSum:
    """A loss as its sum and the number of tokens in it."""

    total: Tensor
    """Summed cross-entropy in nats, weighed where the batch has weights; a scalar with gradient."""
    count: int
    """Number of predicted tokens; may be 0, then `total` is 0 as well."""

    @property
    def mean(self) -> Tensor:
        """Mean cross-entropy in nats a token, of a batch without weights; 0 when nothing is predicted."""
        return self.total / max(self.count, 1)


def clm(batch: PackedBatch, rule: MaskRule | None = None) -> ObjectiveBatch:
    """Return the batch for causal language modeling: each token predicts the next one of its own sequence.

    The last token of a sequence predicts nothing, and the first one is not predicted.
    """
    del rule
    # The label of a position is the token after it.
    labels = torch.full_like(batch.tokens, IGNORE)
    labels[:-1] = batch.tokens[1:]

    # After the last token of a sequence there is only the next sequence: `cu_seqlens` has where each one ends.
    last_positions = batch.cu_seqlens[1:].long() - 1
    labels[last_positions] = IGNORE

    # Of each sequence all tokens but the first are predicted; `len` is the number of sequences.
    count = batch.num_tokens - len(batch)
    return ObjectiveBatch(
        inputs=batch, labels=labels, positions=None, count=count, is_causal=True
    )


def mlm(batch: PackedBatch, rule: MaskRule | None) -> ObjectiveBatch:
    """Return the batch for masked language modeling: masked tokens are replaced by the mask token and predicted.

    The batch must be on the CPU, where masks are drawn. The rule is None only for objectives that mask nothing.
    """
    assert rule is not None, "names of MLM stages have a ratio"
    masked = torch.from_numpy(batch_mask(batch, rule))
    positions = masked.nonzero().squeeze(1)
    inputs = replace(batch, tokens=batch.tokens.masked_fill(masked, rule.mask_token_id))
    return ObjectiveBatch(
        inputs=inputs,
        labels=batch.tokens[positions],
        positions=positions,
        count=len(positions),
        is_causal=False,
    )


def mntp(batch: PackedBatch, rule: MaskRule | None) -> ObjectiveBatch:
    """Return the batch for masked next-token prediction (arXiv 2404.05961).

    As in MLM, tokens are masked and predicted, but each at the position before its own. There a decoder's head was
    trained to predict it.

    Args:
        batch: one sequence, as `prepare` hands it over. Its first token has no position before it and is not predicted.
        rule: which tokens are masked.
    """
    masked = mlm(batch, rule)
    assert masked.positions is not None, "MLM predicts at positions"
    has_left_neighbour = masked.positions > 0
    labels = masked.labels[has_left_neighbour]
    positions = masked.positions[has_left_neighbour] - 1
    return replace(masked, labels=labels, positions=positions, count=len(positions))


def prepare(
    batch: PackedBatch, objective: str, rule: MaskRule | None
) -> ObjectiveBatch:
    """Return a packed batch made ready for an objective.

    The objective's function gets one sequence at a time. So it cannot look from one text into the next, and what it
    predicts does not depend on which texts are packed together.

    Args:
        batch: the sequences, on the CPU.
        objective: a name in `pretraining.models.OBJECTIVES`.
        rule: how to mask; None for objectives that do not.
    """
    function: Callable[[PackedBatch, MaskRule | None], ObjectiveBatch]
    function = pkgutil.resolve_name(OBJECTIVES[objective].prepare)
    parts = [function(sequence, rule) for sequence in batch.alone()]

    # Positions of a part count within its sequence: add where the sequence begins in the packed batch. An objective
    # without positions (CLM) has none in any part.
    positions = []
    for part, begin in zip(parts, batch.cu_seqlens[:-1].tolist(), strict=True):
        if part.positions is not None:
            positions.append(part.positions + begin)

    tokens = torch.cat([part.inputs.tokens for part in parts])
    labels = torch.cat([part.labels for part in parts])
    # All that is not replaced, such as the direction, is the same in all parts and taken from the first.
    return replace(
        parts[0],
        inputs=replace(batch, tokens=tokens),
        labels=labels,
        positions=torch.cat(positions) if positions else None,
        count=sum(part.count for part in parts),
    )


def loss_sum(
    model: EuroBertForMaskedLM | AdaptedModel,
    batch: ObjectiveBatch,
    *,
    chunk: int | None = None,
) -> LossSum:
    """Return the loss of a batch: the sum of its tokens' cross-entropies, each times its group's weight if it has one.

    Args:
        model: the encoder with its head. The batch's `is_causal` counts, not that of the model's configuration.
        batch: on the model's device.
        chunk: for how many positions logits are computed at a time; chosen by the vocabulary's size when left out.
    """
    hidden = model.encode(batch.inputs, is_causal=batch.is_causal)
    # Only the positions that predict go on to the head; without `positions` all do.
    if batch.positions is not None:
        hidden = hidden.index_select(0, batch.positions)
    weights = None
    if batch.weights is not None:
        assert batch.groups is not None, "weights are those of groups"
        weights = batch.weights.index_select(0, batch.groups)
    total = model.loss_of(hidden, batch.labels, weights=weights, chunk=chunk)
    return LossSum(total=total, count=batch.count)


def group_weights(counts: Tensor, weighting: str) -> Tensor:
    """Return the weight of a predicted token of each group in the loss of the step, (G,), float64.

    The step's loss is the sum of weight times cross-entropy over all predicted tokens of all ranks. A group without
    predicted tokens takes no part.

    Args:
        counts: predicted tokens of each group in the whole step, (G,).
        weighting: `equal`, the paper's rule: the loss is the mean of the groups' means, so that a masked token weighs
            less in a group that holds more of them. `token`: the mean over all predicted tokens of the step, whatever
            the groups.
    """
    counts = counts.double()
    has_targets = counts > 0
    # Of groups, not yet of tokens: each group weighs 1, or as much as it has predicted tokens.
    weights = has_targets.double() if weighting == "equal" else counts
    # Each group's share of the loss. If no token of the step is predicted, all weights are 0: the smallest number that
    # is not 0 then stands in for their sum, against a division by 0.
    least = torch.finfo(torch.float64).tiny
    shares = weights / weights.sum().clamp(min=least)
    # Within a group, its predicted tokens divide the share equally.
    return torch.where(has_targets, shares / counts.clamp(min=1), 0.0)
