"""Sequence classification: a text or a pair of texts with a class, several labels, or a number; GLUE's three sets.

GLUE's are read from the hub's Parquet, the official TSV, or `{index: {text_a, text_b, label}}` JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.datasets.local_dataset import Content
from benchmarks.datasets.readers.original_files import BadRowError, Reading, Row, class_names, pick, records
from benchmarks.datasets.readers.reader import READERS, DatasetReader, Inputs, carved_or_given
from common.errors import nearest

__all__ = ["label_id", "label_ids", "number_in", "text_rows"]

Columns = Mapping[str, Sequence[str]]
"""Names of the columns by field."""
Target = Callable[[Any, Sequence[str]], Any]
"""Turns the value of a row into what the local form has, given the class names that the file declares."""


def text_rows(
    path: Path, reading: Reading, columns: Columns, name: str, target: Target, *, optional: Sequence[str] = ()
) -> list[Row]:
    """Return the rows of a file with the columns of the local form.

    Args:
        path: the file.
        reading: is given the bad rows.
        columns: of `text`, perhaps of `second`, and of the field `name`.
        name: the field with the class, the labels or the number.
        target: makes the local form's value of it.
        optional: fields that a row may lack.
    """
    declared = class_names(path, columns[name][0])
    found = []
    for where, row in records(path, reading):
        with reading.row(where):
            first, second = str(pick(row, columns["text"])), None
            if "second" in columns:
                there = any(row.get(column) is not None for column in columns["second"])
                second = str(pick(row, columns["second"])) if there or "second" not in optional else None
            found.append({"first": first, "second": second, name: target(pick(row, columns[name]), declared)})
    return found


def label_id(labels: Sequence[str], value: Any, declared: Sequence[str] = ()) -> int:
    """Return the id in `labels` of a name, or of a number that counts in `declared`, else in `labels`.

    Raises:
        BadRowError: it is no label.
    """
    text, names = str(value).strip(), declared or labels
    if text not in labels and text.isdecimal() and len(text) < 10 and int(text) < len(names):
        text = names[int(text)]
    if text in labels:
        return labels.index(text)
    if text == "-1":
        raise BadRowError("the example has no label; unlabelled test files such as GLUE's are left out")
    raise BadRowError(f"{value!r} is outside the label set {', '.join(labels)}{nearest(text, labels)}")


def label_ids(labels: Sequence[str], value: Any, declared: Sequence[str] = ()) -> list[int]:
    """Return the ids of a list of labels, or of names between commas, in ascending order."""
    parts = [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value
    ids = [label_id(labels, part, declared) for part in parts]
    if len(set(ids)) < len(ids):
        raise BadRowError(f"a label occurs twice in {value!r}")
    return sorted(ids)


def number_in(limits: tuple[float, float], value: Any, declared: Sequence[str] = ()) -> float:
    """Return a number between two limits; `BadRowError` for another one, or none."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise BadRowError(f"{value!r} is no number") from None
    low, high = limits
    if not low <= number <= high:
        raise BadRowError(f"the value {number:g} is outside the range {low:g} to {high:g}")
    return number


def _read(columns: Columns, labels: tuple[str, ...], inputs: Inputs) -> Content:
    target = partial(label_id, labels)
    return carved_or_given(
        inputs, lambda path, role: text_rows(path, inputs.reading, columns, "label", target), labels
    )


_GLUE = "Wang et al. 2019, GLUE: A Multi-Task Benchmark and Analysis Platform for NLU (ICLR)"
_SST2 = ("negative", "positive")
_MNLI = ("entailment", "neutral", "contradiction")
_QQP = ("not_duplicate", "duplicate")

READERS.register(
    DatasetReader(
        name="sst2",
        read=partial(_read, {"text": ("sentence", "text", "text_a"), "label": ("label",)}, _SST2),
        licence="not stated; research use",
        citation=f"Socher et al. 2013, Recursive Deep Models for Semantic Compositionality (EMNLP); {_GLUE}",
        files="train.tsv and dev.tsv of GLUE's SST-2",
        counts={"train": 63_981, "validation": 3_368, "test": 872},
        labels=_SST2,
    )
)
_MNLI_COLUMNS = {
    "text": ("premise", "sentence1", "text_a"),
    "second": ("hypothesis", "sentence2", "text_b"),
    "label": ("label", "gold_label"),
}
READERS.register(
    DatasetReader(
        name="mnli_m",
        read=partial(_read, _MNLI_COLUMNS, _MNLI),
        licence="OANC terms for most of it, CC BY 3.0, CC BY-SA 3.0 and others for the rest",
        citation=f"Williams et al. 2018, A Broad-Coverage Challenge Corpus for Sentence Understanding (NAACL); {_GLUE}",
        files="train.tsv and dev_matched.tsv of GLUE's MNLI",
        counts={"train": 373_066, "validation": 19_636, "test": 9_815},
        labels=_MNLI,
        unwanted={"mismatched": "MNLI's mismatched part; the paper uses the matched one, leave it out"},
    )
)
_QQP_COLUMNS = {
    "text": ("question1", "text_a"),
    "second": ("question2", "text_b"),
    "label": ("label", "is_duplicate"),
}
READERS.register(
    DatasetReader(
        name="qqp",
        read=partial(_read, _QQP_COLUMNS, _QQP),
        licence="Quora's terms of service, non-commercial; not to be passed on",
        citation=f"Iyer et al. 2017, First Quora Dataset Release: Question Pairs; {_GLUE}",
        files="train.tsv and dev.tsv of GLUE's QQP",
        counts={"train": 345_653, "validation": 18_193, "test": 40_430},
        labels=_QQP,
    )
)
