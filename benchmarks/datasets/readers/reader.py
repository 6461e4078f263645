"""How a dataset is made from its original files: one object a dataset, in a registry, and the files that it reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from benchmarks.datasets.local_dataset import Content, table
from benchmarks.datasets.readers.original_files import Reading, Row
from benchmarks.datasets.schema import SPLIT_TABLES
from benchmarks.datasets.splits import CARVE_SEED, TRAIN_SHARE, carve
from benchmarks.protocol import Dataset
from common.errors import UserError
from common.registry import Registry

__all__ = ["READERS", "ROLES", "DatasetReader", "Inputs", "carved_or_given", "given"]

ROLES = ("train", "validation", "test", "queries", "corpus")
"""What a file is to its dataset, and the options of `python -m benchmarks import`."""


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """The files to make a dataset from."""

    dataset: Dataset
    """Its entry in the protocol."""
    files: Mapping[str, tuple[Path, ...]]
    """Files by role; several of one role are read one after the other."""
    reading: Reading
    """Reads them, and knows what to do with bad lines."""

    def of(self, role: str) -> tuple[Path, ...]:
        """Return the files of a role, none when it was not given."""
        return self.files.get(role, ())

    def need(self, role: str, what: str) -> tuple[Path, ...]:
        """Return the files of a role; `UserError` says that `what` is missing."""
        if not self.of(role):
            raise UserError(f"{self.dataset.name} needs {what}: name the file with --{role} FILE")
        return self.of(role)


@dataclass(frozen=True, kw_only=True)
class DatasetReader:
    """How a dataset is made, and what is known about it."""

    name: str
    """The dataset, as `benchmarks.protocol.DATASETS` names it."""
    read: Callable[[Inputs], Content]
    """Makes the local form of the files."""
    licence: str
    """The data's licence; `not stated` where it is."""
    citation: str
    """Whom to cite."""
    files: str
    """The original files, in words, for help and errors."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Examples a split of the official data in the local form; others are noted in the manifest."""
    labels: tuple[str, ...] = ()
    """Names of the classes or tags by id, where they are known before a file is read."""
    unwanted: Mapping[str, str] = field(default_factory=dict)
    """Words in the names of files that do not belong to the dataset, and why."""


READERS: Registry[DatasetReader] = Registry("reader of the dataset")
"""The reader of each dataset; importing `benchmarks.datasets.readers` fills it."""


def given(inputs: Inputs, rows: Callable[[Path, str], list[Row]], labels: tuple[str, ...]) -> Content:
    """Return the three splits as they are given (token classification)."""
    inputs.need("train", "a training file")
    inputs.need("validation", "a validation file")
    inputs.need("test", "a test file")
    return Content(
        tables=_tables(inputs, rows), labels=labels, splits="as published", notes=inputs.reading.notes()
    )


def carved_or_given(
    inputs: Inputs, rows: Callable[[Path, str], list[Row]], labels: tuple[str, ...] = ()
) -> Content:
    """Return the splits by the paper's rule: the official validation is `test`, `validation` is 5 % of train.

    A labelled test file may stand in for the official validation file. With both, all three splits are kept as
    they are given.
    """
    inputs.need("train", "a training file")
    if not inputs.of("test"):
        inputs.need("validation", "the official validation file, which the paper tests on")
    tables = _tables(inputs, rows)
    if len(tables) == 3:
        splits = "as given: three files"
    else:
        train, validation = carve(tables["train"].num_rows)
        test = tables["test"] if "test" in tables else tables["validation"]
        tables = {
            "train": tables["train"].take(pa.array(train)),
            "validation": tables["train"].take(pa.array(validation)),
            "test": test,
        }
        tested = "test file given" if inputs.of("test") else "official validation set"
        splits = (
            f"validation is {1 - TRAIN_SHARE:.0%} of train, carved as datasets.train_test_split(train_size="
            f"{TRAIN_SHARE}, seed={CARVE_SEED}) does; test is the {tested}"
        )
    return Content(tables=tables, labels=labels, splits=splits, notes=inputs.reading.notes())


def _tables(inputs: Inputs, rows: Callable[[Path, str], list[Row]]) -> dict[str, pa.Table]:
    """Return a table for each split that has files; rows without an id are numbered."""
    tables = {}
    for role in SPLIT_TABLES:
        if paths := inputs.of(role):
            read = [row for path in paths for row in rows(path, role)]
            numbered = ({"id": f"{role}-{number}", **row} for number, row in enumerate(read))
            tables[role] = table(inputs.dataset.form, role, numbered)
    return tables
