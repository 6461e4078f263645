"""How original files become the local form: one module a kind of file.

Each module has `SOURCES`, which maps a dataset's name to its `Source`; the dataset's entry in
`benchmarks.protocol` names the module. docs/add-a-dataset.md shows how to write one.
"""

from __future__ import annotations

import importlib

from benchmarks.datasets.readers.reader import Inputs, Source
from benchmarks.protocol import Dataset

__all__ = ["Inputs", "Source", "source_of"]


def source_of(dataset: Dataset) -> Source:
    """Return how `dataset` is made from its original files."""
    sources: dict[str, Source] = importlib.import_module(
        f"benchmarks.datasets.readers.{dataset.source}"
    ).SOURCES
    return sources[dataset.name]
