"""One attention for every case: packed or padded, causal or not; the kernels are in `attention_backends`.

Whatever the backend, a packed batch costs what its sequences cost one by one: nothing grows with the square of the
packed total.

Shapes: packed q is (T, heads, head_dim), k and v (T, kv_heads, head_dim); padded ones have (B, L) in place of T.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask

__all__ = ["AttentionBackend", "Layout", "attention", "dense_attention", "packed_layout", "padded_layout"]


class Layout(NamedTuple):
    """How tokens form sequences, and which backend attends; made once a forward pass, used in every block."""

    is_causal: bool
    """Whether a token sees only those before it, and itself."""
    backend: AttentionBackend | None = None
    """Packed: what attends. None when padded, which is always `dense_attention`."""
    cu_seqlens: Tensor | None = None
    """Packed: cumulative lengths, (S + 1,), int32. None when padded."""
    max_length: int = 0
    """Packed: upper bound of the lengths."""
    lengths: tuple[int, ...] = ()
    """Packed, where the backend needs them: the lengths on the host."""
    mask: Tensor | None = None
    """Padded: what may be seen, (B, 1, 1 or L, L), bool; None when every token is real."""
    block_mask: BlockMask | None = None
    """Packed, where the backend needs it: the blocks to compute."""


@dataclass(frozen=True, kw_only=True)
class AttentionBackend:
    """One implementation of attention over packed batches."""

    name: str
    """Value of the setting `backend`."""
    attend: Callable[[Tensor, Tensor, Tensor, Layout], Tensor]
    """Called with packed q, k, v and the layout; returns q's shape."""
    problem: Callable[[torch.device, torch.dtype, int], str] = lambda device, dtype, head_dim: ""
    """Why it cannot run on a device with activations of a type and a head dimension; empty where it can."""
    needs: Callable[[Tensor, int, bool], dict[str, Any]] = lambda cu_seqlens, num_tokens, is_causal: {}
    """Fields of the layout that it needs, from cumulative lengths, number of tokens and direction."""
    stands_for: tuple[AttentionBackend, ...] = ()
    """Backends of which one takes its place, the preferred one first; the last one runs everywhere."""


def packed_layout(
    cu_seqlens: Tensor, num_tokens: int, max_length: int, *, is_causal: bool, backend: AttentionBackend
) -> Layout:
    """Return the layout of T = `num_tokens` packed tokens; `backend` as `attention_choice.resolve_backend` gives it."""
    cu_seqlens = cu_seqlens.to(torch.int32)
    return Layout(
        backend=backend,
        is_causal=is_causal,
        cu_seqlens=cu_seqlens,
        max_length=max_length,
        **backend.needs(cu_seqlens, num_tokens, is_causal),
    )


def padded_layout(attention_mask: Tensor | None, *, is_causal: bool) -> Layout:
    """Return the layout of a padded (B, L) batch; always sdpa, which also gives padding its hidden states.

    Only keys are masked, as in Hugging Face models: a padding position attends to the real tokens, and the
    paper's QA metric reads what comes out there. A position that may see nothing at all (causal, padding on the
    left) sees itself, so that no NaN arises.
    """
    if attention_mask is None or bool(attention_mask.all()):
        return Layout(is_causal=is_causal)
    length = attention_mask.shape[-1]
    mask = attention_mask.bool()[:, None, None, :]
    if is_causal:
        mask = mask & torch.ones(length, length, dtype=torch.bool, device=mask.device).tril()
    itself = torch.eye(length, dtype=torch.bool, device=mask.device)
    if not bool(mask.any(-1).all()):
        mask = mask | (~mask.any(-1, keepdim=True) & itself)
    return Layout(is_causal=is_causal, mask=mask)


def attention(q: Tensor, k: Tensor, v: Tensor, layout: Layout) -> Tensor:
    """Return softmax(q k^T / sqrt(head_dim)) v within each sequence, in q's shape.

    Args:
        q: (T, heads, head_dim), or (B, L, heads, head_dim) when padded.
        k: the same with kv_heads; each serves heads / kv_heads query heads.
        v: like k.
        layout: from `packed_layout` or `padded_layout`.
    """
    if layout.backend is None:
        return dense_attention(q, k, v, is_causal=layout.is_causal and layout.mask is None, mask=layout.mask)
    return layout.backend.attend(q, k, v, layout)


def dense_attention(
    q: Tensor, k: Tensor, v: Tensor, *, is_causal: bool, mask: Tensor | None = None
) -> Tensor:
    """Return attention over rows of one length: q (B, L, heads, head_dim), k and v with kv_heads."""
    q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    if (groups := q.shape[1] // k.shape[1]) > 1:
        # Repeating keys and values keeps the fused kernels, which `enable_gqa` gives up on CPU.
        k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=is_causal).transpose(1, 2)
