"""Packed batches in parts and padded, and the weights of the parts, to compare with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from pretraining.model.packed_batch import PackedBatch, positions_of
from pretraining.training.objectives import WEIGHTINGS


def split(batch: PackedBatch, size: int) -> list[PackedBatch]:
    """Return micro-batches of at most `size` sequences, in order; the same tokens, nothing padded."""
    bounds = batch.cu_seqlens.tolist()
    return [
        replace(
            batch,
            tokens=batch.tokens[bounds[first] : bounds[min(first + size, len(batch))]],
            cu_seqlens=batch.cu_seqlens[first : first + size + 1] - bounds[first],
            sample_ids=batch.sample_ids[first : first + size],
        )
        for first in range(0, len(batch), size)
    ]


def padded(batch: PackedBatch, pad_token_id: int) -> tuple[Tensor, Tensor]:
    """Return `input_ids` and `attention_mask`, both (S, longest) and int64, padded on the right."""
    lengths = batch.cu_seqlens.diff().long()
    input_ids = batch.tokens.new_full((len(batch), int(lengths.max())), pad_token_id)
    attention_mask = torch.zeros_like(input_ids)
    where = (torch.repeat_interleave(lengths), positions_of(batch.cu_seqlens, batch.num_tokens))
    input_ids[where] = batch.tokens
    attention_mask[where] = 1
    return input_ids, attention_mask


def loss_weights(counts: Sequence[int], weighting: str) -> list[float]:
    """Return the factor of each micro-batch's loss sum in the loss of the step.

    Where gradients are averaged over W ranks (DDP), multiply the factors by W.

    Args:
        counts: predicted tokens of all micro-batches of the step, on all ranks.
        weighting: a name in `WEIGHTINGS`.

    Raises:
        UserError: an unknown rule.
    """
    weights = [WEIGHTINGS[weighting].weight(count) for count in counts]
    return [w / (sum(weights) * count) if w else 0.0 for w, count in zip(weights, counts, strict=True)]
