"""How original files become the local form: a function for each form, and some of their own."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.datasets.local_dataset import Content
from benchmarks.datasets.readers import beir, ner, squad, texts
from benchmarks.datasets.readers.reader import Inputs

__all__ = ["READERS", "read_originals"]

READERS: dict[str, Callable[[Inputs], Content]] = {
    "SC": texts.read,
    "SC-labels": texts.read,
    "SC-value": texts.read,
    "TC": ner.read,
    "QA": squad.read,
    "IR": beir.read,
    "record": squad.read_record,
    "msmarco": beir.read_msmarco,
    "mldr": beir.read_mldr,
}
"""What makes a dataset of its files, by `Dataset.reader`."""


def read_originals(inputs: Inputs) -> Content:
    """Return a dataset in the local form; `UserError` for files that are missing or bad."""
    return READERS[inputs.dataset.reader](inputs)
