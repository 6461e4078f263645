"""One attention for every case: packed or padded, causal or not; and the kernels of packed attention, by name.

| backend | kernel | runs on |
|---|---|---|
| `flash2` | FlashAttention 2, which torch contains (on AMD: torch's own kernel there) | GPU, bf16 and fp16 |
| `flash3` | FlashAttention 3, from the package flash-attn-3 | Hopper, bf16 and fp16 |
| `flash4` | FlashAttention 4, from the package flash-attn-4 | Hopper and Blackwell, bf16 and fp16 |
| `sdpa` | the reference: one sequence after the other | everything |

All but the reference are torch's operator `varlen_attn`, which has a gradient and no graph break. Its kernel is that of
FlashAttention 2, until torch is told to use another package's kernels in the whole process
(`activate_flash_attention_impl`): `resolve_backend` does so.

A packed batch is sequences laid end to end, T tokens in all; a padded batch is B rows of length L. Whatever the
backend, a packed batch costs what its sequences cost one by one: nothing grows with the square of T.

Shapes: packed q is (T, heads, head_dim), k and v (T, kv_heads, head_dim); padded ones have (B, L) in place of T.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import attention as torch_attention
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.varlen import varlen_attn

from common.errors import UserError, first_line
from common.registry import Registry

logger = logging.getLogger(__name__)


class AttentionLayout(NamedTuple):
    """How tokens form sequences, and which backend attends; made once a forward pass, and used in every block."""

    is_causal: bool
    """Whether a token sees only those before it, and itself."""
    backend: AttentionBackend | None = None
    """Packed: the backend. None when padded: then it is always `dense_attention`."""
    cu_seqlens: Tensor | None = None
    """Packed: cumulative lengths, (S + 1,), int32. None when padded."""
    max_length: int = 0
    """Packed: upper bound of the lengths."""
    lengths: tuple[int, ...] = ()
    """Packed, where the backend reads them: the lengths on the host."""
    mask: Tensor | None = None
    """Padded: what may be seen, (B, 1, 1 or L, L), bool; None when every token is real."""


@dataclass(frozen=True, kw_only=True)
class AttentionBackend:
    """One implementation of attention over packed batches."""

    name: str
    """Value of the setting `backend`."""
    attend: Callable[[Tensor, Tensor, Tensor, AttentionLayout], Tensor]
    """Called with packed q, k, v and the layout; returns q's shape."""
    capabilities: tuple[int, ...] = ()
    """NVIDIA's compute capabilities that it is made for (9: Hopper, 10: Blackwell); if empty, 8 and all later ones, and
    AMD's GPUs."""
    module: str = ""
    """Module of the package flash-attn-N that contains its kernels; they replace torch's own."""
    reads_lengths: bool = False
    """Whether it needs the sequences' lengths as Python numbers, for which a GPU has to be waited for."""

    def problem(self, device: torch.device, dtype: torch.dtype, head_dim: int) -> str:
        """Return why this backend cannot run with a device, type of activations and head dimension; empty if it can."""
        # The reference runs everywhere. All other backends attend by `varlen`.
        if self.attend is not varlen:
            return ""
        if device.type != "cuda" or dtype not in (torch.bfloat16, torch.float16):
            kind = str(dtype).removeprefix("torch.")
            return f"needs a GPU and bf16 or fp16 (here {device.type}, {kind})"

        # FlashAttention 2 takes heads of up to 256; kernels for single GPU generations are used only up to 128.
        widest = 128 if self.capabilities else 256
        if head_dim % 8 or head_dim > widest:
            return f"needs a head dimension that is a multiple of 8 and at most {widest}, not {head_dim}"

        # Compute capabilities are NVIDIA's; on AMD GPUs torch has its own kernels.
        if torch.version.hip is not None:
            return "needs an NVIDIA GPU" if self.capabilities else ""
        major = torch.cuda.get_device_capability(device)[0]

        # A backend that is made for no certain generation runs on 8 and all later ones.
        if major not in (self.capabilities or range(8, 100)):
            made_for = " or ".join(map(str, self.capabilities)) or "8 or more"
            return f"needs a GPU of compute capability {made_for}, not {major}"

        # Older versions of torch lack this function: `list()` then returns no names.
        listed = getattr(torch_attention, "list_flash_attention_impls", list)
        implementations: list[str] = listed()

        # torch's own kernels (None) are always there, and not in this list.
        if self.implementation not in (None, *implementations):
            return f"needs a newer torch than {torch.__version__}"
        if not self.module:
            return ""
        # The number at the end of a backend's name is also that of its package: `flash3`, flash-attn-3.
        return _import_problem(self.module, f"flash-attn-{self.name[-1]}")

    @property
    def implementation(self) -> str | None:
        """torch's name for the package's kernels, `FA3` or `FA4`; None for torch's own kernels."""
        # Names end in the package's number: `flash3`.
        return f"FA{self.name[-1]}" if self.module else None


def activation_dtype(hidden: Tensor) -> torch.dtype:
    """Return the type in which matrix products of hidden states are computed: autocast's if that is on, else theirs."""
    kind = hidden.device.type
    if torch.is_autocast_enabled(kind):
        return torch.get_autocast_dtype(kind)
    return hidden.dtype


def packed_layout(
    cu_seqlens: Tensor, max_length: int, *, is_causal: bool, backend: AttentionBackend
) -> AttentionLayout:
    """Return the layout of packed tokens.

    Args:
        cu_seqlens: cumulative lengths, (S + 1,).
        max_length: upper bound of the lengths.
        is_causal: whether a token sees only those before it, and itself.
        backend: from `resolve_backend`.
    """
    return AttentionLayout(
        backend=backend,
        is_causal=is_causal,
        cu_seqlens=cu_seqlens.to(torch.int32),
        max_length=max_length,
        lengths=tuple(cu_seqlens.diff().tolist()) if backend.reads_lengths else (),
    )


def padded_layout(attention_mask: Tensor | None, *, is_causal: bool) -> AttentionLayout:
    """Return the layout of a padded (B, L) batch, which is always computed by torch's `scaled_dot_product_attention`.

    Only keys are masked, as in Hugging Face models: a padding position also attends to the real tokens and has hidden
    states, which the paper's QA metric reads: its F1 also counts answers that are predicted at padding (D2 in
    docs/deviations.md). A position that could see nothing at all (causal, with padding on the
    left) sees itself, so that no NaN arises.

    Args:
        attention_mask: which tokens are real, (B, L); or, with four dimensions, which keys each query sees, (B, 1, 1 or
            L, L), bool. None if all tokens are real.
        is_causal: whether a token sees only those before it, and itself; a mask of four dimensions already says that.
    """
    # Taken as it is. To look at its values a GPU would have to be waited for. It already says the direction,
    # so none is given.
    if attention_mask is not None and attention_mask.dim() == 4:
        return AttentionLayout(is_causal=False, mask=attention_mask)
    # The values of a mask (B, L) are looked at, here and below. If all tokens are real, the layout has no mask.
    if attention_mask is None or bool(attention_mask.all()):
        return AttentionLayout(is_causal=is_causal)
    length = attention_mask.shape[-1]

    # Which keys each query of a row sees: (B, 1, queries, keys), with 1 for what is the same for all heads or queries.
    mask = attention_mask.bool()[:, None, None, :]
    if is_causal:
        square = torch.ones(length, length, dtype=torch.bool, device=mask.device)
        mask = mask & square.tril()

    itself = torch.eye(length, dtype=torch.bool, device=mask.device)
    # A query that sees no key is let see itself.
    if not bool(mask.any(-1).all()):
        sees_nothing = ~mask.any(-1, keepdim=True)
        mask = mask | (sees_nothing & itself)

    # The direction is in the mask now: beside a mask, `attention` does not read `is_causal`.
    return AttentionLayout(is_causal=is_causal, mask=mask)


def attention(q: Tensor, k: Tensor, v: Tensor, layout: AttentionLayout) -> Tensor:
    """Return softmax(q k^T / sqrt(head_dim)) v within each sequence, in q's shape.

    Args:
        q: (T, heads, head_dim), or (B, L, heads, head_dim) when padded.
        k: keys in the form of q, with kv_heads heads; each serves heads / kv_heads query heads.
        v: like k.
        layout: from `packed_layout` or `padded_layout`.
    """
    if layout.backend is None:
        # torch takes a mask or `is_causal`, not both. A layout's mask already contains the direction.
        is_causal = layout.is_causal and layout.mask is None
        return dense_attention(q, k, v, is_causal=is_causal, mask=layout.mask)
    return layout.backend.attend(q, k, v, layout)


def dense_attention(
    q: Tensor, k: Tensor, v: Tensor, *, is_causal: bool, mask: Tensor | None = None
) -> Tensor:
    """Return attention over B rows of one length, in q's shape.

    Args:
        q: (B, L, heads, head_dim).
        k: (B, L, kv_heads, head_dim).
        v: like k.
        is_causal: whether a token sees only those before it, and itself.
        mask: which keys each query sees, (B, 1, 1 or L, L), bool; not together with `is_causal`.
    """
    # torch wants the heads before the length.
    q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    k, v = _repeated(k, q.shape[1]), _repeated(v, q.shape[1])
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=is_causal)
    return out.transpose(1, 2)


def _repeated(x: Tensor, heads: int) -> Tensor:
    """Return keys or values (rows, kv_heads, ...) with each head repeated, so that there are `heads` heads.

    With fewer heads for keys than for queries, consecutive query heads share a key head (grouped-query attention).
    """
    groups = heads // x.shape[1]
    if groups == 1:
        return x
    # torch would do it with `enable_gqa`, but on a CPU then not use its fused kernels.
    return x.repeat_interleave(groups, dim=1)


# In a compiled graph the lengths would be constants, and every batch would need a new graph.
@torch.compiler.disable  # type: ignore[untyped-decorator]
def _sdpa(q: Tensor, k: Tensor, v: Tensor, layout: AttentionLayout) -> Tensor:
    """Return packed attention, computed one sequence after the other; the arguments are those of `attention`."""
    lengths, is_causal = layout.lengths, layout.is_causal
    # Sequences of the same length are the rows of one batch.
    if len(set(lengths)) == 1:
        shape = len(lengths), lengths[0]
        # From (T, heads, head_dim) to (S, L, heads, head_dim).
        rows = [x.reshape(*shape, *x.shape[1:]) for x in (q, k, v)]
        return dense_attention(*rows, is_causal=is_causal).flatten(0, 1)

    k, v = _repeated(k, q.shape[1]), _repeated(v, q.shape[1])
    # Repeated and transposed to (1, heads, T, head_dim) once for all sequences: for small models, doing so in each
    # sequence would take longer than attention.
    transposed = [x.transpose(0, 1)[None] for x in (q, k, v)]
    by_sequence = [torch.split(x, list(lengths), dim=2) for x in transposed]
    parts = []
    for queries, keys, values in zip(*by_sequence, strict=True):
        part = F.scaled_dot_product_attention(
            queries, keys, values, is_causal=is_causal
        )
        parts.append(part)

    return torch.cat(parts, dim=2)[0].transpose(0, 1)


_ASKS_FOR_GROUPS = "enable_gqa" in inspect.signature(varlen_attn).parameters
"""Whether `varlen_attn` has to be asked for fewer key heads than query heads; in torch 2.11 it takes them unasked."""


def varlen(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    layout: AttentionLayout,
    *,
    scale: float | None = None,
    window: tuple[int, int] | None = None,
) -> Tensor:
    """Return packed attention by the kernel of the layout's backend, in q's shape.

    Args:
        q: (T, heads, head_dim), on a GPU.
        k: (T, kv_heads, head_dim).
        v: like k.
        layout: from `packed_layout`.
        scale: factor of the scores; 1 / sqrt(head_dim) when left out.
        window: how many tokens to the left and to the right of itself a token sees, -1 for all; when left out, all to
            the left and, unless the layout is causal, all to the right.
    """
    # torch asks for the bounds and the longest length of queries and of keys: here they are the same sequences.
    bounds, longest = (layout.cu_seqlens,) * 2, (layout.max_length,) * 2
    if window is None:
        window = (-1, 0) if layout.is_causal else (-1, -1)
    options: dict[str, Any] = {"scale": scale, "window_size": window}
    if _ASKS_FOR_GROUPS and q.shape[1] != k.shape[1]:
        options["enable_gqa"] = True

    # As `Any`: the options that the function has, and so its type, depend on torch's version.
    call: Any = varlen_attn
    # On Hopper torch would choose cuDNN, which plans anew for each shape, and whose version 9.19 gave wrong sums.
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        out: Tensor = call(q, k, v, *bounds, *longest, **options)
    return out


@functools.cache
def _import_problem(module: str, package: str) -> str:
    """Return why a package's module cannot be imported; empty when it can.

    It is really imported: flash-attn 2 and 4 both have a folder `flash_attn`, so finding that proves nothing.
    """
    try:
        importlib.import_module(module)
    except (ImportError, AttributeError, OSError, RuntimeError) as error:
        return f"needs the {package} package ({first_line(error)})"
    return ""


FLASH2 = AttentionBackend(name="flash2", attend=varlen)
FLASH3 = AttentionBackend(
    name="flash3", attend=varlen, capabilities=(9,), module="flash_attn_interface"
)
FLASH4 = AttentionBackend(
    name="flash4",
    attend=varlen,
    capabilities=(9, 10),
    module="flash_attn.cute.interface",
)
SDPA = AttentionBackend(name="sdpa", attend=_sdpa, reads_lengths=True)
BACKENDS = Registry("attention backend", [FLASH2, FLASH3, FLASH4, SDPA])
"""The kernels, by the value of the setting `backend`."""
AUTO = "auto"
"""Value of the setting `backend` (`pretraining.plan.config`) for the first of `_ORDER` that can run."""
_ORDER = {9: (FLASH3, FLASH4, FLASH2), 10: (FLASH4, FLASH2)}
"""What `auto` tries by compute capability, the fastest first as measured on Hopper at 610M (docs/maintainers.md); on
Blackwell by its authors' speeds."""
ROUNDING = 0.03
"""Largest difference of a kernel's results and gradients from the reference, relative to their norm: rounding of
bfloat16."""


def resolve_backend(
    backend: str, device: torch.device, dtype: torch.dtype, head_dim: int
) -> AttentionBackend:
    """Return the backend to use, and make torch use its kernels.

    A backend that is named is taken as it is, or refused. With `AUTO`, one that cannot run is passed over, down
    to the reference (`SDPA`), which runs everywhere; a package's kernels also have to compute the right sums.

    Args:
        backend: a name in `BACKENDS`, or `AUTO`, which takes the fastest one that can run.
        device: where the model is.
        dtype: type of the activations.
        head_dim: dimension of an attention head.

    Raises:
        UserError: an unknown backend, or one that cannot run there.
    """
    if backend != AUTO:
        chosen = BACKENDS[backend]
        problem = chosen.problem(device, dtype, head_dim)
        if problem:
            raise UserError(f"attention backend {backend} {problem}; use auto or sdpa")
        _activate(chosen)
        return chosen

    # torch's own kernels: on AMD's GPUs, and on NVIDIA's that are not in `_ORDER`. On a CPU they have a
    # problem below, so that the reference is left.
    order: tuple[AttentionBackend, ...] = (FLASH2,)
    if device.type == "cuda" and torch.version.hip is None:
        major = torch.cuda.get_device_capability(device)[0]
        order = _ORDER.get(major, order)

    for chosen in order:
        if not chosen.problem(device, dtype, head_dim):
            _activate(chosen)
            # Nobody has chosen a package's kernels here, so they are compared with the reference before they
            # are trusted; torch's own are not.
            if not chosen.module or _is_right(chosen, device, dtype, head_dim):
                return chosen

    return SDPA


def _activate(backend: AttentionBackend) -> None:
    """Make torch's operator `varlen_attn` run a backend's kernels: a package's, or torch's own again."""
    wanted = backend.implementation
    # torch's name of the package whose kernels are active; None for its own. torch 2.11 lacks some of these
    # functions.
    current = getattr(torch_attention, "current_flash_attention_impl", lambda: None)()
    # The reference does not use that operator, and kernels that are active stay so.
    if backend.attend is not varlen or wanted == current:
        return
    if wanted is None:
        torch_attention.restore_flash_attention_impl()
    else:
        torch_attention.activate_flash_attention_impl(wanted)


@functools.cache
def _is_right(
    backend: AttentionBackend, device: torch.device, dtype: torch.dtype, head_dim: int
) -> bool:
    """Return whether a package's kernels give the reference's results and gradients for a few tokens.

    They must be active (`_activate`). Their compiler or the driver may fail, and a version may compute other sums.
    """
    # One token, and lengths that are no multiples of the blocks that kernels compute.
    lengths, generator = (1, 30, 300), torch.Generator().manual_seed(0)
    bounds = torch.tensor((0, *lengths), device=device).cumsum(0)
    narrow = []

    # Queries, keys, values, and the gradient of the output, by their numbers of heads: two query heads share
    # a key head.
    for heads in (4, 2, 2, 4):
        tensor = torch.randn(sum(lengths), heads, head_dim, generator=generator)
        narrow.append(tensor.to(device, dtype))

    # The reference is computed in float32. A package's kernels refuse that type, so torch's own compute it.
    exact = [x.float() for x in narrow]

    def results(
        kernels: AttentionBackend, tensors: list[Tensor], *, is_causal: bool
    ) -> list[Tensor]:
        layout = packed_layout(
            bounds, max(lengths), is_causal=is_causal, backend=kernels
        )
        return _results(tensors, layout)

    try:
        for is_causal in (False, True):
            found = results(backend, narrow, is_causal=is_causal)
            expected = results(SDPA, exact, is_causal=is_causal)
            for ours, theirs in zip(found, expected, strict=True):
                # Of the output and of each gradient: the distance, relative to the reference's norm.
                off = float((ours - theirs).norm() / theirs.norm())
                # `not <=` also refuses nan.
                if not off <= ROUNDING:
                    raise ArithmeticError(
                        f"its results differ by {off:.1%} from the reference's"
                    )
    except Exception as error:  # whatever a package's compiler may raise
        logger.warning(
            "attention backend %s does not run here (%s)",
            backend.name,
            first_line(error),
        )
        return False

    return True


def _results(tensors: list[Tensor], layout: AttentionLayout) -> list[Tensor]:
    """Return attention's output and the gradients of q, k and v, all in float32.

    Args:
        tensors: q, k, v and the gradient of the output.
        layout: from `packed_layout`.
    """
    q, k, v = (x.detach().requires_grad_() for x in tensors[:3])
    with torch.enable_grad():
        out = attention(q, k, v, layout)
        gradients = torch.autograd.grad(out, (q, k, v), tensors[3])
    return [x.detach().float() for x in (out, *gradients)]
