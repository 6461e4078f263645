"""The kernels of packed attention, one `AttentionBackend` each.

| backend | kernel | runs on |
|---|---|---|
| `varlen` | `torch.nn.attention.varlen`: FlashAttention 2, or cuDNN where torch prefers it | GPU, bf16, fp16 |
| `flash4` | FlashAttention 4, from the package flash-attn-4 | Hopper and Blackwell, bf16, fp16 |
| `flash` | FlashAttention 2, from the package flash-attn | GPU, bf16, fp16 |
| `flex` | PyTorch's block-sparse attention | GPU, any type |
| `sdpa` | the reference: one sequence after the other | everything |

torch can swap FlashAttention 3 or 4 in under its own operators (`activate_flash_attention_impl`). That is a switch of
the whole process, padded attention included, and is left to the user: `flash4` calls the same kernels by themselves.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, flex_attention
from torch.nn.attention.varlen import varlen_attn

from common.registry import Registry
from pretraining.model.attention import AttentionBackend, Layout, dense_attention

__all__ = ["AUTO", "BACKENDS", "FLASH", "FLASH4", "FLEX", "FLEX_BLOCK", "SDPA", "VARLEN"]

FLEX_BLOCK = 128
"""Rows and columns of one block of the flex backend's mask."""


# Compiled, the lengths would be constants of the graph, and every batch a new one.
@torch.compiler.disable  # type: ignore[untyped-decorator]
def _sdpa(q: Tensor, k: Tensor, v: Tensor, layout: Layout) -> Tensor:
    lengths, is_causal = layout.lengths, layout.is_causal
    if len(set(lengths)) == 1:
        rows = (x.reshape(len(lengths), lengths[0], *x.shape[1:]) for x in (q, k, v))
        return dense_attention(*rows, is_causal=is_causal).flatten(0, 1)
    if (groups := q.shape[1] // k.shape[1]) > 1:
        k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
    # Repeated and turned once for all sequences: one by one, these calls cost small models more than attention.
    heads = (torch.split(x.transpose(0, 1)[None], list(lengths), dim=2) for x in (q, k, v))
    parts = [
        F.scaled_dot_product_attention(a, b, c, is_causal=is_causal) for a, b, c in zip(*heads, strict=True)
    ]
    return torch.cat(parts, dim=2)[0].transpose(0, 1)


def _varlen(q: Tensor, k: Tensor, v: Tensor, layout: Layout) -> Tensor:
    # The same tensor twice: cuDNN takes causal attention only where queries and keys share their offsets.
    bounds, longest = (layout.cu_seqlens,) * 2, (layout.max_length,) * 2
    window = (-1, 0) if layout.is_causal else (-1, -1)
    call: Any = varlen_attn
    out: Tensor = call(q, k, v, *bounds, *longest, window_size=window, enable_gqa=q.shape[1] != k.shape[1])
    return out


# Its kernels are compiled by themselves at the first call; torch.compile cannot look into them.
@torch.compiler.disable  # type: ignore[untyped-decorator]
def _flash4(q: Tensor, k: Tensor, v: Tensor, layout: Layout) -> Tensor:
    from flash_attn.cute import flash_attn_varlen_func

    out: Tensor = flash_attn_varlen_func(
        q,
        k,
        v,
        cu_seqlens_q=layout.cu_seqlens,
        cu_seqlens_k=layout.cu_seqlens,
        max_seqlen_q=layout.max_length,
        max_seqlen_k=layout.max_length,
        causal=layout.is_causal,
    )[0]
    return out


def _flash(q: Tensor, k: Tensor, v: Tensor, layout: Layout) -> Tensor:
    from flash_attn import flash_attn_varlen_func

    bounds, longest = (layout.cu_seqlens,) * 2, (layout.max_length,) * 2
    out: Tensor = flash_attn_varlen_func(q, k, v, *bounds, *longest, causal=layout.is_causal)
    return out


def _fused_problem(device: torch.device, dtype: torch.dtype, head_dim: int, lowest: int = 8) -> str:
    """Return why no kernel of the FlashAttention family runs: they share device, type and head dimensions."""
    if device.type != "cuda" or dtype not in (torch.bfloat16, torch.float16):
        kind = str(dtype).removeprefix("torch.")
        return f"needs a GPU and bf16 or fp16 (here {device.type}, {kind})"
    if head_dim % 8 or head_dim > 256:
        return f"needs a head dimension that is a multiple of 8 and at most 256, not {head_dim}"
    # AMD's numbers mean other things; torch has kernels of its own there.
    if torch.version.hip is None and (major := torch.cuda.get_device_capability(device)[0]) < lowest:
        return f"needs a GPU of compute capability {lowest}.0 or more, not {major}.x"
    return ""


def _flash4_problem(device: torch.device, dtype: torch.dtype, head_dim: int) -> str:
    if problem := _fused_problem(device, dtype, head_dim, lowest=9):
        return problem
    if torch.version.hip is not None:
        return "needs an NVIDIA GPU"
    if head_dim > 128 and torch.cuda.get_device_capability(device)[0] > 9:
        return f"takes head dimensions up to 128 on this GPU, not {head_dim}"
    return _import_problem("flash_attn.cute", "flash-attn-4")


def _flash_problem(device: torch.device, dtype: torch.dtype, head_dim: int) -> str:
    return _fused_problem(device, dtype, head_dim) or _import_problem("flash_attn", "flash-attn")


def _flex_problem(device: torch.device, dtype: torch.dtype, head_dim: int) -> str:
    del dtype, head_dim
    return "" if device.type == "cuda" else "needs a GPU: PyTorch has no backward pass of it on a CPU"


@functools.cache
def _import_problem(module: str, package: str) -> str:
    """Return why a package's varlen function cannot be imported; empty when it can.

    Both packages fill the folder `flash_attn`, so that its being there proves neither.
    """
    try:
        importlib.import_module(module).flash_attn_varlen_func  # noqa: B018
    except (ImportError, AttributeError, OSError, RuntimeError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return f"needs the {package} package ({reason})"
    return ""


def _flex(q: Tensor, k: Tensor, v: Tensor, layout: Layout) -> Tensor:
    call: Any = flex_attention if torch.compiler.is_compiling() else _compiled_flex(q.device.type)
    q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
    out: Tensor = call(q, k, v, block_mask=layout.block_mask, enable_gqa=q.shape[1] != k.shape[1])
    return out[0].transpose(0, 1)


@functools.cache
def _compiled_flex(device_type: str) -> Any:
    """Return flex attention compiled once: uncompiled it forms all T x T scores, which torch warns about.

    On a CPU, where it serves tests, the graph is run as it is: generating C++ takes most of a minute.
    """
    return torch.compile(flex_attention, backend="inductor" if device_type == "cuda" else "aot_eager")


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


VARLEN = AttentionBackend(name="varlen", attend=_varlen, problem=_fused_problem)
FLASH4 = AttentionBackend(name="flash4", attend=_flash4, problem=_flash4_problem)
FLASH = AttentionBackend(name="flash", attend=_flash, problem=_flash_problem)
FLEX = AttentionBackend(
    name="flex",
    attend=_flex,
    problem=_flex_problem,
    needs=lambda cu_seqlens, num_tokens, is_causal: {
        "block_mask": _block_mask(cu_seqlens, num_tokens, is_causal)
    },
)
SDPA = AttentionBackend(
    name="sdpa",
    attend=_sdpa,
    needs=lambda cu_seqlens, num_tokens, is_causal: {"lengths": tuple(cu_seqlens.diff().tolist())},
)
AUTO = AttentionBackend(name="auto", attend=_sdpa, stands_for=(VARLEN, FLASH4, FLASH, FLEX, SDPA))

BACKENDS = Registry("attention backend", [AUTO, *AUTO.stands_for])
"""Values of the setting `backend` (`pretraining.plan.config`)."""
