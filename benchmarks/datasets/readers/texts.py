"""Sequence classification: a text or a pair of texts with a class, several labels, or a number; GLUE's three sets.

GLUE's are read from the hub's Parquet, the official TSV, or `{index: {text_a, text_b, label}}` JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.dataset import Dataset
from benchmarks.datasets.local_dataset import Content
from benchmarks.datasets.readers.original_files import (
    BadRowError,
    Reading,
    Row,
    class_names,
    document_of,
    pick,
    records,
)
from benchmarks.datasets.readers.reader import Inputs, with_splits
from benchmarks.datasets.schema import DOCUMENT
from common.errors import nearest

__all__ = ["read", "text_rows"]


def read(inputs: Inputs) -> Content:
    """Read texts or pairs with what the dataset's form says of them."""
    return with_splits(inputs, lambda path: text_rows(path, inputs.reading, inputs.dataset))


def text_rows(path: Path, reading: Reading, dataset: Dataset) -> list[Row]:
    """Return the rows of a file with the columns of the local form; `reading` is given the bad ones."""
    columns, (name, target) = dataset.columns, _TARGETS[dataset.form]
    may_lack = "second" not in columns or dataset.form == "SC-value"
    declared = class_names(path, columns[name][0])
    found = []
    for where, row in records(path, reading):
        with reading.row(where):
            first, second = str(pick(row, columns["text"])), None
            if not may_lack or any(row.get(column) is not None for column in columns.get("second", ())):
                second = str(pick(row, columns["second"]))
            value = target(dataset, pick(row, columns[name]), declared)
            document = document_of(row, columns.get(DOCUMENT, ()))
            found.append({"first": first, "second": second, name: value, **document})
    return found


def _label(dataset: Dataset, value: Any, declared: Sequence[str]) -> int:
    """Return the id of a label's name, or of a number that counts in `declared`, else in the dataset's labels."""
    labels = dataset.label_names
    text, names = str(value).strip(), declared or labels
    if text not in labels and text.isdecimal() and len(text) < 10 and int(text) < len(names):
        text = names[int(text)]
    if text in labels:
        return labels.index(text)
    if text == "-1":
        raise BadRowError("the example has no label; unlabelled test files such as GLUE's are left out")
    raise BadRowError(f"{value!r} is outside the label set {', '.join(labels)}{nearest(text, labels)}")


def _labels(dataset: Dataset, value: Any, declared: Sequence[str]) -> list[int]:
    """Return the ids of a list of labels, or of names between commas, in ascending order."""
    parts = [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value
    ids = [_label(dataset, part, declared) for part in parts]
    if len(set(ids)) < len(ids):
        raise BadRowError(f"a label occurs twice in {value!r}")
    return sorted(ids)


def _number(dataset: Dataset, value: Any, declared: Sequence[str]) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise BadRowError(f"{value!r} is no number") from None
    low, high = dataset.value_range or (0, 0)
    if not low <= number <= high:
        raise BadRowError(f"the value {number:g} is outside the range {low:g} to {high:g}")
    return number


_TARGETS: dict[str, tuple[str, Callable[[Dataset, Any, Sequence[str]], Any]]] = {
    "SC": ("label", _label),
    "SC-labels": ("labels", _labels),
    "SC-value": ("value", _number),
}
"""For each form the field next to the texts, and what makes it of a row's value and the names that a file declares."""
