"""The GPU's table: training steps by size, objective, attention backend and compilation.

The reference is transformers' Trainer with its native EuroBERT (Llama for CLM) on the same sequences, padded.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from common.errors import UserError
from pretraining.model.configuration import EncoderConfig, config_for, shape_of
from pretraining.paper_settings import TRAINING
from pretraining.plan.flops import mfu, model_flops_per_token
from pretraining.training.objectives import ObjectiveBatch
from tests.performance.parts import OBJECTIVES, adamw, drawn, ours, step

BATCHES = 8


def name_of(device: str) -> str:
    """Return what torch calls the device."""
    return torch.cuda.get_device_name() if device == "cuda" else "cpu"


def clock(device: str) -> float:
    """Return the time, once the device has done what it was given."""
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def seconds_of(device: str, calls: Sequence[Callable[[], object]], rounds: int = 1) -> float:
    """Return the mean seconds of a call, after each has been called once."""
    for call in calls:
        call()
    start = clock(device)
    for _ in range(rounds):
        for call in calls:
            call()
    return (clock(device) - start) / (rounds * len(calls))


@dataclass(frozen=True, kw_only=True)
class Load:
    """What the batches ask for, on the mean."""

    tokens: float
    """Tokens of a batch."""
    context: float
    """Length of the sequence that a token is in."""
    predicted: float
    """Predicted tokens of a batch."""

    @classmethod
    def of(cls, batches: Sequence[ObjectiveBatch]) -> Load:
        """Return the load of batches."""
        lengths = torch.cat([batch.inputs.cu_seqlens.diff() for batch in batches]).double()
        tokens = float(lengths.sum())
        return cls(
            tokens=tokens / len(batches),
            context=float(lengths.square().sum()) / tokens,
            predicted=sum(batch.count for batch in batches) / len(batches),
        )

    def flops(self, config: EncoderConfig) -> float:
        """Return the model FLOPs of a token."""
        share = self.predicted / self.tokens
        return model_flops_per_token(shape_of(config), length=self.context, predicted=share)


def on_device(
    device: str,
    sizes: Sequence[str],
    backends: Sequence[str],
    sequences: int = 12,
    longest: int = 2048,
    steps: int = 24,
) -> None:
    """Print tokens/s, MFU and peak memory of steps by size, objective and backend."""
    cuda = device == "cuda"
    shape = f"{sequences} sequences of {TRAINING.min_length} to {longest:,} tokens"
    print(f"{name_of(device)}, torch {torch.__version__}, bf16 autocast, {shape}, {steps} steps")
    print(f"{'size':6}{'objective':>10}{'attention':>10}{'tokens/s':>12}{'MFU':>8}{'peak GB':>9}  blocks")
    for size, objective in itertools.product(sizes, OBJECTIVES):
        config = config_for(size)
        batches = [drawn(config, objective, sequences, longest, seed) for seed in range(BATCHES)]
        row = partial(_row, device, size, objective, load=Load.of(batches))
        for backend in backends:
            for compiled in (True, False) if cuda else (False,):
                seconds = partial(step_seconds, device, size, backend, batches, steps, compiled=compiled)
                how = "compiled" if compiled else "not compiled"
                if row(backend, how, measure=seconds):
                    break
        row("-", "Trainer", measure=partial(trainer_seconds, device, config, objective, batches, steps))


def _row(
    device: str,
    size: str,
    objective: str,
    backend: str,
    how: str,
    *,
    load: Load,
    measure: Callable[[], float],
) -> bool:
    """Print one row; return whether it could be measured."""
    torch._dynamo.reset()
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    try:
        speed = load.tokens / measure()
    except (UserError, RuntimeError, ImportError, torch._dynamo.exc.TorchDynamoException) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        print(f"{size:6}{objective:>10}{backend:>10}  failed, {how}: {reason[:80]}", flush=True)
        return False
    share = mfu(speed, load.flops(config_for(size)), name_of(device))
    shown = "-" if share is None else f"{share:.1%}"
    peak = f"{torch.cuda.max_memory_allocated() / 1e9:.1f}" if device == "cuda" else "-"
    print(f"{size:6}{objective:>10}{backend:>10}{speed:12,.0f}{shown:>8}{peak:>9}  {how}", flush=True)
    return True


def step_seconds(
    device: str, size: str, backend: str, batches: Sequence[ObjectiveBatch], steps: int, *, compiled: bool
) -> float:
    """Return the mean seconds of one of our training steps."""
    model = ours(config_for(size)).to(device)
    model.set_attention_backend(backend)
    model.fuse_projections(device == "cuda")
    if compiled:
        model.compile_blocks()
    optimizer = adamw(model)
    # All lengths come once before the clock starts, since each may be compiled for.
    calls = [partial(step, model, optimizer, batch.to(device), bf16=True) for batch in batches]
    return seconds_of(device, calls, rounds=max(1, steps // len(calls)))


def trainer_seconds(
    device: str, config: EncoderConfig, objective: str, batches: Sequence[ObjectiveBatch], steps: int
) -> float:
    """Return the mean seconds of one of the Trainer's steps.

    Raises:
        ImportError: the Trainer needs accelerate.
    """
    from tests.performance.trainer import reference, step_times

    cycle = [batches[number % len(batches)] for number in range(len(batches) + steps)]
    model = reference(config, objective).to(device)
    times = step_times(model, cycle, objective, lambda: clock(device), cuda=device == "cuda")
    return sum(times[len(batches) :]) / steps
