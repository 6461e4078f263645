"""Cross-entropy of a linear head without all its logits: they exist only for a chunk of positions at a time.

All logits of one of the paper's micro-batches (12 x 2,048 positions x 128,256 tokens) are 12.6 GB in float32, several
times over with their gradients. Here the forward pass computes, for each chunk of positions, the loss and at once its
gradients by hidden states and weights. So no logits are kept for the backward pass, and no product is computed twice.
The loss and the gradients are those of the plain computation up to rounding.

Shapes: N positions, H hidden, V tokens of the vocabulary.
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
    """Return for how many positions logits are computed at a time: at least 16, and a multiple of 16.

    Args:
        vocab: size of the vocabulary.
        device: where they are computed.
    """
    # A logit takes 4 bytes. Devices of a type that is not listed count as GPUs.
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

    Under autocast, matrix products are computed in its type and sums in float32, as in a plain head. The gradient of
    the weight is added up over the chunks in float32 (float64 where all is float64).

    Args:
        hidden: hidden states, (N, H).
        weight: the head's weight, (V, H).
        labels: (N,), int64; `IGNORE` where there is no target.
        chunk: for how many positions logits are computed at a time; `rows_per_chunk` when left out.
        weights: factor of each position's cross-entropy, (N,); 1 when left out.
        fused: compile what happens between the matrix products, which on a GPU is bound by memory traffic.
    """
    fits_labels = labels.shape == hidden.shape[:1]
    fits_weight = weight.shape[1:] == hidden.shape[1:]
    if hidden.dim() != 2 or not fits_labels or not fits_weight:
        raise ValueError(
            f"hidden {tuple(hidden.shape)}, weight {tuple(weight.shape)} and labels {tuple(labels.shape)} must be "
            "(N, H), (V, H) and (N,)"
        )

    compute = activation_dtype(hidden)
    if chunk is None:
        chunk = rows_per_chunk(weight.shape[0], hidden.device)

    # Looked up here: inside an autograd function gradients are always off, and its inputs seem to need gradients even
    # under no_grad.
    wanted = torch.is_grad_enabled()
    # What happens between the product that gives logits and the products that give gradients.
    between = _compiled() if fused else _loss_and_error
    total: Tensor = _LinearCrossEntropy.apply(
        hidden, weight, labels, weights, chunk, compute, wanted, between
    )
    return total


def _loss_and_error(
    logits: Tensor, targets: Tensor, weights: Tensor | None, gradient: bool
) -> tuple[Tensor, Tensor]:
    """Return one chunk's summed loss, and its gradient by the logits, (N, V), in their type.

    Args:
        logits: (N, V), with the N positions of the chunk; they may be overwritten.
        targets: labels, (N,).
        weights: factor of each position's cross-entropy, (N, 1), in the type of the sums; 1 when None.
        gradient: whether the gradient is wanted; without, the second value has no meaning.
    """
    compute = logits.dtype
    wide = logits.to(torch.float64 if compute == torch.float64 else torch.float32)
    # All (N, 1). A position without a target takes token 0, and its loss is replaced by 0 below.
    has_target = (targets != IGNORE).unsqueeze(1)
    index = targets.unsqueeze(1).where(has_target, 0)
    target_logits = wide.gather(1, index)
    top = wide.amax(dim=1, keepdim=True)

    # The greatest logit is subtracted so that exp does not overflow. In place, to save memory: nothing below reads
    # the values of `wide`. A compiler saves the memory itself.
    compiling = torch.compiler.is_compiling()
    exponentials = (wide - top).exp() if compiling else wide.sub_(top).exp_()
    norm = exponentials.sum(dim=1, keepdim=True)

    # Cross-entropy: the log of the sum of all exp(logit), minus the target's logit.
    losses = (norm.log() + top - target_logits).where(has_target, 0)
    # (N, 1): how much a position counts in the loss, which is 0 without a target.
    factor = has_target.to(wide.dtype)
    if weights is not None:
        losses, factor = losses * weights, factor * weights
    total = losses.sum()
    if not gradient:
        return total, norm  # any tensor: nobody reads it

    # The gradient by a logit is its softmax (exponentials / norm), minus 1 at the target, times the position's factor.
    if compiling:
        # A comparison, which the compiler fuses with the rest; a scatter would go over the memory once more.
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
    """Add left @ right to `total` in place; its type is that of left and right, or a wider one."""
    if left.dtype == total.dtype:
        total.addmm_(left, right)
    elif left.is_cuda and torch.version.hip is None:
        # One kernel multiplies and adds up, so that the product is not written in the narrow type and read again.
        torch.addmm(total, left, right, out_dtype=total.dtype, out=total)
    else:
        total += left @ right


class _LinearCrossEntropy(torch.autograd.Function):
    """The summed loss, whose gradients are computed along with it in the forward pass.

    That is possible because the loss is a scalar: the gradient that arrives in the backward pass only scales them.
    """

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
        """Return the summed loss, and keep the gradients by `hidden` and `weight` for `backward`.

        Args:
            ctx: torch's object for what the backward pass needs.
            hidden: hidden states, (N, H).
            weight: the head's weight, (V, H).
            labels: the targets, (N,).
            weights: factor of each position's cross-entropy, (N,), or None.
            rows: number of positions in a chunk.
            compute: type of the matrix products.
            wanted: whether gradients are wanted, of those inputs that ask for one.
            between: `_loss_and_error`, perhaps compiled: from a chunk's logits to its loss and its gradient by them.
        """
        wide = torch.float64 if compute == torch.float64 else torch.float32
        needs_hidden = wanted and ctx.needs_input_grad[0]
        needs_weight = wanted and ctx.needs_input_grad[1]
        needs_error = needs_hidden or needs_weight
        total = torch.zeros((), dtype=wide, device=hidden.device)
        factors = None if weights is None else weights.to(wide).unsqueeze(1)
        grad_hidden = torch.empty_like(hidden) if needs_hidden else None
        grad_weight = torch.zeros_like(weight, dtype=wide) if needs_weight else None

        # Types are chosen by hand here.
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

                # The error is the gradient by logits = states @ weight.T. So the gradient by the states is
                # the error times the weight, and the gradient by the weight is the error times the states.
                if grad_hidden is not None:
                    grad_hidden[part] = error @ product_weight
                if grad_weight is not None:
                    _add_product(grad_weight, error.t(), states)

        ctx.save_for_backward(grad_hidden, grad_weight)
        ctx.weight_dtype = weight.dtype
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients by the arguments of `forward`, scaled by the one that arrives for the summed loss."""
        # A scalar: the gradient of whatever is computed from the summed loss, by that sum.
        (scale,) = grads
        grad_hidden, grad_weight = ctx.saved_tensors
        if grad_hidden is not None:
            grad_hidden = (grad_hidden * scale).to(grad_hidden.dtype)
        if grad_weight is not None:
            grad_weight = (grad_weight * scale).to(ctx.weight_dtype)
        # torch wants a gradient for each argument of `forward` but ctx: the other six have none.
        return grad_hidden, grad_weight, *(None,) * 6
