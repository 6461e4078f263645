"""How much memory a run needs: what `--dry-run` prints, and what decides how many are computed side by side."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.finetuning.device import Precision
from benchmarks.finetuning.encoders import Encoder

__all__ = ["run_bytes"]


def run_bytes(encoder: Encoder, precision: Precision, positions: int) -> tuple[int, int]:
    """Return what a run keeps for the model, and for the activations of a forward pass of so many positions.

    The model's are its weights, the copy that they are reset from, gradients, and AdamW's two moments.
    """
    parameters = sum(parameter.numel() for parameter in encoder.parameters())
    return 5 * parameters * precision.weights.itemsize, _activation_bytes(encoder, precision) * positions


def _activation_bytes(encoder: Encoder, precision: Precision, length: int = 64) -> int:
    """Return the bytes that one token position keeps for the backward pass, counted in a small pass on the CPU."""
    seen: dict[int, int] = {}
    weights = {parameter.untyped_storage().data_ptr() for parameter in encoder.parameters()}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            seen[storage.data_ptr()] = storage.nbytes()
        return tensor

    outputs = []
    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        torch.autocast("cpu", torch.bfloat16, enabled=precision.autocast),
    ):
        outputs.append(encoder(torch.zeros((1, length), dtype=torch.long), torch.tensor([length])))
    return sum(seen.values()) // length
