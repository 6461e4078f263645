"""How fast a GPU trains a model: measured where somebody measured it, else counted. Standard library only.

A step's time is the sum of three parts, each at a share of the device's published rate that a trace of 610M on an H100
showed (docs/performance.md): matrix products, attention, and what is read and written in memory. What measured sizes
reached of that sum is what others are taken to reach: left out of it, each of the three sizes is met within 5 %.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

from pretraining.paper_settings import GPU_HOURS, SHAPES, TRAINING, Shape, effective_length
from pretraining.plan.devices import DEVICES, Device
from pretraining.plan.flops import model_flops_per_token

__all__ = ["H100", "MEASURED", "Speed", "reached"]

MEASURED = {"210m": 308_000.0, "610m": 105_500.0, "1b": 60_000.0}
"""Tokens/s of one H100 with MLM at 40 % and the default settings, by size (docs/performance.md)."""

_PRODUCTS, _ATTENTION, _MEMORY = 753 / 989.4, 175 / 989.4, 2.1 / 3.35
"""Shares of the peak rate, and of the bandwidth, that a trace of 610M showed."""
_HOST_SECONDS = 0.002
"""Of a layer in one pass: what Python and the driver take to launch it, rehearsed (docs/performance.md)."""
_PASS_TOKENS, _FULL = TRAINING.device_batch * TRAINING.max_length, 0.95
"""Most tokens of the measured passes, and how full passes are."""


@dataclass(frozen=True, kw_only=True)
class Speed:
    """A device, and what it is known to reach."""

    device: Device
    """The GPU."""
    mfu: float | None = None
    """Share of its peak rate that every training reaches; None: by size and objective."""

    def tokens_per_second(
        self, shape: Shape, *, predicted: float, length: float | None = None, pass_tokens: int = _PASS_TOKENS
    ) -> float:
        """Return the tokens/s of training.

        Args:
            shape: the model.
            predicted: share of positions that pass the head: 1 for CLM, the masking ratio for MLM.
            length: mean length that a token meets, `effective_length()` when left out.
            pass_tokens: most tokens of one forward and backward pass.
        """
        length = effective_length() if length is None else length
        if self.mfu is not None:
            flops = model_flops_per_token(shape, length=length, predicted=predicted)
            return self.mfu * self.device.peak / flops
        return reached(self.device.name) / _seconds(shape, self.device, predicted, length, pass_tokens)


H100 = Speed(device=DEVICES["H100"])
"""One H100 at the speed that it was measured at."""


def _seconds(shape: Shape, device: Device, predicted: float, length: float, pass_tokens: int) -> float:
    """Return the seconds of a token by the three parts, or by the host where that is slower."""
    width, kv_width = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    products = 6 * (shape.body_parameters + predicted * shape.embedding_parameters)
    attention = 12 * shape.layers * width * length
    # Bytes forward and backward: norms and the float32 residual; RoPE; SwiGLU; then the loss over logits.
    channels = 56 * shape.hidden + 16 * (width + kv_width) + 18 * shape.mlp
    moved = shape.layers * channels + 8 * predicted * shape.vocab
    # Weights are cast, and gradients added up, in each pass.
    moved += 22 * shape.trained_parameters / (_FULL * pass_tokens)
    computed = products / (_PRODUCTS * device.peak) + attention / (_ATTENTION * device.peak)
    host = _HOST_SECONDS * shape.layers / (_FULL * pass_tokens)
    return max(computed + moved / (_MEMORY * device.bandwidth), host)


@cache
def reached(name: str, left_out: str = "") -> float:
    """Return what measured trainings reached of the counted speed: of the device if it was measured, else of the H100.

    Args:
        name: of the device.
        left_out: a measured size that shall not count.
    """
    if name == "MI250X":  # the paper's own hours of its base models, trained by another trainer
        tokens, length = 42_000 * TRAINING.tokens_per_step, effective_length()
        hours = sum(
            tokens * _seconds(shape, DEVICES[name], share, length, _PASS_TOKENS) / 3600
            for shape in SHAPES.values() for share in (0.2, 0.3, 0.4, 0.5, 1.0)
        )  # fmt: skip
        return hours / GPU_HOURS["base models"]
    shares = [
        speed * _seconds(SHAPES[size], DEVICES["H100"], 0.4, effective_length(), _PASS_TOKENS)
        for size, speed in MEASURED.items() if size != left_out
    ]  # fmt: skip
    return math.exp(sum(map(math.log, shares)) / len(shares))
