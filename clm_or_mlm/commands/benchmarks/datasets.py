"""`python -m benchmarks datasets list|show|verify`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

from benchmarks.datasets.listing import list_text, show_text, verify_all
from clm_or_mlm.commands.benchmarks.options import DATA
from common.cli import program

__all__ = ["DATASETS", "list_", "show", "verify"]


def list_(*, data: Path = DATA) -> None:
    """Print the twelve datasets, their counts and licences.

    Args:
        data: folder of the datasets
    """
    sys.stdout.write(list_text(data) + "\n")


def show(
    dataset: str,
    /,
    *,
    data: Path = DATA,
    split: Literal["train", "validation", "test"] = "validation",
    examples: int = 3,
) -> None:
    """Print a dataset's schema, counts, source and three examples as the model sees them.

    Args:
        dataset: name of the dataset
        data: folder of the datasets
        split: where the examples come from
        examples: how many examples
    """
    sys.stdout.write(show_text(data, dataset, split=split, count=examples) + "\n")


def verify(*datasets: str, data: Path = DATA) -> int:
    """Check every file and every row against the manifest's hashes; the exit code is 1 when something is damaged.

    Args:
        datasets: which to check (default: all that are there)
        data: folder of the datasets
    """
    faulty = 0
    for name, faults in verify_all(data, datasets):
        faulty += bool(faults)
        sys.stdout.write(f"{name}: {'; '.join(faults) or 'whole'}\n")
    return 1 if faulty else 0


DATASETS = program(
    "datasets",
    "Look at the datasets in data/.",
    {
        "list": (f"{__name__}:list_", "the twelve datasets, their counts and licences"),
        "show": (f"{__name__}:show", "schema, counts, source and three examples as the model sees them"),
        "verify": (f"{__name__}:verify", "check every file and every row against the manifest's hashes"),
    },
)
