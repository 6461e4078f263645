"""Packed batches in parts and padded, to compare with."""

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor

from pretraining.model.packed_batch import PackedBatch, positions_of


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


def sequences(parts: Iterable[PackedBatch]) -> dict[int, Tensor]:
    """Return the tokens of each sequence by its id, whichever part it is in."""
    found: dict[int, Tensor] = {}
    for part in parts:
        tokens = part.tokens.split(part.cu_seqlens.diff().tolist())
        found |= dict(zip(part.sample_ids.tolist(), tokens, strict=True))
    return found


def padded(batch: PackedBatch, pad_token_id: int) -> tuple[Tensor, Tensor]:
    """Return `input_ids` and `attention_mask`, both (S, longest) and int64, padded on the right."""
    lengths = batch.cu_seqlens.diff().long()
    input_ids = batch.tokens.new_full((len(batch), int(lengths.max())), pad_token_id)
    attention_mask = torch.zeros_like(input_ids)
    where = (
        torch.repeat_interleave(lengths),
        positions_of(batch.cu_seqlens, batch.num_tokens),
    )
    input_ids[where] = batch.tokens
    attention_mask[where] = 1
    return input_ids, attention_mask
