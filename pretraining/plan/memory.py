"""How much memory of a GPU a pretraining takes, and the largest pass that fits. Standard library only."""

from __future__ import annotations

from pretraining.paper_settings import Shape

__all__ = ["largest_microbatch", "training_gb"]

# Fits the three sizes of docs/performance.md, on one and two GPUs, within 5 %: bf16, compiled blocks, MLM at 40 %.
_PARAMETER_BYTES, _REDUCED_BYTES, _BLOCK_BYTES, _LOGIT_BYTES = 16, 6, 36, 1.6
_FILLED = 0.9
"""Share of a GPU's free memory that training may take: the allocator cannot fill the rest."""
_MOST = 32
"""Sequences of a pass above which nothing gets faster."""


def training_gb(shape: Shape, pass_tokens: int, *, several: bool = False) -> float:
    """Return the GB of a GPU that training takes.

    Args:
        shape: the model.
        pass_tokens: most tokens of one forward and backward pass.
        several: whether several GPUs share the work.
    """
    fixed = shape.trained_parameters * (_PARAMETER_BYTES + _REDUCED_BYTES * several)
    position = _BLOCK_BYTES * shape.layers * shape.hidden + _LOGIT_BYTES * shape.vocab
    return (fixed + pass_tokens * position) / 1e9


def largest_microbatch(
    shape: Shape, free_gb: float, length: int, *, most: int = _MOST, several: bool = False
) -> int:
    """Return the most sequences that one pass may have in a GPU's free memory, 0 where not even one fits.

    Args:
        shape: the model.
        free_gb: the GPU's free memory; infinite where it is not known.
        length: tokens of the longest sequence.
        most: not more than this.
        several: whether several GPUs share the work.
    """
    fits = (
        size
        for size in range(most, 0, -1)
        if training_gb(shape, size * length, several=several) <= _FILLED * free_gb
    )
    return next(fits, 0)
