"""`python -m benchmarks validate`."""

from __future__ import annotations

import sys

from benchmarks.sweep.validate import validate as check
from clm_or_mlm.commands.benchmarks.options import RunOptions

__all__ = ["validate"]


def validate(*, options: RunOptions, tflops: float | None = None) -> None:
    """Check model, data and settings of a run without using a GPU; estimate its time and memory.

    Tokens are counted on a sample of each split. Times are matrix-product FLOPs at a sustained rate
    (--tflops; 100 by default on a GPU, measured on a CPU), so expect a factor of two.

    Args:
        tflops: sustained TFLOP/s of the device that will do it
    """
    for line in check(options.request(), tflops):
        sys.stdout.write(line + "\n")
