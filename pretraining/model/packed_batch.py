"""A packed batch: sequences of different lengths laid end to end, so that no padding is ever computed.

Shapes here and in the model: T packed tokens, S sequences, B x L a padded batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Batch = TypeVar("Batch")


@dataclass(frozen=True, kw_only=True)
class PackedBatch:
    """S sequences laid end to end in T tokens; attention never crosses from one into the next (section 3)."""

    tokens: Tensor
    """Token ids, shape (T,), int64."""
    cu_seqlens: Tensor
    """Cumulative lengths, shape (S + 1,), int32: sequence s is `tokens[cu_seqlens[s]:cu_seqlens[s + 1]]`."""
    max_length: int
    """Upper bound of the sequences' lengths; a constant (the model's limit) spares torch.compile a new graph."""
    sample_ids: Tensor
    """Number of each sequence in the data, shape (S,), int64; its mask is drawn from it."""
    epoch: int = 0
    """Number of the pass over the data; masks are drawn from it as well."""

    @classmethod
    def of(
        cls,
        sequences: Sequence[npt.ArrayLike],
        sample_ids: Sequence[int] | npt.NDArray[np.int64] | None = None,
        *,
        epoch: int = 0,
        max_length: int | None = None,
    ) -> PackedBatch:
        """Pack 1-D arrays of token ids, in their order.

        Args:
            sequences: for each sequence a 1-D array of token ids, which is not empty.
            sample_ids: numbers of the sequences in the data; 0, 1, 2, ... when left out.
            epoch: number of the pass over the data.
            max_length: upper bound of the lengths to record; the longest sequence's length when left out.

        Raises:
            ValueError: an empty sequence, one that is not 1-D, too long a one.
        """
        arrays = [np.asarray(sequence) for sequence in sequences]
        for number, array in enumerate(arrays):
            # Kinds i and u are signed and unsigned integers.
            if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
                raise ValueError(
                    f"sequence {number} of a packed batch must be a non-empty 1-D array of token ids, "
                    f"not {array.dtype} of shape {array.shape}"
                )

        # Numbers of the sequences, not ids of tokens.
        ids = np.arange(len(arrays)) if sample_ids is None else np.asarray(sample_ids)
        lengths = np.array([array.size for array in arrays])
        longest = int(lengths.max())
        bound = longest if max_length is None else max_length
        if longest > bound:
            raise ValueError(
                f"sequence {lengths.argmax()} has {longest} tokens, more than {bound}"
            )

        tokens = np.concatenate(arrays).astype(np.int64)
        # Cumulative lengths, which begin with 0.
        bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        return cls(
            tokens=torch.from_numpy(tokens),
            cu_seqlens=torch.from_numpy(bounds),
            max_length=bound,
            sample_ids=torch.from_numpy(ids.astype(np.int64)),
            epoch=epoch,
        )

    def __len__(self) -> int:
        """Return S, the number of sequences."""
        return int(self.sample_ids.shape[0])

    @property
    def num_tokens(self) -> int:
        """T, the number of tokens."""
        return int(self.tokens.shape[0])

    def alone(self) -> Iterator[PackedBatch]:
        """Yield each sequence as a batch of its own, in their order."""
        bounds = self.cu_seqlens.tolist()
        for number, (first, end) in enumerate(pairwise(bounds)):
            tokens = self.tokens[first:end]
            cu_seqlens = torch.tensor([0, end - first], dtype=torch.int32)
            sample_ids = self.sample_ids[number : number + 1]
            yield replace(
                self, tokens=tokens, cu_seqlens=cu_seqlens, sample_ids=sample_ids
            )

    def to(
        self, device: torch.device | str, *, non_blocking: bool = False
    ) -> PackedBatch:
        """Return the batch with its tensors on `device`."""
        return on_device(self, device, non_blocking=non_blocking)


def on_device(batch: Batch, device: torch.device | str, *, non_blocking: bool) -> Batch:
    """Return a copy of a batch, which is a dataclass, with its tensors and those of a batch in it on `device`."""
    moved = {}
    for name, value in vars(batch).items():
        if isinstance(value, Tensor | PackedBatch):
            moved[name] = value.to(device, non_blocking=non_blocking)
    return replace(batch, **moved)  # type: ignore[type-var]


def positions_of(cu_seqlens: Tensor, num_tokens: int) -> Tensor:
    """Return each packed token's place in its sequence, counted from 0, shape (T,), int64.

    Args:
        cu_seqlens: cumulative lengths of the sequences, (S + 1,).
        num_tokens: T.
    """
    begins, lengths = cu_seqlens[:-1].long(), cu_seqlens.diff().long()
    # For each token, where its sequence begins. Without output_size, the size would have to be computed from the
    # lengths, and a GPU be waited for.
    begin_of = torch.repeat_interleave(begins, lengths, output_size=num_tokens)
    return torch.arange(num_tokens, device=cu_seqlens.device) - begin_of
