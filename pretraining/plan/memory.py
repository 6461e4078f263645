"""How much memory of a GPU a pretraining takes, and the largest pass that fits. Standard library only."""

from __future__ import annotations

from pretraining.paper_settings import Shape

__all__ = ["largest_microbatch", "training_bytes"]

# Fits the three sizes of docs/performance.md, on one and two GPUs, within 5 %: bf16, compiled blocks, MLM at 40 %.
_PARAMETER, _REDUCED, _BLOCK, _LOGITS = 16, 6, 36, 1.6
_SHARE = 0.9
"""Of a GPU's free memory: the rest is for what the allocator cannot fill and libraries take."""
_MOST = 32
"""Sequences of a pass above which nothing gets faster."""


def training_bytes(shape: Shape, tokens: int, *, is_shared: bool = False) -> float:
    """Return the bytes of a GPU that training a shape takes.

    Args:
        shape: the model.
        tokens: most tokens of a pass.
        is_shared: whether several GPUs share a step and add their gradients up.
    """
    fixed = shape.trained_parameters * (_PARAMETER + _REDUCED * is_shared)
    return fixed + tokens * (_BLOCK * shape.layers * shape.hidden + _LOGITS * shape.vocab)


def largest_microbatch(shape: Shape, free: float, length: int, *, is_shared: bool = False) -> int:
    """Return the most sequences of a pass that fit, from 1 to 32.

    Args:
        shape: the model.
        free: bytes of the GPU that nobody uses.
        length: tokens of the longest sequence.
        is_shared: as `training_bytes` has it.
    """
    fixed = training_bytes(shape, 0, is_shared=is_shared)
    each = training_bytes(shape, length, is_shared=is_shared) - fixed
    return max(1, min(_MOST, int((_SHARE * free - fixed) / each)))
