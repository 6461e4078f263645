"""Reading made-up original files in a test."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.datasets.local_dataset import Content
from benchmarks.datasets.readers import Inputs, reader_of
from benchmarks.datasets.readers.original_files import Reading
from benchmarks.protocol import get_dataset

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


def read(name: str, *, skip_bad: bool = False, **files: Path) -> Content:
    dataset = get_dataset(name)
    roles = {role: (path,) for role, path in files.items()}
    inputs = Inputs(dataset=dataset, files=roles, reading=Reading(skip_bad=skip_bad))
    return reader_of(dataset).read(inputs)


def rows(content: Content, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = content.tables[table].to_pylist()
    return found
