"""Cross-entropy of a linear head without its logits: they exist for a few positions at a time, never all.

Full logits of the paper's step (12 x 2,048 positions x 128,256 tokens) are 12.6 GB in float32, several times over
with their gradients. Here each chunk of positions is taken from hidden states to loss *and* gradient at once, so
that nothing of it is kept for the backward pass, and no product is computed twice. The value and the gradients are
those of the plain computation up to rounding.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pretraining.model.attention import activation_dtype

IGNORE = -100
"""Label of a position without a target."""

CHUNK_BYTES = {"cpu": 64 * 2**20, "cuda": 2**30}
"""Size of one chunk's float32 logits: larger chunks make larger matrix products, smaller ones fit in caches."""


def rows_per_chunk(vocab: int, device: torch.device) -> int:
    """Return how many positions' logits are formed at a time: at least 16, and a multiple of 16."""
    rows = CHUNK_BYTES.get(device.type, CHUNK_BYTES["cuda"]) // (4 * vocab)
    return max(16, rows // 16 * 16)


def linear_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    labels: Tensor,
    chunk: int | None = None,
    *,
    weights: Tensor | None = None,
    fused: bool = False,
) -> Tensor:
    """Return the summed cross-entropy of `hidden @ weight.T` against `labels`, a float32 (or float64) scalar.

    Under autocast the products run in its type and the sums in float32, as a plain head would; the gradient of the
    weight is accumulated over the chunks in float32 (in the weight's type when that is wider).

    Args:
        hidden: (N, H).
        weight: (V, H).
        labels: (N,), int64; `IGNORE` where there is no target.
        chunk: positions whose logits exist at a time; `rows_per_chunk` when left out.
        weights: factor of each position's cross-entropy, (N,); 1 when left out.
        fused: compile what happens between the matrix products, which on a GPU is bound by memory traffic.
    """
    is_labelled = labels.shape == hidden.shape[:1]
    is_weighed = weight.shape[1:] == hidden.shape[1:]
    if hidden.dim() != 2 or not is_labelled or not is_weighed:
        raise ValueError(
            f"hidden {tuple(hidden.shape)}, weight {tuple(weight.shape)} and labels {tuple(labels.shape)} must be "
            "(N, H), (V, H) and (N,)"
        )
    compute = activation_dtype(hidden)
    if chunk is None:
        chunk = rows_per_chunk(weight.shape[0], hidden.device)
    # Asked here: inside the function gradients are off, and inputs seem to need gradients even under no_grad.
    wanted = torch.is_grad_enabled()
    between = _compiled() if fused else _loss_and_error
    total: Tensor = _LinearCrossEntropy.apply(
        hidden, weight, labels, weights, chunk, compute, wanted, between
    )
    return total


def _loss_and_error(
    logits: Tensor, targets: Tensor, weights: Tensor | None, gradient: bool
) -> tuple[Tensor, Tensor]:
    """Return one chunk's summed loss and its gradient by the logits, in their type; the logits are used up.

    `weights` are (N, 1), in the type of the sums.
    """
    compute = logits.dtype
    wide = logits.to(torch.float64 if compute == torch.float64 else torch.float32)
    has_target = (targets != IGNORE).unsqueeze(1)
    index = targets.unsqueeze(1).where(has_target, 0)
    picked = wide.gather(1, index)
    top = wide.amax(dim=1, keepdim=True)
    # exp(logits - max) gives both the softmax and the log of its sum; in place, unless the compiler manages memory.
    compiling = torch.compiler.is_compiling()
    exponentials = (wide - top).exp() if compiling else wide.sub_(top).exp_()
    norm = exponentials.sum(dim=1, keepdim=True)
    losses = (norm.log() + top - picked).where(has_target, 0)
    factor = has_target.to(wide.dtype)
    if weights is not None:
        losses, factor = losses * weights, factor * weights
    total = losses.sum()
    if not gradient:
        return total, norm  # any tensor: nobody reads it
    if compiling:  # the target's 1 is subtracted in the same pass, where a scatter would be another
        columns = torch.arange(wide.shape[1], device=wide.device)
        error = exponentials * (factor / norm) - factor * (columns == index)
    else:
        error = exponentials.mul_(factor / norm).scatter_add_(1, index, -factor)
    return total, error.to(compute)


@functools.cache
def _compiled() -> Callable[
    [Tensor, Tensor, Tensor | None, bool], tuple[Tensor, Tensor]
]:
    return torch.compile(_loss_and_error)


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Add left @ right to a total of their own type or a wider one."""
    if left.dtype == total.dtype:
        total.addmm_(left, right)
    elif left.is_cuda and torch.version.hip is None:
        # One kernel multiplies and adds up, so that the product is not written in the narrow type and read again.
        torch.addmm(total, left, right, out_dtype=total.dtype, out=total)
    else:
        total += left @ right


class _LinearCrossEntropy(torch.autograd.Function):
    """Gradients are computed along with the value, since the incoming one is a scalar that only scales them."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        labels: Tensor,
        weights: Tensor | None,
        rows: int,
        compute: torch.dtype,
        wanted: bool,
        between: Callable[[Tensor, Tensor, Tensor | None, bool], tuple[Tensor, Tensor]],
    ) -> Tensor:
        wide = torch.float64 if compute == torch.float64 else torch.float32
        needs_hidden = wanted and ctx.needs_input_grad[0]
        needs_weight = wanted and ctx.needs_input_grad[1]
        needs_error = needs_hidden or needs_weight
        total = torch.zeros((), dtype=wide, device=hidden.device)
        factors = None if weights is None else weights.to(wide).unsqueeze(1)
        grad_hidden = torch.empty_like(hidden) if needs_hidden else None
        grad_weight = torch.zeros_like(weight, dtype=wide) if needs_weight else None
        with torch.autocast(hidden.device.type, enabled=False):
            product_weight = weight.to(compute)
            for start in range(0, hidden.shape[0], rows):
                part = slice(start, start + rows)
                states = hidden[part].to(compute)
                logits = states @ product_weight.t()
                factor = None if factors is None else factors[part]
                loss, error = between(logits, labels[part], factor, needs_error)
                # The error may use the logits' memory by now; if not, free it for the next chunk.
                del logits
                total += loss
                if grad_hidden is not None:
                    grad_hidden[part] = error @ product_weight
                if grad_weight is not None:
                    _add_product(grad_weight, error.t(), states)
        ctx.save_for_backward(grad_hidden, grad_weight)
        ctx.weight_dtype = weight.dtype
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (scale,) = grads
        grad_hidden, grad_weight = ctx.saved_tensors
        if grad_hidden is not None:
            grad_hidden = (grad_hidden * scale).to(grad_hidden.dtype)
        if grad_weight is not None:
            grad_weight = (grad_weight * scale).to(ctx.weight_dtype)
        # torch wants a gradient for each argument of `forward`: the other six have none.
        return grad_hidden, grad_weight, *(None,) * 6
