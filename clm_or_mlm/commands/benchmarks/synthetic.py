"""`python -m benchmarks synthetic`."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.datasets.synthetic import make_synthetic
from benchmarks.protocol import DATASETS

__all__ = ["synthetic"]


def synthetic(
    *datasets: str, out: Path, train: int = 512, evaluation: int = 96, seed: int = 0, replace: bool = False
) -> None:
    """Write small made-up datasets in the local form, for smoke tests without data or network.

    Args:
        datasets: which of the twelve (default: all)
        out: folder of the datasets; keep it apart from data/
        train: training examples
        evaluation: validation, and test, examples
        seed: seed of the grammars
        replace: put them in place of other versions
    """
    for name in datasets or DATASETS:
        manifest = make_synthetic(out, name, train=train, evaluation=evaluation, seed=seed, replace=replace)
        counts = ", ".join(f"{count:,} {split}" for split, count in manifest.counts.items())
        sys.stdout.write(f"{out / name}: {counts}, made up\n")
