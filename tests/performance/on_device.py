"""The GPU's tables: training steps by size, objective, backend and compilation, next to two limits.

- `bare`: a PyTorch loop of the same matrix products and the same attention, forward and backward, and nothing else: no
  norms, rotations, look-up, cross-entropy, clipping or optimizer. What is practically possible on the device.
- `Trainer`: transformers' Trainer with its native EuroBERT (Llama for CLM) on the same sequences, padded.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from common.errors import UserError
from pretraining.model.attention import attention, packed_layout, resolve_backend
from pretraining.model.configuration import EncoderConfig, config_for, shape_of
from pretraining.paper_settings import TRAINING
from pretraining.plan.flops import mfu, model_flops_per_token
from pretraining.training.objectives import ObjectiveBatch
from tests.performance.pretraining_parts import OBJECTIVES, adamw, drawn, ours, step

BATCHES = 8


def name_of(device: str) -> str:
    """Return what torch calls the device."""
    return torch.cuda.get_device_name() if device == "cuda" else "cpu"


def wait(device: str) -> None:
    """Wait until the device has done what it was given."""
    if device == "cuda":
        torch.cuda.synchronize()


def word(compiled: bool) -> str:
    """Return how the blocks run."""
    return "compiled" if compiled else "not compiled"


def seconds_of(device: str, calls: Sequence[Callable[[], object]], rounds: int = 1) -> float:
    """Return the mean seconds of a call, after each has been called once."""
    for call in calls:
        call()
    wait(device)
    start = time.perf_counter()
    for _ in range(rounds):
        for call in calls:
            call()
    wait(device)
    return (time.perf_counter() - start) / (rounds * len(calls))


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
        return model_flops_per_token(
            shape_of(config), length=self.context, predicted=self.predicted / self.tokens
        )


def on_device(
    device: str, sizes: Sequence[str], backends: Sequence[str], sequences: int, longest: int, steps: int
) -> None:
    """Print tokens/s, MFU and peak memory of training steps for each size, objective and backend, and the limits."""
    shape = f"{sequences} sequences of {TRAINING.min_length} to {longest:,} tokens"
    print(f"{name_of(device)}, torch {torch.__version__}, bf16 autocast, {shape}, {steps} steps")
    print(f"{'size':6}{'objective':>10}{'attention':>10}{'tokens/s':>12}{'MFU':>8}{'peak GB':>9}  blocks")
    for size, objective in itertools.product(sizes, OBJECTIVES):
        config = config_for(size)
        batches = [drawn(config, objective, sequences, longest, seed) for seed in range(BATCHES)]
        load = Load.of(batches)
        for backend in backends:
            for compiled in (True, False) if device == "cuda" else (False,):
                measure = partial(step_seconds, device, size, backend, batches, steps, compiled=compiled)
                if _row(device, size, objective, backend, word(compiled), load, measure):
                    break
        bare = partial(bare_seconds, device, config, backends[0], batches)
        _row(device, size, objective, backends[0], "bare loop", load, bare)
        theirs = partial(trainer_seconds, device, config, objective, batches, steps)
        _row(device, size, objective, "-", "Trainer", load, theirs)


def _row(
    device: str, size: str, objective: str, backend: str, how: str, load: Load, measure: Callable[[], float]
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
    from tests.performance.against_trainer import StepTimes, examples, reference, trainer_of

    cycle = [batches[number % len(batches)] for number in range(len(batches) + steps)]
    rows = [row for batch in cycle for row in examples(batch, objective)]
    times = StepTimes(lambda: (wait(device), time.perf_counter())[1])
    model = reference(config, objective).to(device)
    with tempfile.TemporaryDirectory() as folder:
        trainer = trainer_of(
            model, rows, len(batches[0].inputs), folder, [times], bf16=True, cpu=device == "cpu"
        )
        trainer.train()
    return sum(times.seconds[len(batches) :]) / steps


def products(config: EncoderConfig, load: Load) -> Iterator[tuple[str, int, int, int, int]]:
    """Yield name, rows, inner and outer size of each matrix product of a forward pass, and how often it comes."""
    hidden, kv = config.hidden_size, config.num_key_value_heads * config.head_dim
    tokens, layers = int(load.tokens), config.num_hidden_layers
    yield "queries, keys, values", tokens, hidden, hidden + 2 * kv, layers
    yield "attention's output", tokens, hidden, hidden, layers
    yield "gate and up", tokens, hidden, 2 * config.intermediate_size, layers
    yield "down", tokens, config.intermediate_size, hidden, layers
    yield "head", int(load.predicted), hidden, config.vocab_size, 1


def product_calls(device: str, rows: int, inner: int, outer: int) -> Callable[[], object]:
    """Return a function that does a product forward and both of its products backward, in bf16."""
    options = {"dtype": torch.bfloat16, "device": device}
    x, weight = torch.randn(rows, inner, **options), torch.randn(outer, inner, **options)
    # In parts, as logits are never whole.
    part = max(1, min(rows, 2**30 // (2 * outer)))
    pull = torch.randn(part, outer, **options)

    def call() -> None:
        for start in range(0, rows, part):
            piece = x[start : start + part]
            torch.mm(piece, weight.t())
            torch.mm(pull[: len(piece)], weight)
            torch.mm(pull[: len(piece)].t(), piece)

    return call


def attention_calls(
    device: str, config: EncoderConfig, backend: str, batches: Sequence[ObjectiveBatch]
) -> list[Callable[[], object]]:
    """Return, for each batch, a function that does one layer's attention forward and backward."""
    dtype = torch.bfloat16
    heads, kv = config.num_attention_heads, config.num_key_value_heads
    chosen = resolve_backend(backend, torch.device(device), dtype, config.head_dim)
    calls: list[Callable[[], object]] = []
    for batch in batches:
        tokens = batch.inputs.num_tokens
        q, k, v = (
            torch.randn(tokens, n, config.head_dim, dtype=dtype, device=device, requires_grad=True)
            for n in (heads, kv, kv)
        )
        pull = torch.randn_like(q)
        layout = packed_layout(
            batch.inputs.cu_seqlens.to(device), tokens, batch.inputs.max_length,
            is_causal=batch.is_causal, backend=chosen,
        )  # fmt: skip
        calls.append(
            lambda q=q, k=k, v=v, layout=layout, pull=pull: torch.autograd.grad(
                attention(q, k, v, layout), (q, k, v), pull
            )
        )
    return calls


def bare_seconds(
    device: str, config: EncoderConfig, backend: str, batches: Sequence[ObjectiveBatch]
) -> float:
    """Return the seconds of a step's matrix products and attention alone."""
    load = Load.of(batches)
    total = sum(
        times * seconds_of(device, [product_calls(device, rows, inner, outer)], 3)
        for _, rows, inner, outer, times in products(config, load)
    )
    attended = seconds_of(device, attention_calls(device, config, backend, batches))
    return total + config.num_hidden_layers * attended
