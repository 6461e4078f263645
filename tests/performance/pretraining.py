"""Speed and memory of pretraining steps.

    python -m tests.performance.pretraining                # CPU: ours next to transformers' Trainer
    python -m tests.performance.pretraining --equal        # the same where the Trainer has nothing to pad
    python -m tests.performance.pretraining --device cuda  # GPU: tokens/s, MFU and memory
    python -m tests.performance.pretraining --sizes tiny   # the GPU's steps, walked through on a CPU

On the CPU both sides are in float32 on one thread, of a head-heavy shape, as the paper's are once trained at its
vocabulary; speeds are medians by the process's own time, memory is the growth of the resident set over one forward and
backward pass in a process of its own, gradients allocated before. On a GPU every size, objective and attention backend
that is there takes the paper's micro-batch under bf16 autocast (`on_device`).
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from itertools import pairwise
from pathlib import Path

import torch

from pretraining.model.attention import AUTO
from pretraining.paper_settings import SHAPES
from pretraining.training.objectives import ObjectiveBatch, loss_sum
from tests.performance.on_device import on_device
from tests.performance.parts import OBJECTIVES, adamw, drawn, head_heavy, ours, packed, prepared, step

SEQUENCES, LONGEST, STEPS = 8, 160, 5
SIDES = ("ours", "Trainer")


def batches(objective: str, count: int, *, equal: bool) -> list[ObjectiveBatch]:
    """Return batches of uniformly random lengths, or all of the longest."""
    config = head_heavy()
    if equal:
        return [
            prepared(config, packed(config, [LONGEST] * SEQUENCES, seed), objective) for seed in range(count)
        ]
    return [drawn(config, objective, SEQUENCES, LONGEST, seed) for seed in range(count)]


def speeds(objective: str, *, equal: bool) -> dict[str, float]:
    """Return tokens a second of both sides, without padding."""
    from tests.performance.trainer import examples, padded, reference, step_times  # it needs accelerate

    given = batches(objective, STEPS + 1, equal=equal)
    model, theirs = ours(head_heavy()), reference(head_heavy(), objective)
    with torch.no_grad():
        losses = [
            float(loss_sum(model, given[0]).mean),
            float(theirs(**padded(examples(given[0], objective))).loss),
        ]
    assert abs(losses[0] - losses[1]) < 1e-4, f"the two sides compute different losses: {losses}"
    optimizer, times = adamw(model), [time.process_time()]
    for batch in given:
        step(model, optimizer, batch, bf16=False)
        times.append(time.process_time())
    mine = [after - before for before, after in pairwise(times)]
    found = zip(
        SIDES, (mine, step_times(theirs, given, objective, time.process_time, cuda=False)), strict=True
    )
    tokens = [batch.inputs.num_tokens for batch in given]
    # The first step allocates.
    return {
        side: statistics.median(count / second for count, second in zip(tokens[1:], seconds[1:], strict=True))
        for side, seconds in found
    }


def peak_bytes(side: str, objective: str, equal: bool) -> int:
    """Return the growth of this process's resident set over one forward and backward pass (Linux)."""
    from tests.performance.trainer import examples, padded, reference

    torch.set_num_threads(1)
    config, batch = head_heavy(), batches(objective, 1, equal=equal)[0]
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
    return 1024 * (kilobytes("VmHWM") - before)


def on_cpu(*, equal: bool) -> None:
    """Print ours and the Trainer."""
    lengths = f"{LONGEST}" if equal else f"12 to {LONGEST}"
    print(f"{SEQUENCES} sequences of {lengths} tokens, one thread, float32, median of {STEPS} steps")
    print(f"{'':8}{'ours':>12}{'Trainer':>12}{'ratio':>8}")
    fresh = multiprocessing.get_context("spawn")
    for objective in OBJECTIVES:
        memory = {}
        for side in SIDES:
            with fresh.Pool(1) as pool:
                memory[side] = pool.apply(peak_bytes, (side, objective, equal)) / 1e6
        for what, seen in (("tokens/s of CPU time", speeds(objective, equal=equal)), ("peak MB", memory)):
            ratio = seen["ours"] / seen["Trainer"]
            print(
                f"{objective:8}{seen['ours']:12,.0f}{seen['Trainer']:12,.0f}{ratio:8.2f}  {what}", flush=True
            )


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument(
        "--equal", action="store_true", help="on the CPU, all sequences have the longest's length"
    )
    parser.add_argument(
        "--sizes", nargs="+", choices=(*SHAPES, "tiny"), help="of the GPU's table (the paper's)"
    )
    parser.add_argument("--backends", nargs="+", help="attention backends of the table (all that can run)")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("no GPU is at hand; leave out --device cuda to measure on the CPU")
    if options.device == "cpu":
        torch.set_num_threads(1)
    if options.device == "cpu" and not options.sizes:
        on_cpu(equal=options.equal)
        return
    there = [one.name for one in AUTO.candidates(torch.device(options.device), torch.bfloat16, 64)]
    on_device(options.device, options.sizes or list(SHAPES), options.backends or there)


if __name__ == "__main__":
    main()
