"""Which backend attends: the one that is set, the first that can run, or, in training, the fastest that is measured."""

from __future__ import annotations

import functools
import logging
import statistics
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from common.errors import UserError
from pretraining.model.attention import AttentionBackend, attention, packed_layout
from pretraining.model.attention_backends import AUTO, BACKENDS, SDPA
from pretraining.paper_settings import TRAINING

__all__ = ["Choice", "Heads", "candidates", "choose", "fastest", "resolve_backend"]

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


def resolve_backend(
    backend: str, device: torch.device, dtype: torch.dtype, head_dim: int
) -> AttentionBackend:
    """Return the backend to use on `device` with activations of `dtype`; nothing is measured.

    Raises:
        UserError: an unknown backend, or one that cannot run there.
    """
    chosen = BACKENDS[backend]
    if chosen.stands_for:
        return next(item for item in chosen.stands_for if not item.problem(device, dtype, head_dim))
    if problem := chosen.problem(device, dtype, head_dim):
        raise UserError(f"attention backend {backend} {problem}; use auto or sdpa")
    return chosen


def candidates(
    backend: AttentionBackend, device: torch.device, dtype: torch.dtype, head_dim: int
) -> list[AttentionBackend]:
    """Return those of the backends that `backend` stands for that can run; on a CPU sdpa alone."""
    return [item for item in backend.stands_for if not item.problem(device, dtype, head_dim)]


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
    if not BACKENDS[setting].stands_for:
        return Choice(asked.name, False)
    there = candidates(BACKENDS[setting], device, dtype, heads.size)
    if recorded and recorded["backend"] in {item.name for item in there}:
        return Choice(recorded["backend"], recorded["measured"])
    best = fastest(heads, device, dtype, is_causal=is_causal, among=BACKENDS[setting], max_length=max_length)
    return Choice(best.name, len(there) > 1)


@functools.cache
def fastest(
    heads: Heads,
    device: torch.device,
    dtype: torch.dtype,
    *,
    is_causal: bool,
    among: AttentionBackend = AUTO,
    max_length: int = TRAINING.max_length,
) -> AttentionBackend:
    """Return the fastest backend for the paper's micro-batch, measured once in a process.

    The batch is 12 packed sequences of evenly spread lengths from 12 to `max_length`, forward and backward. A
    candidate that raises, or whose numbers differ from sdpa's by more than rounding, is skipped with a logged reason;
    the medians are logged. Where only one can run, nothing is measured.
    """
    there = candidates(among, device, dtype, heads.size)
    if len(there) == 1:
        return there[0]
    batch = _Batch(heads, device, dtype, is_causal, max_length)
    expected = batch.run(SDPA)
    times: dict[str, float] = {}
    for backend in there:
        try:
            if (differs := _difference(batch.run(backend), expected)) > _TOLERANCE:
                raise ArithmeticError(f"its numbers differ from those of sdpa by {differs:.0%}")
            times[backend.name] = batch.seconds(backend)
        except Exception as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            logger.warning("attention backend %s is skipped: %s", backend.name, lines[0][:200])
    if not times:
        return SDPA
    best = min(times, key=lambda name: times[name])
    shown = ", ".join(f"{name} {1000 * seconds:.2f} ms" for name, seconds in times.items())
    logger.info("attention (%s): %s; taking %s", "causal" if is_causal else "bidirectional", shown, best)
    return next(item for item in there if item.name == best)


class _Batch:
    """Random queries, keys and values of the paper's micro-batch, and what a backend makes of them."""

    def __init__(
        self, heads: Heads, device: torch.device, dtype: torch.dtype, is_causal: bool, max_length: int
    ) -> None:
        spread = torch.linspace(min(TRAINING.min_length, max_length), max_length, TRAINING.device_batch)
        ends = torch.cat((torch.zeros(1), spread.round().cumsum(0)))
        self.cu_seqlens, self.total = ends.to(device, torch.int32), int(ends[-1])
        self.is_causal, self.max_length, self.device = is_causal, max_length, device
        generator = torch.Generator().manual_seed(0)
        counts = (heads.query, heads.key_value, heads.key_value, heads.query)
        made = [
            torch.randn(self.total, count, heads.size, generator=generator).to(device, dtype)
            for count in counts
        ]
        self.inputs, self.pull = [x.requires_grad_() for x in made[:3]], made[3]

    def run(self, backend: AttentionBackend) -> list[Tensor]:
        """Return the output and the gradients of queries, keys and values."""
        layout = packed_layout(
            self.cu_seqlens, self.total, self.max_length, is_causal=self.is_causal, backend=backend
        )
        q, k, v = self.inputs
        out = attention(q, k, v, layout)
        return [out.detach(), *torch.autograd.grad(out, self.inputs, self.pull)]

    def seconds(self, backend: AttentionBackend) -> float:
        """Return the median time of a forward and backward pass."""
        times = []
        for _ in range(_WARM_UP + _TIMED):
            self._wait()
            start = time.perf_counter()
            self.run(backend)
            self._wait()
            times.append(time.perf_counter() - start)
        return statistics.median(times[_WARM_UP:])

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def _difference(ours: list[Tensor], expected: list[Tensor]) -> float:
    """Return the largest relative difference; infinite where something is not a number."""
    worst = 0.0
    for a, b in zip(ours, expected, strict=True):
        share = float((a.double() - b.double()).norm() / b.double().norm())
        worst = max(worst, share if share == share else float("inf"))
    return worst
