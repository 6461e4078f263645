"""Sequence classification: a text or a pair of texts with a class, several labels, or a number; GLUE's three sets.

GLUE's are read from the hub's Parquet, the official TSV, or `{index: {text_a, text_b, label}}` JSON.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.datasets.local_dataset import DatasetContent
from benchmarks.datasets.readers.original_files import (
    BadRowError,
    MissingValueError,
    document_of,
    is_missing,
    pick,
    row_at,
    rows_of_file,
    words_of,
)
from benchmarks.datasets.readers.reader import ReaderInputs, with_splits
from benchmarks.datasets.schema import DOCUMENT, Row
from benchmarks.protocol import Dataset
from common.errors import UserError, nearest

_WHOLE = re.compile(r"-?[0-9]{1,15}\.0")


@dataclass(kw_only=True)
class Labels:
    """The labels of one file: names or numbers, never both."""

    names: Sequence[str]
    """The dataset's labels by id."""
    declared: Mapping[str, str] = field(default_factory=dict)
    """The names that the file itself gives its numbers."""
    kinds: set[str] = field(default_factory=set)
    """Which of `names` and `numbers` the values were that have been read."""
    has_numbers: bool = False
    """Whether a value was a number that the file does not name."""
    seen: set[int] = field(default_factory=set)
    """Ids that have been read."""

    def id_of(self, value: Any) -> int:
        """Return the id of a label's name, or of a number.

        A number counts in `declared`; else from 0 in `names`, unless these have numbers among them: then it is a name.
        1.0 is 1, as pandas writes it where a column has a missing value.

        Raises:
            BadRowError: it is neither, or names and numbers are in one file.
        """
        kind = "names"
        text = str(value).strip()
        if text not in self.names:
            # Python and pandas write True and False where JSON has true and false.
            text = text.lower() if text in ("True", "False") else _whole(text)
        is_number = text.isdecimal() and not self.declared
        self.has_numbers |= is_number
        if text in self.declared:
            value = text = self.declared[text]
        elif is_number and not any(name.isdecimal() for name in self.names):
            kind = "numbers"
            # "01" is no label's number. Nine digits are enough: Python refuses to convert thousands.
            if text == str(int(text[:9])) and int(text) < len(self.names):
                text = self.names[int(text)]
        if text not in self.names:
            hint = (
                "; numbers count from 0"
                if kind == "numbers"
                else nearest(text, self.names)
            )
            if text in ("true", "false"):
                hint = '; set labels = ["false", "true"]'
            raise BadRowError(
                f"{value!r:.80} is not in the label set {', '.join(self.names):.100}{hint}"
            )
        if self.kinds - {kind}:
            other_kind = min(self.kinds)
            raise BadRowError(
                f"the labels mix {other_kind} with {kind} such as {value!r}; use names only"
            )
        self.kinds.add(kind)
        self.seen.add(self.names.index(text))
        return self.names.index(text)


def read(inputs: ReaderInputs) -> DatasetContent:
    """Read texts or pairs with what the dataset's form says of them.

    Raises:
        UserError: the numbers of own files do not count from 0, or are 0 and 1 for each label.
    """
    dataset = inputs.dataset
    # `text_rows` adds the labels of each file: only all files together say what numbers mean.
    labels_of_files: list[Labels] = []
    content = with_splits(inputs, lambda path: text_rows(path, inputs, labels_of_files))
    if dataset.is_own:
        fault = _doubt(dataset, labels_of_files, content)
        if fault:
            raise UserError(f"{dataset.name}: {fault}")
    return content


def _doubt(
    dataset: Dataset, labels_of_files: Sequence[Labels], content: DatasetContent
) -> str:
    """Return why numbers among the labels may mean something else; empty where they cannot."""
    names = dataset.label_names
    seen: set[int] = set()
    kinds: set[str] = set()
    for labels in labels_of_files:
        kinds |= labels.kinds
        if not labels.declared:
            seen |= labels.seen
    if "numbers" in kinds:
        if 0 not in seen:
            return (
                f"labels are numbers, but none is 0, the number of {names[0]}; if they count from 1, write the "
                "labels' names instead"
            )
        if dataset.form != "SC-labels":
            return ""
        counts = {len(row["labels"]) for row in content.tables["train"].to_pylist()}
        if counts == {len(names)}:
            return (
                "every example has as many numbers as there are labels, as if 0 and 1 marked absent and present; "
                "list only the names or numbers of the labels that an example has"
            )
        return ""
    are_all_used = len(seen) == len(names)
    if are_all_used or not all(names[number].isdecimal() for number in seen):
        return ""
    # Some names are numbers, and not all are used: a number may be a name, or count the names.
    written = {int(names[number]): number for number in seen}
    for base in (0, 1):
        meant = {value: value - base for value in written}
        are_numbers = all(0 <= number < len(names) for number in meant.values())
        if meant != written and are_numbers:
            used = ", ".join(map(str, sorted(written)))
            return (
                f"of the labels {', '.join(names)} the files have only {used}, which may be numbered from {base}; "
                "remove labels without examples from `labels`"
            )
    return ""


def text_rows(
    path: Path, inputs: ReaderInputs, labels_of_files: list[Labels]
) -> list[Row]:
    """Return the rows of a file with the columns of the local form, and add its labels to `labels_of_files`."""
    dataset = inputs.dataset
    columns = dataset.files.columns
    name, value_of = _TARGETS[dataset.form]
    # SC-value always has columns for a second text, but the value may describe a single text.
    may_lack_second = "second" not in columns or dataset.form == "SC-value"
    declared = inputs.declared_names(path, columns[name][0])
    labels = Labels(
        names=dataset.label_names,
        declared={str(number): label for number, label in enumerate(declared)},
    )
    rows, unlabelled = [], list[str]()
    for where, row in rows_of_file(path, dataset.files, inputs.note):
        with row_at(where):
            first = words_of(row, columns["text"])
            second = None
            seconds = [row.get(column) for column in columns.get("second", ())]
            if not may_lack_second or not all(map(is_missing, seconds)):
                second = words_of(row, columns["second"])
            label = _label(row, columns[name], dataset)
            if label is None:
                unlabelled.append(where)
                continue
            value = value_of(dataset, label, labels)
            document = document_of(row, columns.get(DOCUMENT, ()))
            rows.append({"first": first, "second": second, name: value, **document})
    labels_of_files.append(labels)
    if labels.has_numbers:
        inputs.numbered.append(path)
    if unlabelled:
        inputs.note(
            f"{path.name}: rows without a label left out: {len(unlabelled):,} (first: {unlabelled[0]})"
        )
        if not rows:
            raise UserError(f"{path}: no row has a label; leave the file out")
    return rows


def _whole(text: str) -> str:
    """Return `1` for `1.0`, and any other text as it is."""
    return text.removesuffix(".0") if _WHOLE.fullmatch(text) else text


def _label(row: Row, names: Sequence[str], dataset: Dataset) -> Any:
    """Return a row's value in the label's column; None if the definition leaves out rows with that value."""
    try:
        value = pick(row, names)
    except MissingValueError:
        value = None
    written = "" if value is None else str(value).strip()
    if {written, _whole(written)} & set(dataset.files.leave_out):
        return None
    is_unlabelled = _whole(written) in _UNLABELLED[dataset.form]
    if value is None or (is_unlabelled and written not in dataset.label_names):
        what = f"the value of {names[0]} is missing"
        if written:
            what = f"{names[0]} is {written}"
        remedy = "leave out unlabelled test files such as GLUE's"
        if dataset.is_own:
            remedy = f'set leave_out = ["{_whole(written)}"] in {dataset.files.where}, which leaves such rows out'
        raise BadRowError(f"the example has no label, {what}; {remedy}")
    return value


_UNLABELLED: dict[str, tuple[str, ...]] = {
    "SC": ("", "-1", "-"),
    "SC-labels": (),
    "SC-value": ("",),
}
"""What stands in place of a label in a row without one, by form."""


def _labels(dataset: Dataset, value: Any, labels: Labels) -> list[int]:
    """Return the ids of a list of labels, or of names between commas, in ascending order."""
    parts = value
    if isinstance(value, str):
        parts = [part.strip() for part in value.split(",") if part.strip()]
    if not isinstance(parts, list):
        raise BadRowError(
            f"{value!r:.80} is neither a list of labels nor comma-separated names"
        )
    ids = [labels.id_of(part) for part in parts]
    if len(set(ids)) < len(ids):
        raise BadRowError(
            f"a label occurs twice in {value!r}; name each of the example's labels once"
        )
    return sorted(ids)


def _number(dataset: Dataset, value: Any, labels: Labels) -> float:
    """Return a value as a number in the dataset's range; `labels` is unused, all targets have one signature."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise BadRowError(f"{value!r} is not a number") from None
    # A definition without a range has been refused before.
    assert dataset.value_range is not None
    low, high = dataset.value_range
    if not low <= number <= high:
        raise BadRowError(
            f"the value {number:g} is outside the range {low:g} to {high:g}"
        )
    return number


_TARGETS: dict[str, tuple[str, Callable[[Dataset, Any, Labels], Any]]] = {
    "SC": ("label", lambda _, value, labels: labels.id_of(value)),
    "SC-labels": ("labels", _labels),
    "SC-value": ("value", _number),
}
"""For each form the field next to the texts, and what makes it of a row's value and the labels of its file."""
