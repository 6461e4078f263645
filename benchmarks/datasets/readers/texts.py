"""Sequence classification: a text or a pair of texts with a class, several labels, or a number; GLUE's three sets.

GLUE's are read from the hub's Parquet, the official TSV, or `{index: {text_a, text_b, label}}` JSON.

A label in a file is a name, or a number: its place in the dataset's list of labels, counted from 0. The names in the
list may themselves look like numbers, such as "1" to "5" stars, so that a number may mean either.
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
"""A whole number as pandas writes it in a column with a missing value: `1.0`, `-1.0`."""


@dataclass(kw_only=True)
class Labels:
    """The labels of one file: names or numbers, never both. `id_of` reads them one by one and records what it saw."""

    names: Sequence[str]
    """The dataset's labels by id."""
    declared: Mapping[str, str] = field(default_factory=dict)
    """By number, as a text: the name that the file itself gives it; empty if the file names no numbers."""
    kinds: set[str] = field(default_factory=set)
    """How the labels read so far were understood: `names` or `numbers`; empty before the first one."""
    has_numbers: bool = False
    """Whether a label read so far was written as a number that the file does not name."""
    seen: set[int] = field(default_factory=set)
    """The ids of the labels read so far."""

    def id_of(self, value: Any) -> int:
        """Return the id of the label that a row's value means: its place in `names`.

        A number that the file names in `declared` means that name. Any other number counts from 0 in `names`, unless
        some of the names are themselves numbers: then it is a name. 1.0 is read as 1.

        Raises:
            BadRowError: the value is no label, or the file has names as well as numbers.
        """
        # How the value is understood: as a name, unless it is a number that counts the names.
        kind = "names"
        text = str(value).strip()
        if text not in self.names:
            # Python and pandas write True and False where JSON has true and false.
            text = text.lower() if text in ("True", "False") else _whole(text)

        # A number that the file itself does not name.
        is_number = text.isdecimal() and not self.declared
        # This also counts a number that is a name here, as "5" stars: another file may have its numbers in another
        # order. When all files are read, `ReaderInputs.check_numbers` compares this file with those that name
        # their numbers.
        self.has_numbers |= is_number

        # The file's own name for a number is a name like any other, so the kind stays.
        if text in self.declared:
            text = self.declared[text]
            # For the refusal below, which names the label rather than its number.
            value = text
        elif is_number and not any(name.isdecimal() for name in self.names):
            kind = "numbers"
            # A number counts as it is usually written, so "01" does not. Only nine digits are converted, since Python
            # refuses to convert thousands of them: a longer number then differs from its text.
            if text == str(int(text[:9])) and int(text) < len(self.names):
                text = self.names[int(text)]

        if text not in self.names:
            hint = nearest(text, self.names)
            if kind == "numbers":
                hint = "; numbers count from 0"
            if text in ("true", "false"):
                hint = '; set labels = ["false", "true"]'
            raise BadRowError(
                f"{value!r:.80} is not in the label set {', '.join(self.names):.100}{hint}"
            )

        if self.kinds - {kind}:
            # A second kind is never added, so there is only one.
            (other_kind,) = self.kinds
            raise BadRowError(
                f"the labels mix {other_kind} with {kind} such as {value!r}; use names only"
            )

        self.kinds.add(kind)
        self.seen.add(self.names.index(text))
        return self.names.index(text)


def read(inputs: ReaderInputs) -> DatasetContent:
    """Read texts or pairs of texts, each with a class, several labels or a number, as the dataset's form says.

    Raises:
        UserError: numbers in files of one's own may not mean what they would be read as, see `_doubt`.
    """
    dataset = inputs.dataset
    # `text_rows` adds the labels of each file. What numbers mean is judged by all files together, at the end.
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
    """Return in a sentence why numbers as labels may mean something else than was read; empty if they cannot.

    They may count from 1; or be a 0 or 1 for each label, absent or present; or count labels whose names are numbers.
    """
    names = dataset.label_names
    # The ids of labels in all files that do not name their numbers themselves; in the others there is no doubt.
    seen_ids: set[int] = set()
    kinds: set[str] = set()
    for labels in labels_of_files:
        kinds |= labels.kinds
        if not labels.declared:
            seen_ids |= labels.seen

    # Numbers were read as counted from 0. If they count from 1, none of them is 0.
    if "numbers" in kinds:
        if 0 not in seen_ids:
            return (
                f"labels are numbers, but none is 0, the number of {names[0]}; if they count from 1, write the "
                "labels' names instead"
            )

        # Only a list of numbers could be a 0 or 1 for each label.
        if dataset.form != "SC-labels":
            return ""

        # How many labels the examples have: always all of them would be odd.
        counts = {len(row["labels"]) for row in content.tables["train"].to_pylist()}
        if counts == {len(names)}:
            return (
                "every example has as many numbers as there are labels, as if 0 and 1 marked absent and present; "
                "list only the names or numbers of the labels that an example has"
            )

        return ""

    # All were read as names. There is no doubt if every label occurs, or if one that occurs is no number.
    are_all_used = len(seen_ids) == len(names)
    if are_all_used or not all(names[label_id].isdecimal() for label_id in seen_ids):
        return ""

    # All labels in the files look like numbers, and some labels of the definition are not used. So a number in the
    # files may be a label's name, as it was read, but it may also count the labels from 0 or from 1.
    # For each number in the files, the id that was read.
    read_ids = {int(names[label_id]): label_id for label_id in seen_ids}
    for base in (0, 1):
        # For each number in the files, the id that is meant if labels are counted from `base`.
        counted_ids = {number: number - base for number in read_ids}
        are_ids = all(0 <= label_id < len(names) for label_id in counted_ids.values())
        # Counted so, each number is the id of some label, and at least one is another id than was read.
        if counted_ids != read_ids and are_ids:
            numbers = ", ".join(map(str, sorted(read_ids)))
            return (
                f"of the labels {', '.join(names)} the files have only {numbers}, which may be numbered from {base}; "
                "remove labels without examples from `labels`"
            )

    return ""


def text_rows(
    path: Path, inputs: ReaderInputs, labels_of_files: list[Labels]
) -> list[Row]:
    """Return the rows of a file with the columns of the local form, and add its labels to `labels_of_files`.

    Rows with a value in place of a label that the definition's `leave_out` lists are left out; a note says how many.
    """
    dataset = inputs.dataset
    columns = dataset.files.columns
    # The target is what a model learns: a column of the local form (label, labels or value), and how it is read.
    name, value_of = _TARGETS[dataset.form]

    # SC-value always has columns for a second text, but the value may describe a single text. In a dataset of
    # pairs a missing second text is an error.
    may_lack_second = "second" not in columns or dataset.form == "SC-value"

    # Empty unless the file names the numbers of its labels, in the schema of Parquet or Arrow. If the
    # column may have several names, the first one is asked for. The call also keeps the labels' names for
    # `check_numbers`.
    declared = inputs.declared_names(path, columns[name][0])
    labels = Labels(
        names=dataset.label_names,
        declared={str(number): label for number, label in enumerate(declared)},
    )
    rows: list[Row] = []

    # The places of the rows that are left out.
    unlabelled: list[str] = []
    for where, row in rows_of_file(path, dataset.files, inputs.note):
        with row_at(where):
            first = words_of(row, columns["text"])
            second = None
            seconds = [row.get(column) for column in columns.get("second", ())]
            has_second = not all(map(is_missing, seconds))

            # Without a second text, `words_of` raises the error.
            if has_second or not may_lack_second:
                second = words_of(row, columns["second"])
            written = _label(row, columns[name], dataset)
            if written is None:
                unlabelled.append(where)
                continue

            value = value_of(dataset, written, labels)
            document = document_of(row, columns.get(DOCUMENT, ()))
            rows.append({"first": first, "second": second, name: value, **document})

    labels_of_files.append(labels)
    # When all files are read, `check_numbers` refuses this file if another one numbers its labels otherwise.
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
    """Return a row's value in the label's column; None if the definition leaves out rows with that value.

    Args:
        row: a row of an original file.
        names: the columns that may have the label; the first one with a value counts.
        dataset: says which values mean that a row has no label.

    Raises:
        BadRowError: the row has no label, and the definition does not leave such rows out.
    """
    try:
        value = pick(row, names)
    except MissingValueError:
        value = None

    written = "" if value is None else str(value).strip()
    # The file may have -1.0 where `leave_out` has -1.
    if {written, _whole(written)} & set(dataset.files.leave_out):
        return None

    # A -1 may also be the name of a label.
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
"""By form, what stands in place of a label in a row without one: GLUE's test files have -1, SNLI has -."""


def _labels(dataset: Dataset, value: Any, labels: Labels) -> list[int]:
    """Return the ids, ascending, of a value that is a list of labels, or a text with commas between them.

    `dataset` is not used: the functions of `_TARGETS` all have the same parameters.
    """
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
    """Return a value as a number in the dataset's range.

    `labels` is not used: the functions of `_TARGETS` all have the same parameters.
    """
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
"""By form: the column of the local form with the target, and a function that makes its value.

The function gets the dataset, the value as it is written, and the labels of the file.
"""
