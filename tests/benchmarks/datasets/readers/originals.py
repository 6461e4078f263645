"""Reading made-up original files in a test."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.datasets.import_files import READERS
from benchmarks.datasets.local_dataset import DatasetContent
from benchmarks.datasets.readers.reader import ReaderInputs
from benchmarks.own_datasets.definition_file import definition_of
from benchmarks.protocol import Dataset, get_dataset
from common.errors import UserError

Put = Callable[[str, str | list[Any]], Path]
"""Writes a text, or rows as JSON lines, to a file of the test and returns its path."""


def putter(folder: Path) -> Put:
    def put(name: str, text: str | list[Any]) -> Path:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(text, list):
            text = "".join(json.dumps(row) + "\n" for row in text)
        path.write_text(text, encoding="utf-8")
        return path

    return put


def defined(kind: str, **table: Any) -> Dataset:
    """A dataset of one's own whose three files stay as they are."""
    return published(
        definition_of("mine", {"kind": kind, **table}, "my.toml: [mine]", Path())
    )


def published(dataset: Dataset) -> Dataset:
    """A dataset whose three files stay as they are."""
    return replace(dataset, files=replace(dataset.files, as_published=True))


def inputs_of(
    dataset: str | Dataset, *, trained_on: str = "", **files: Path | tuple[Path, ...]
) -> ReaderInputs:
    dataset = get_dataset(dataset)
    return ReaderInputs(
        dataset=replace(dataset, trained_on=trained_on or dataset.trained_on),
        files={
            role: paths if isinstance(paths, tuple) else (paths,)
            for role, paths in files.items()
        },
    )


def read(dataset: str | Dataset, **files: Path | tuple[Path, ...]) -> DatasetContent:
    inputs = inputs_of(dataset, **files)
    return READERS[inputs.dataset.files.reader or inputs.dataset.form](inputs)


def rows(content: DatasetContent, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = content.tables[table].to_pylist()
    return found


def refused(read: Callable[[], object]) -> str:
    with pytest.raises(UserError) as error:
        read()
    return str(error.value)
