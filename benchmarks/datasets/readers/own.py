"""Datasets of one's own: rows of a definition's columns into the local form, with every bad row named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.datasets.local_dataset import Content
from benchmarks.datasets.readers import beir, ner
from benchmarks.datasets.readers.original_files import Reading, Row, class_names, kind_of, pick, records
from benchmarks.datasets.readers.reader import DatasetReader, Inputs, carved_or_given
from benchmarks.datasets.readers.squad import question_rows
from benchmarks.own_datasets.definition_file import Definition
from common.errors import nearest
from common.registry import Registry

__all__ = ["FORM_READERS", "FormReader", "reader_of_definition"]


@dataclass(frozen=True, kw_only=True)
class FormReader:
    """How the rows of a local form are made of a file's rows."""

    name: str
    """The form: a name in `benchmarks.datasets.schema.FORMS`."""
    rows: Callable[[Definition, Path, Reading], list[Row]]
    """Reads a file."""


def reader_of_definition(definition: Definition) -> DatasetReader:
    """Return how a dataset of one's own is made from its files."""
    columns = ", ".join(" or ".join(names) for names in definition.columns.values())
    return DatasetReader(
        name=definition.name,
        read=partial(_read, definition),
        licence=definition.licence,
        citation=definition.citation,
        files=f"{' and '.join(definition.kind.roles)}" + (f" with the columns {columns}" if columns else ""),
        labels=definition.label_names,
    )


def _read(definition: Definition, inputs: Inputs) -> Content:
    if definition.kind.form == "IR":
        return beir.read_judged(inputs)
    how = FORM_READERS[definition.kind.form]
    return carved_or_given(
        inputs, lambda path, role: how.rows(definition, path, inputs.reading), definition.label_names
    )


def _texts(definition: Definition, row: Row, reading: Reading, where: str) -> Row | None:
    first = pick(row, definition.columns["text"], reading, where)
    second = None
    if "second" in definition.columns:
        names = definition.columns["second"]
        if "second" not in definition.kind.optional:
            second = pick(row, names, reading, where)
            if second is None:
                return None
        else:
            second = next((row[name] for name in names if row.get(name) is not None), None)
    return None if first is None else {"first": str(first), "second": None if second is None else str(second)}


def _label(
    definition: Definition, value: Any, names: tuple[str, ...], reading: Reading, where: str
) -> int | None:
    """Return the id of a label's name, or of a number that counts in the file's own names or in the definition's."""
    text = str(value).strip()
    if text not in definition.label_names and text.isdecimal() and len(text) < 10 and int(text) < len(names):
        text = names[int(text)]
    if text in definition.label_names:
        return definition.label_names.index(text)
    known = ", ".join(definition.label_names)
    reading.bad(where, f"{value!r} is outside the label set {known}{nearest(text, definition.label_names)}")
    return None


def _class_rows(definition: Definition, path: Path, reading: Reading) -> list[Row]:
    column = definition.columns["label"]
    names = class_names(path, column[0]) or definition.label_names
    found = []
    for where, row in records(path, reading):
        texts = _texts(definition, row, reading, where)
        value = pick(row, column, reading, where) if texts is not None else None
        label = None if value is None else _label(definition, value, names, reading, where)
        if texts is not None and label is not None:
            found.append({**texts, "label": label})
    return found


def _label_rows(definition: Definition, path: Path, reading: Reading) -> list[Row]:
    column = definition.columns["labels"]
    names = class_names(path, column[0]) or definition.label_names
    found = []
    for where, row in records(path, reading):
        texts = _texts(definition, row, reading, where)
        value = pick(row, column, reading, where) if texts is not None else None
        if texts is None or value is None:
            continue
        with reading.shape(where):
            parts = (
                [part.strip() for part in value.split(",") if part.strip()]
                if isinstance(value, str)
                else value
            )
            ids = [_label(definition, part, names, reading, where) for part in parts]
            known = sorted({number for number in ids if number is not None})
            if len(known) == len(ids):
                found.append({**texts, "labels": known})
            elif None not in ids:
                reading.bad(where, f"a label occurs twice in {value!r}")
    return found


def _value_rows(definition: Definition, path: Path, reading: Reading) -> list[Row]:
    assert definition.value_range is not None
    low, high = definition.value_range
    found = []
    for where, row in records(path, reading):
        texts = _texts(definition, row, reading, where)
        value = pick(row, definition.columns["value"], reading, where) if texts is not None else None
        if texts is None or value is None:
            continue
        try:
            number = float(value)
        except (TypeError, ValueError):
            reading.bad(where, f"{value!r} is no number")
            continue
        if low <= number <= high:
            found.append({**texts, "value": number})
        else:
            reading.bad(where, f"the value {number:g} is outside the range {low:g} to {high:g}")
    return found


def _tag_rows(definition: Definition, path: Path, reading: Reading) -> list[Row]:
    if kind_of(path).bare:
        return ner.line_rows(path, definition.label_names, reading)
    columns = definition.columns
    return ner.hub_rows(path, definition.label_names, reading, words=columns["words"], tags=columns["tags"])


def _answer_rows(definition: Definition, path: Path, reading: Reading) -> list[Row]:
    rename = {name: field for field, names in definition.columns.items() for name in names}
    return question_rows(path, reading, unanswerable=definition.may_abstain, rename=rename)


FORM_READERS: Registry[FormReader] = Registry(
    "form",
    [
        FormReader(name="SC", rows=_class_rows),
        FormReader(name="SC-labels", rows=_label_rows),
        FormReader(name="SC-value", rows=_value_rows),
        FormReader(name="TC", rows=_tag_rows),
        FormReader(name="QA", rows=_answer_rows),
    ],
)
"""How the rows of each local form but retrieval's are read."""
