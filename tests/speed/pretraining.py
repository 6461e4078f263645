"""Speed and memory of pretraining steps, next to transformers' Trainer on the same sequences, padded.

    python -m tests.speed.pretraining                # on a CPU
    python -m tests.speed.pretraining --device cuda  # on a GPU: by size, objective and attention backend

On the CPU both sides are in float32 on one thread, of a head-heavy shape, as the paper's are once trained at its
vocabulary; speeds are medians by the process's own time, memory is the growth of the resident set over one forward and
backward pass in a process of its own, gradients allocated before. On a GPU steps of the paper's micro-batch are timed
under bf16 autocast.
"""

from __future__ import annotations

import itertools
import multiprocessing
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch

from common.errors import UserError
from pretraining.model.attention import BACKENDS
from pretraining.model.configuration import EncoderConfig, config_for, shape_of
from pretraining.paper_settings import SHAPES, TRAINING
from pretraining.plan.flops import mfu, model_flops_per_token
from pretraining.training.objectives import ObjectiveBatch, loss_sum
from tests.speed.parts import OBJECTIVES, adamw, drawn, ours, step
from tests.speed.timing import parser_of

SEQUENCES, LONGEST, STEPS = 8, 160, 5
"""What a CPU is given."""
BATCHES = 8
"""Other batches that a GPU is given; all lengths come once before the clock starts, since each may be compiled for."""
SIDES = ("ours", "Trainer")


def head_heavy() -> EncoderConfig:
    """A body of 3.9 million parameters under the paper's vocabulary: 8.3 times as many in the head."""
    return config_for(
        "tiny", hidden_size=256, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=1024,
    )  # fmt: skip


def speeds(objective: str) -> dict[str, float]:
    """Return tokens a second of CPU time of both sides, without padding."""
    from tests.speed.trainer import examples, padded, reference, step_times  # it needs accelerate

    given = [drawn(head_heavy(), objective, SEQUENCES, LONGEST, seed) for seed in range(STEPS + 1)]
    model, theirs = ours(head_heavy()), reference(head_heavy(), objective)
    with torch.no_grad():
        mine = float(loss_sum(model, given[0]).mean)
        losses = mine, float(theirs(**padded(examples(given[0], objective))).loss)
    assert abs(losses[0] - losses[1]) < 1e-4, f"the two sides compute different losses: {losses}"
    optimizer, times = adamw(model), [time.process_time()]
    for batch in given:
        step(model, optimizer, batch, bf16=False)
        times.append(time.process_time())
    taken = {
        "ours": [after - before for before, after in itertools.pairwise(times)],
        "Trainer": step_times(theirs, given, objective, time.process_time, cuda=False),
    }
    tokens = [batch.inputs.num_tokens for batch in given]
    # The first step allocates.
    return {
        side: statistics.median(count / second for count, second in zip(tokens[1:], seconds[1:], strict=True))
        for side, seconds in taken.items()
    }


def peak_megabytes(side: str, objective: str) -> float:
    """Return the growth of this process's resident set over one forward and backward pass (Linux)."""
    from tests.speed.trainer import examples, padded, reference

    torch.set_num_threads(1)
    config, batch = head_heavy(), drawn(head_heavy(), objective, SEQUENCES, LONGEST, 0)
    encoder, inputs = ours(config), padded(examples(batch, objective))
    model = encoder if side == "ours" else reference(config, objective)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)

    def kilobytes(field: str) -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith(field)).split()[1])

    Path("/proc/self/clear_refs").write_text("5")
    before = kilobytes("VmRSS")
    (loss_sum(encoder, batch).mean if side == "ours" else model(**inputs).loss).backward()
    return (kilobytes("VmHWM") - before) * 1024 / 1e6


def on_cpu() -> None:
    """Print ours and the Trainer."""
    torch.set_num_threads(1)
    print(f"{SEQUENCES} sequences of 12 to {LONGEST} tokens, one thread, float32, median of {STEPS} steps")
    print(f"{'':8}{'ours':>12}{'Trainer':>12}{'ratio':>8}")
    for objective in OBJECTIVES:
        memory = {}
        for side in SIDES:
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                memory[side] = pool.apply(peak_megabytes, (side, objective))
        for what, seen in (("tokens/s of CPU time", speeds(objective)), ("peak MB", memory)):
            row = f"{seen['ours']:12,.0f}{seen['Trainer']:12,.0f}{seen['ours'] / seen['Trainer']:8.2f}"
            print(f"{objective:8}{row}  {what}", flush=True)


def on_device(device: str, sizes: Sequence[str], sequences: int, longest: int, steps: int) -> None:
    """Print tokens/s, MFU and peak memory of steps by size, objective and every backend that can run."""
    cuda = device == "cuda"
    shape = f"{sequences} sequences of {TRAINING.min_length} to {longest:,} tokens"
    print(f"{name_of(device)}, torch {torch.__version__}, bf16 autocast, {shape}, {steps} steps")
    print(f"{'size':6}{'objective':>10}{'attention':>10}{'tokens/s':>12}{'MFU':>8}{'peak GB':>9}  blocks")
    place = (torch.device(device), torch.bfloat16, 64)
    backends = [one.name for one in BACKENDS.values() if not one.problem(*place)]
    for size, objective in itertools.product(sizes, OBJECTIVES):
        config = config_for(size)
        batches = [drawn(config, objective, sequences, longest, seed) for seed in range(BATCHES)]
        row = partial(_row, device, config, f"{size:6}{objective:>10}", batches)
        for backend in backends:
            for compiled in (True, False) if cuda else (False,):
                seconds = partial(step_seconds, device, config, backend, batches, steps, compiled=compiled)
                if row(backend, "compiled" if compiled else "not compiled", seconds):
                    break
        row("-", "Trainer", partial(trainer_seconds, device, config, objective, batches, steps))


def name_of(device: str) -> str:
    """Return what torch calls the device."""
    return torch.cuda.get_device_name() if device == "cuda" else "cpu"


def clock(device: str) -> float:
    """Return the time, once the device has done what it was given."""
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def flops_of(config: EncoderConfig, batches: Sequence[ObjectiveBatch]) -> tuple[float, float]:
    """Return the mean number of tokens of a batch, and the model FLOPs of a token."""
    lengths = torch.cat([batch.inputs.cu_seqlens.diff() for batch in batches]).double()
    tokens = float(lengths.sum())
    flops = model_flops_per_token(
        shape_of(config),
        length=float(lengths.square().sum()) / tokens,
        predicted=sum(batch.count for batch in batches) / tokens,
    )
    return tokens / len(batches), flops


def _row(
    device: str,
    config: EncoderConfig,
    label: str,
    batches: Sequence[ObjectiveBatch],
    backend: str,
    how: str,
    measure: Callable[[], float],
) -> bool:
    """Print one row; return whether it could be measured."""
    torch._dynamo.reset()
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    tokens, flops = flops_of(config, batches)
    try:
        speed = tokens / measure()
    except (UserError, RuntimeError, ImportError, torch._dynamo.exc.TorchDynamoException) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        print(f"{label}{backend:>10}  failed, {how}: {reason[:80]}", flush=True)
        return False
    share = mfu(speed, flops, name_of(device))
    shown = "-" if share is None else f"{share:.1%}"
    peak = f"{torch.cuda.max_memory_allocated() / 1e9:.1f}" if device == "cuda" else "-"
    print(f"{label}{backend:>10}{speed:12,.0f}{shown:>8}{peak:>9}  {how}", flush=True)
    return True


def step_seconds(
    device: str,
    config: EncoderConfig,
    backend: str,
    batches: Sequence[ObjectiveBatch],
    steps: int,
    *,
    compiled: bool,
) -> float:
    """Return the mean seconds of one of our training steps."""
    model = ours(config).to(device)
    model.set_attention_backend(backend)
    model.fuse_projections(device == "cuda")
    if compiled:
        model.compile_blocks()
    optimizer, rounds = adamw(model), max(1, steps // len(batches))
    calls = [partial(step, model, optimizer, batch.to(device), bf16=True) for batch in batches]
    for call in calls:
        call()
    start = clock(device)
    for call in calls * rounds:
        call()
    return (clock(device) - start) / (rounds * len(calls))


def trainer_seconds(
    device: str, config: EncoderConfig, objective: str, batches: Sequence[ObjectiveBatch], steps: int
) -> float:
    """Return the mean seconds of one of the Trainer's steps.

    Raises:
        ImportError: the Trainer needs accelerate.
    """
    from tests.speed.trainer import reference, step_times

    cycle = [batches[number % len(batches)] for number in range(len(batches) + steps)]
    model = reference(config, objective).to(device)
    times = step_times(model, cycle, objective, lambda: clock(device), cuda=device == "cuda")
    return sum(times[len(batches) :]) / steps


def main() -> None:
    """Run the comparison."""
    parser = parser_of(__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options = parser.parse_args()
    if options.device == "cpu":
        on_cpu()
    elif torch.cuda.is_available():
        on_device("cuda", list(SHAPES), 12, 2048, steps=24)
    else:
        parser.error("no GPU is at hand; leave out --device cuda to measure on the CPU")


if __name__ == "__main__":
    main()
