"""Speed and memory of pretraining steps.

    python -m tests.performance.pretraining                # CPU: ours next to transformers' Trainer
    python -m tests.performance.pretraining --equal        # the same where the Trainer has nothing to pad
    python -m tests.performance.pretraining --device cuda  # GPU: tokens/s, MFU, memory, their limits, a roofline
    python -m tests.performance.pretraining --sizes tiny   # the GPU's steps, walked through on a CPU

On the CPU (`against_trainer`) both sides are in float32, of a head-heavy shape, as the paper's are once trained at its
vocabulary. On a GPU (`on_device`) every size, objective and attention backend that is there takes the paper's
micro-batch under bf16 autocast. Blocks are compiled; where that fails the row says so and is measured without.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import torch
from cyclopts import Parameter

from common.cli import MANY, call, program, run
from common.errors import UserError
from pretraining.model.attention import AUTO
from pretraining.paper_settings import SHAPES
from tests.performance.on_device import on_device
from tests.performance.pretraining_parts import OBJECTIVES
from tests.performance.roofline import other_heads, print_roofline, roofline


def compare(
    *,
    device: Literal["cpu", "cuda"] = "cpu",
    sequences: int | None = None,
    length: int | None = None,
    steps: int | None = None,
    equal: bool = False,
    sizes: Annotated[tuple[str, ...], MANY, Parameter(choices=(*SHAPES, "tiny"))] = (),
    backends: Annotated[tuple[Literal["varlen", "flash4", "flash", "flex", "sdpa"], ...], MANY] = (),
    threads: int = 1,
    clock: Annotated[str, Parameter(choices=("wall", "cpu"))] = "wall",
    memory_of: Annotated[tuple[str, str] | None, Parameter(show=False)] = None,
) -> int:
    """Run the comparison.

    Args:
        device: where to measure
        sequences: sequences of a batch (8, on a GPU 12)
        length: tokens of the longest (160, on a GPU 2048)
        steps: timed steps (5, on a GPU 24)
        equal: on the CPU, all sequences have the longest's length
        sizes: sizes of the GPU's table (the paper's three)
        backends: attention backends of the GPU's table (all that can run there)
        threads: threads on the CPU
        clock: cpu: the process's own time, for a busy machine
        memory_of: a side and an objective, measured in a process of its own
    """
    cuda = device == "cuda"
    if cuda and not torch.cuda.is_available():
        raise UserError("no GPU is at hand; leave out --device cuda to measure on the CPU")
    if not cuda:
        torch.set_num_threads(threads)
    usual = (12, 2048, 24) if cuda else (8, 160, 5)
    sequences, length, steps = sequences or usual[0], length or usual[1], steps or usual[2]
    if cuda or sizes:
        there = [item.name for item in AUTO.candidates(torch.device(device), torch.bfloat16, 64)]
        chosen, listed = list(backends or there), list(sizes or SHAPES)
        on_device(device, listed, chosen, sequences, length, steps)
        for size in listed:
            for objective in OBJECTIVES:
                print(f"\nwhere a step of {size} {objective} goes ({chosen[0]})")
                print_roofline(
                    device, roofline(device, size, objective, chosen[0], sequences, length, compiled=cuda)
                )
            other_heads(device, size, sequences, length)
        return 0
    from tests.performance.against_trainer import on_cpu, peak_bytes  # it needs accelerate

    if memory_of:
        print(peak_bytes(*memory_of, sequences, length, equal=equal))
    else:
        on_cpu(sequences, length, steps, clock, equal=equal)
    return 0


def main(argv: Sequence[str]) -> int | None:
    """Run the command line; without words, on the CPU."""
    app = program("python -m tests.performance.pretraining", "", {}, default=compare)
    return call(app, argv or ["--device", "cpu"])


if __name__ == "__main__":
    run(main)
