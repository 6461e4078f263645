"""One attention for every case: packed or padded, causal or not; and the kernels of packed attention, one object each.

| backend | kernel | runs on |
|---|---|---|
| `varlen` | `torch.nn.attention.varlen`: FlashAttention 2, or cuDNN where torch prefers it | GPU, bf16, fp16 |
| `flash4` | FlashAttention 4, from the package flash-attn-4 | Hopper and Blackwell, bf16, fp16 |
| `flash` | FlashAttention 2, from the package flash-attn | GPU, bf16, fp16 |
| `flex` | PyTorch's block-sparse attention | GPU, any type |
| `sdpa` | the reference: one sequence after the other | everything |

Whatever the backend, a packed batch costs what its sequences cost one by one: nothing grows with the square of the
packed total. torch can swap FlashAttention 3 or 4 in under its own operators (`activate_flash_attention_impl`). That is
a switch of the whole process, padded attention included, and is left to the user: `flash4` calls the same kernels by
themselves.

Shapes: packed q is (T, heads, head_dim), k and v (T, kv_heads, head_dim); padded ones have (B, L) in place of T.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, flex_attention
from torch.nn.attention.varlen import varlen_attn

from common.errors import UserError
from common.registry import Registry

__all__ = [
    "AUTO", "BACKENDS", "FLASH", "FLASH4", "FLEX", "FLEX_BLOCK", "SDPA", "VARLEN", "AttentionBackend", "Layout",
    "attention", "dense_attention", "packed_layout", "padded_layout", "resolve_backend",
]  # fmt: skip

FLEX_BLOCK = 128
"""Rows and columns of one block of the flex backend's mask."""


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

    def candidates(self, device: torch.device, dtype: torch.dtype, head_dim: int) -> list[AttentionBackend]:
        """Return those of the backends it stands for that can run; on a CPU sdpa alone."""
        return [item for item in self.stands_for if not item.problem(device, dtype, head_dim)]


def packed_layout(
    cu_seqlens: Tensor, num_tokens: int, max_length: int, *, is_causal: bool, backend: AttentionBackend
) -> Layout:
    """Return the layout of T = `num_tokens` packed tokens; `backend` as `resolve_backend` gives it."""
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


def resolve_backend(
    backend: str, device: torch.device, dtype: torch.dtype, head_dim: int
) -> AttentionBackend:
    """Return the backend to use on `device` with activations of `dtype`: under `auto` the first that can run.

    Raises:
        UserError: an unknown backend, or one that cannot run there.
    """
    chosen = BACKENDS[backend]
    if chosen.stands_for:
        # The first alone: looking at the others imports their packages.
        return next(item for item in chosen.stands_for if not item.problem(device, dtype, head_dim))
    if problem := chosen.problem(device, dtype, head_dim):
        raise UserError(f"attention backend {backend} {problem}; use auto or sdpa")
    return chosen
