"""Reading made-up original files in a test."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.datasets.local_dataset import Content
from benchmarks.datasets.readers import read_originals
from benchmarks.datasets.readers.original_files import Reading
from benchmarks.datasets.readers.reader import Inputs
from benchmarks.datasets.schema import SPLIT_TABLES
from benchmarks.datasets.splits import carve
from benchmarks.protocol import get_dataset
from common.errors import UserError
from common.provenance import ROOT

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
    return read_originals(inputs)


def rows(content: Content, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = content.tables[table].to_pylist()
    return found


def check_against_its_page(name: str) -> None:
    """Compare what is declared of a dataset with the dataset's row in docs/datasets.md."""
    page = (ROOT / "docs/datasets.md").read_text(encoding="utf-8")
    row = re.search(rf"^\| `{name}` \| .+? \| (.+?) / (.+?) / (.+?) \| (.+?) \|", page, re.MULTILINE)
    assert row is not None, f"docs/datasets.md has no row of {name}"
    *splits, licence = row.groups()
    numbers = {split: re.match(r"[\d,]+", text) for split, text in zip(SPLIT_TABLES, splits, strict=True)}
    counts = {split: int(number[0].replace(",", "")) for split, number in numbers.items() if number}
    dataset = get_dataset(name)
    assert dict(dataset.counts) == counts
    for word in licence.replace(",", "").split():
        if not word.islower() or word == "non-commercial":
            assert word in dataset.licence, f"the page says {licence}"


def check_carved_counts(name: str, train: int, dev: int) -> None:
    """Compare declared counts with the published sizes of a dataset's files, carved by the paper's rule."""
    kept, carved = carve(train)
    assert get_dataset(name).counts == {"train": len(kept), "validation": len(carved), "test": dev}
    check_against_its_page(name)


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
