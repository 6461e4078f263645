"""GLUE's SST-2, MNLI and QQP: the hub's Parquet, the official TSV, or `{index: {text_a, text_b, label}}` JSON."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.datasets.local_dataset import Content
from benchmarks.datasets.readers.original_files import Reading, Row, class_names, pick, records
from benchmarks.datasets.readers.reader import READERS, DatasetReader, Inputs, carved_or_given
from common.errors import nearest

_GLUE = "Wang et al. 2019, GLUE: A Multi-Task Benchmark and Analysis Platform for NLU (ICLR)"


@dataclass(frozen=True, kw_only=True)
class _Columns:
    """Where a dataset's fields are, under the names of each of its distributions."""

    first: tuple[str, ...]
    second: tuple[str, ...] = ()
    label: tuple[str, ...] = ("label",)
    labels: tuple[str, ...]
    """Class names by id, in the hub's order."""


_SST2 = _Columns(first=("sentence", "text", "text_a"), labels=("negative", "positive"))
_MNLI = _Columns(
    first=("premise", "sentence1", "text_a"),
    second=("hypothesis", "sentence2", "text_b"),
    label=("label", "gold_label"),
    labels=("entailment", "neutral", "contradiction"),
)
_QQP = _Columns(
    first=("question1", "text_a"),
    second=("question2", "text_b"),
    label=("label", "is_duplicate"),
    labels=("not_duplicate", "duplicate"),
)


def _read(columns: _Columns, inputs: Inputs) -> Content:
    return carved_or_given(inputs, lambda path, role: _rows(path, columns, inputs.reading), columns.labels)


def _rows(path: Path, columns: _Columns, reading: Reading) -> list[Row]:
    names = class_names(path, columns.label[0]) or columns.labels
    found = []
    for where, row in records(path, reading):
        first = pick(row, columns.first, reading, where)
        second = pick(row, columns.second, reading, where) if columns.second else None
        label = pick(row, columns.label, reading, where) if first is not None else None
        if label is None or (columns.second and second is None):
            continue
        number = _label(label, names, columns.labels)
        if number is None:
            reading.bad(where, _refusal(label, columns.labels))
        else:
            found.append({"first": str(first), "second": second, "label": number})
    return found


def _label(value: Any, names: tuple[str, ...], labels: tuple[str, ...]) -> int | None:
    """Return the id in `labels` of a name, or of an id that counts in `names`; None for anything else."""
    text = str(value).strip()
    if text.isdecimal() and len(text) < 10 and int(text) < len(names):
        text = names[int(text)]
    return labels.index(text) if text in labels else None


def _refusal(value: Any, labels: tuple[str, ...]) -> str:
    if str(value) == "-1":
        return "the example has no label; GLUE's own test files are unlabelled, leave them out"
    return f"{value!r} is outside the label set {', '.join(labels)}{nearest(str(value), labels)}"


READERS.register(
    DatasetReader(
        name="sst2",
        read=partial(_read, _SST2),
        licence="not stated; research use",
        citation=f"Socher et al. 2013, Recursive Deep Models for Semantic Compositionality (EMNLP); {_GLUE}",
        files="train.tsv and dev.tsv of GLUE's SST-2",
        counts={"train": 63_981, "validation": 3_368, "test": 872},
        labels=_SST2.labels,
    )
)
READERS.register(
    DatasetReader(
        name="mnli_m",
        read=partial(_read, _MNLI),
        licence="OANC terms for most of it, CC BY 3.0, CC BY-SA 3.0 and others for the rest",
        citation=f"Williams et al. 2018, A Broad-Coverage Challenge Corpus for Sentence Understanding (NAACL); {_GLUE}",
        files="train.tsv and dev_matched.tsv of GLUE's MNLI",
        counts={"train": 373_066, "validation": 19_636, "test": 9_815},
        labels=_MNLI.labels,
        unwanted={"mismatched": "MNLI's mismatched part; the paper uses the matched one, leave it out"},
    )
)
READERS.register(
    DatasetReader(
        name="qqp",
        read=partial(_read, _QQP),
        licence="Quora's terms of service, non-commercial; not to be passed on",
        citation=f"Iyer et al. 2017, First Quora Dataset Release: Question Pairs; {_GLUE}",
        files="train.tsv and dev.tsv of GLUE's QQP",
        counts={"train": 345_653, "validation": 18_193, "test": 40_430},
        labels=_QQP.labels,
    )
)
