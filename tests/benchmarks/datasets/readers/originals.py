"""Reading made-up original files in a test."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.datasets.import_files import READERS
from benchmarks.datasets.local_dataset import Content
from benchmarks.datasets.readers.original_files import Reading
from benchmarks.datasets.readers.reader import Inputs
from benchmarks.protocol import get_dataset
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


def read(name: str, *, skip_bad: bool = False, **files: Path | tuple[Path, ...]) -> Content:
    dataset = get_dataset(name)
    roles = {role: paths if isinstance(paths, tuple) else (paths,) for role, paths in files.items()}
    inputs = Inputs(dataset=dataset, files=roles, reading=Reading(skip_bad=skip_bad))
    return READERS[inputs.dataset.reader](inputs)


def rows(content: Content, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = content.tables[table].to_pylist()
    return found


def inputs_of(name: str, *, skip_bad: bool = False, trained_on: str = "", **files: Path) -> Inputs:
    dataset = get_dataset(name)
    return Inputs(
        dataset=replace(dataset, trained_on=trained_on or dataset.trained_on),
        files={role: (path,) for role, path in files.items()},
        reading=Reading(skip_bad=skip_bad),
    )


def refused(read: Callable[[], object]) -> str:
    with pytest.raises(UserError) as error:
        read()
    return str(error.value)
