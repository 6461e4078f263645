"""One attention for every case: packed or padded, causal or not, by SDPA, FlashAttention or FlexAttention.

`sdpa` is the reference and runs everywhere. `flash` is FlashAttention's variable-length kernel where that package
is installed, `flex` is PyTorch's block-sparse attention. Whatever the backend, a packed batch costs what its
sequences cost one by one: nothing grows with the square of the packed total.

Shapes: packed q is (T, heads, head_dim), k and v (T, kv_heads, head_dim); padded ones have (B, L) in place of T.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, flex_attention

from common.errors import UserError
from common.registry import Registry

__all__ = [
    "BACKENDS", "FLASH", "FLEX", "SDPA", "AttentionBackend", "Layout", "attention", "flash_available", "packed_layout",
    "padded_layout", "resolve_backend",
]  # fmt: skip

FLEX_BLOCK = 128
"""Rows and columns of one block of the flex backend's mask."""


class Layout(NamedTuple):
    """How tokens form sequences, and which backend attends; made once a forward pass, used in every block."""

    backend: AttentionBackend
    """What attends to a packed batch; padded ones always go through sdpa."""
    is_causal: bool
    """Whether a token sees only those before it, and itself."""
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
    problem: Callable[[torch.device, torch.dtype], str] = lambda device, dtype: ""
    """Why it cannot run on a device with activations of a type; empty where it can."""
    needs: Callable[[Tensor, int, bool], dict[str, Any]] = lambda cu_seqlens, num_tokens, is_causal: {}
    """Fields of the layout that it needs, from cumulative lengths, number of tokens and direction."""
    stands_for: tuple[AttentionBackend, ...] = ()
    """Backends of which the first that can run takes its place; the last one runs everywhere."""


def flash_available() -> bool:
    """Whether the flash-attn package is installed and a CUDA (or ROCm) device is there to run it."""
    return torch.cuda.is_available() and importlib.util.find_spec("flash_attn") is not None


def resolve_backend(backend: str, device: torch.device, dtype: torch.dtype) -> AttentionBackend:
    """Return the backend to use on `device` with activations of `dtype`.

    Raises:
        UserError: an unknown backend, or one that cannot run there.
    """
    chosen = BACKENDS[backend]
    if chosen.stands_for:
        return next(item for item in chosen.stands_for if not item.problem(device, dtype))
    if problem := chosen.problem(device, dtype):
        raise UserError(f"attention backend {backend} {problem}; use sdpa")
    return chosen


def packed_layout(
    cu_seqlens: Tensor, num_tokens: int, max_length: int, *, is_causal: bool, backend: AttentionBackend
) -> Layout:
    """Return the layout of T = `num_tokens` packed tokens; `backend` as `resolve_backend` gives it."""
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
        return Layout(backend=SDPA, is_causal=is_causal)
    length = attention_mask.shape[-1]
    mask = attention_mask.bool()[:, None, None, :]
    if is_causal:
        mask = mask & torch.ones(length, length, dtype=torch.bool, device=mask.device).tril()
    itself = torch.eye(length, dtype=torch.bool, device=mask.device)
    if not bool(mask.any(-1).all()):
        mask = mask | (~mask.any(-1, keepdim=True) & itself)
    return Layout(backend=SDPA, is_causal=is_causal, mask=mask)


def attention(q: Tensor, k: Tensor, v: Tensor, layout: Layout) -> Tensor:
    """Return softmax(q k^T / sqrt(head_dim)) v within each sequence, in q's shape.

    Args:
        q: (T, heads, head_dim), or (B, L, heads, head_dim) when padded.
        k: the same with kv_heads; each serves heads / kv_heads query heads.
        v: like k.
        layout: from `packed_layout` or `padded_layout`.
    """
    if layout.cu_seqlens is None:
        return _sdpa(q, k, v, is_causal=layout.is_causal and layout.mask is None, mask=layout.mask)
    return layout.backend.attend(q, k, v, layout)


def _sdpa(q: Tensor, k: Tensor, v: Tensor, *, is_causal: bool, mask: Tensor | None = None) -> Tensor:
    q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    if (groups := q.shape[1] // k.shape[1]) > 1:
        # Repeating keys and values keeps the fused kernels, which `enable_gqa` gives up on CPU.
        k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=is_causal).transpose(1, 2)


# Compiled, the lengths would be constants of the graph, and every batch a new one.
@torch.compiler.disable  # type: ignore[untyped-decorator]
def _sdpa_packed(q: Tensor, k: Tensor, v: Tensor, layout: Layout) -> Tensor:
    lengths, is_causal = layout.lengths, layout.is_causal
    if len(set(lengths)) == 1:
        rows = (x.reshape(len(lengths), lengths[0], *x.shape[1:]) for x in (q, k, v))
        return _sdpa(*rows, is_causal=is_causal).flatten(0, 1)
    if (groups := q.shape[1] // k.shape[1]) > 1:
        k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
    # Repeated and turned once for all sequences: one by one, these calls cost small models more than attention.
    heads = (torch.split(x.transpose(0, 1)[None], list(lengths), dim=2) for x in (q, k, v))
    parts = [
        F.scaled_dot_product_attention(a, b, c, is_causal=is_causal) for a, b, c in zip(*heads, strict=True)
    ]
    return torch.cat(parts, dim=2)[0].transpose(0, 1)


def _flash_problem(device: torch.device, dtype: torch.dtype) -> str:
    half = dtype in (torch.bfloat16, torch.float16)
    if device.type == "cuda" and half and flash_available():
        return ""
    kind = str(dtype).removeprefix("torch.")
    return f"needs the flash-attn package, a GPU and bf16 or fp16 (here {device.type}, {kind})"


def _flash(q: Tensor, k: Tensor, v: Tensor, layout: Layout) -> Tensor:
    from flash_attn import flash_attn_varlen_func

    bounds, longest = (layout.cu_seqlens,) * 2, (layout.max_length,) * 2
    out: Tensor = flash_attn_varlen_func(q, k, v, *bounds, *longest, causal=layout.is_causal)
    return out


def _flex(q: Tensor, k: Tensor, v: Tensor, layout: Layout) -> Tensor:
    call: Any = _compiled_flex() if q.is_cuda and not torch.compiler.is_compiling() else flex_attention
    q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
    out: Tensor = call(q, k, v, block_mask=layout.block_mask, enable_gqa=q.shape[1] != k.shape[1])
    return out[0].transpose(0, 1)


@functools.cache
def _compiled_flex() -> Any:
    """Return flex attention compiled once: uncompiled it forms all T x T scores."""
    return torch.compile(flex_attention)


def _block_mask(cu_seqlens: Tensor, num_tokens: int, is_causal: bool) -> BlockMask:
    """Return the block mask of packed sequences from the blocks' ends alone, never from T x T booleans.

    Sequence numbers rise along the batch, so that two blocks share a sequence exactly when their ranges of
    numbers overlap, and a pair of blocks is seen whole when both are in one sequence.
    """
    device = cu_seqlens.device
    number = torch.repeat_interleave(
        torch.arange(len(cu_seqlens) - 1, device=device), cu_seqlens.diff().long(), output_size=num_tokens
    )
    first = torch.arange(0, num_tokens, FLEX_BLOCK, device=device)
    last = (first + FLEX_BLOCK).clamp(max=num_tokens) - 1
    low, high = number[first], number[last]
    some = (low[:, None] <= high) & (low <= high[:, None])
    whole = (low[:, None] == high) & (low == high[:, None])
    # A ragged last block is never whole: its missing rows and columns need the mask.
    complete = last - first == FLEX_BLOCK - 1
    whole &= complete[:, None] & complete
    if is_causal:
        order = torch.arange(len(first), device=device)
        some &= order[:, None] >= order
        whole &= order[:, None] > order
    partial = some & ~whole

    def visible(b: Tensor, h: Tensor, q_index: Tensor, kv_index: Tensor) -> Tensor:
        del b, h
        same = number[q_index] == number[kv_index]
        return same & (q_index >= kv_index) if is_causal else same

    made: BlockMask = BlockMask.from_kv_blocks(
        *_block_lists(partial),
        *_block_lists(whole),
        BLOCK_SIZE=FLEX_BLOCK,
        mask_mod=visible,
        seq_lengths=(num_tokens, num_tokens),
    )
    return made


def _block_lists(blocks: Tensor) -> tuple[Tensor, Tensor]:
    counts = blocks.sum(-1, dtype=torch.int32)
    indices = torch.argsort(blocks.int(), dim=-1, descending=True, stable=True).int()
    return counts[None, None], indices[None, None]


SDPA = AttentionBackend(
    name="sdpa",
    attend=_sdpa_packed,
    needs=lambda cu_seqlens, num_tokens, is_causal: {"lengths": tuple(cu_seqlens.diff().tolist())},
)
FLASH = AttentionBackend(name="flash", attend=_flash, problem=_flash_problem)
FLEX = AttentionBackend(
    name="flex",
    attend=_flex,
    needs=lambda cu_seqlens, num_tokens, is_causal: {
        "block_mask": _block_mask(cu_seqlens, num_tokens, is_causal)
    },
)

AUTO = AttentionBackend(name="auto", attend=_sdpa_packed, stands_for=(FLASH, SDPA))

BACKENDS = Registry("attention backend", [AUTO, SDPA, FLASH, FLEX])
"""Values of the setting `backend` (`pretraining.plan.config`)."""
