"""Datasets of one's own: a definition's columns into the local form, by the readers of the paper's datasets."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.datasets.local_dataset import Content
from benchmarks.datasets.readers import beir, ner, texts
from benchmarks.datasets.readers.original_files import Reading, Row
from benchmarks.datasets.readers.reader import DatasetReader, Inputs, carved_or_given
from benchmarks.datasets.readers.squad import question_rows
from benchmarks.own_datasets.definition_file import Definition

__all__ = ["FORM_ROWS", "reader_of_definition"]


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
    if definition.form == "IR":
        return beir.read_judged(inputs)
    rows = FORM_ROWS[definition.form]
    return carved_or_given(
        inputs, lambda path, role: rows(definition, path, inputs.reading), definition.label_names
    )


def _text_rows(
    name: str,
    target: Callable[[Definition], texts.Target],
    definition: Definition,
    path: Path,
    reading: Reading,
) -> list[Row]:
    columns, optional = definition.columns, definition.kind.optional
    return texts.text_rows(path, reading, columns, name, target(definition), optional=optional)


def _tag_rows(definition: Definition, path: Path, reading: Reading) -> list[Row]:
    return ner.tag_rows(path, definition.label_names, reading, **definition.columns)


def _answer_rows(definition: Definition, path: Path, reading: Reading) -> list[Row]:
    rename = {name: field for field, names in definition.columns.items() for name in names}
    return question_rows(path, reading, unanswerable=definition.may_abstain, rename=rename)


FORM_ROWS: dict[str, Callable[[Definition, Path, Reading], list[Row]]] = {
    "SC": partial(_text_rows, "label", lambda made: partial(texts.label_id, made.label_names)),
    "SC-labels": partial(_text_rows, "labels", lambda made: partial(texts.label_ids, made.label_names)),
    "SC-value": partial(
        _text_rows, "value", lambda made: partial(texts.number_in, made.value_range or (0, 0))
    ),
    "TC": _tag_rows,
    "QA": _answer_rows,
}
"""How the rows of each local form but retrieval's are read."""
