"""Which backend a stage is trained with: the one that is set, or, under `auto`, the fastest that is measured."""

from __future__ import annotations

import functools
import logging
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pretraining.model.attention import (
    BACKENDS,
    SDPA,
    AttentionBackend,
    attention,
    packed_layout,
    resolve_backend,
)
from pretraining.paper_settings import TRAINING

__all__ = ["Choice", "Heads", "choose", "fastest"]

logger = logging.getLogger(__name__)

_WARM_UP, _TIMED = 3, 10
"""Forward and backward passes before the timed ones (kernels are compiled in them), and timed ones."""
_TOLERANCE = 0.03
"""Largest relative difference from sdpa, output and gradients, that rounding explains; bf16 shows below 0.01."""


class Heads(NamedTuple):
    """What attention looks like in one model."""

    query: int
    """Query heads."""
    key_value: int
    """Key and value heads."""
    size: int
    """Dimension of one head."""


class Choice(NamedTuple):
    """The backend of a stage, as its checkpoints and its model's manifest record it."""

    backend: str
    """Its name."""
    measured: bool
    """Whether measurements chose it among several."""


def choose(
    setting: str,
    heads: Heads,
    device: torch.device,
    dtype: torch.dtype,
    *,
    is_causal: bool,
    max_length: int = TRAINING.max_length,
    recorded: Mapping[str, Any] | None = None,
) -> Choice:
    """Return the backend to train a stage with.

    Args:
        setting: a name in `BACKENDS`.
        heads: heads of the model.
        device: what it computes on.
        dtype: type of its activations.
        is_causal: direction of the stage's attention.
        max_length: longest sequence.
        recorded: what the checkpoint to resume from records; under `auto` it is taken where it can run.

    Raises:
        UserError: an unknown backend, or one that cannot run there.
    """
    asked = resolve_backend(setting, device, dtype, heads.size)
    there = BACKENDS[setting].candidates(device, dtype, heads.size)
    if recorded and recorded["backend"] in {item.name for item in there}:
        return Choice(recorded["backend"], recorded["measured"])
    if len(there) <= 1:
        return Choice(asked.name, False)
    best = fastest(tuple(there), heads, device, dtype, is_causal=is_causal, max_length=max_length)
    return Choice(best.name, True)


@functools.cache
def fastest(
    backends: tuple[AttentionBackend, ...],
    heads: Heads,
    device: torch.device,
    dtype: torch.dtype,
    *,
    is_causal: bool,
    max_length: int = TRAINING.max_length,
) -> AttentionBackend:
    """Return the fastest backend for the paper's micro-batch, measured once in a process.

    The batch is 12 packed sequences of evenly spread lengths from 12 to `max_length`, forward and backward. One
    that raises, or whose numbers differ from sdpa's by more than rounding, is skipped with a logged reason; the medians
    are logged.
    """
    spread = torch.linspace(min(TRAINING.min_length, max_length), max_length, TRAINING.device_batch)
    ends = torch.cat((torch.zeros(1), spread.round().cumsum(0)))
    cu_seqlens, total = ends.to(device, torch.int32), int(ends[-1])
    generator = torch.Generator().manual_seed(0)
    q, k, v, pull = (
        torch.randn(total, count, heads.size, generator=generator).to(device, dtype)
        for count in (heads.query, heads.key_value, heads.key_value, heads.query)
    )
    inputs = [x.requires_grad_() for x in (q, k, v)]

    def run(backend: AttentionBackend) -> list[Tensor]:
        layout = packed_layout(cu_seqlens, total, max_length, is_causal=is_causal, backend=backend)
        out = attention(q, k, v, layout)
        return [out.detach(), *torch.autograd.grad(out, inputs, pull)]

    expected, times = run(SDPA), dict[AttentionBackend, float]()
    for backend in backends:
        try:
            if (differs := _difference(run(backend), expected)) > _TOLERANCE:
                raise ArithmeticError(f"its numbers differ from those of sdpa by {differs:.0%}")
            seconds = [_seconds(functools.partial(run, backend), device) for _ in range(_WARM_UP + _TIMED)]
            times[backend] = statistics.median(seconds[_WARM_UP:])
        except Exception as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            logger.warning("attention backend %s is skipped: %s", backend.name, lines[0][:200])
    best = min(times, key=lambda item: times[item], default=SDPA)
    shown = ", ".join(f"{item.name} {1000 * seconds:.2f} ms" for item, seconds in times.items())
    logger.info("attention (%s): %s; taking %s", "causal" if is_causal else "bidirectional", shown, best.name)
    return best


def _seconds(call: Callable[[], object], device: torch.device) -> float:
    """Return how long a call takes, with what it left to the device."""
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda device: None
    wait(device)
    start = time.perf_counter()
    call()
    wait(device)
    return time.perf_counter() - start


def _difference(ours: list[Tensor], expected: list[Tensor]) -> float:
    """Return the largest relative difference; infinite where something is not a number."""
    shares = [
        float((a.double() - b.double()).norm() / b.double().norm())
        for a, b in zip(ours, expected, strict=True)
    ]
    return max(share if share == share else float("inf") for share in shares)
