"""The original files that a dataset is made from, and its splits: the paper's (protocol, section 2), or as given."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.datasets.local_dataset import DatasetContent, table
from benchmarks.datasets.readers.original_files import class_names
from benchmarks.datasets.schema import SPLIT_TABLES, Row
from benchmarks.protocol import Dataset
from common.errors import UserError

TRAIN_SHARE = 0.95
CARVE_SEED = 42
HALVES_SEED = 42
"""This package's own seed: the release draws NQ's halves anew in every run, from a global generator without a seed."""


def carve(rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Split row numbers into (train, validation) as `datasets.train_test_split(train_size=0.95, seed=42)` does.

    Both are shuffled. SST-2's 67,349 rows give 63,981 and 3,368.
    """
    train_size = math.floor(TRAIN_SHARE * rows)
    validation_size = rows - train_size
    order = np.random.default_rng(CARVE_SEED).permutation(rows)
    # `datasets` takes the test part of a split, here the validation set, from the front of the order.
    return order[validation_size:], order[:validation_size]


def halve(ids: Iterable[str], seed: int = HALVES_SEED) -> set[str]:
    """Return the half of the query ids that makes NQ's validation split; the other half makes the test split.

    They are drawn as in the release, by `random.sample` of the sorted ids, but with a seed, which the release lacks.
    """
    unique = sorted(set(ids))
    return set(random.Random(seed).sample(unique, round(0.5 * len(unique))))


@dataclass(frozen=True, kw_only=True)
class ReaderInputs:
    """The files to make a dataset from, and what a reader finds out about them."""

    dataset: Dataset
    """Its entry in the protocol."""
    files: Mapping[str, tuple[Path, ...]]
    """Files by role: train, validation, test, queries, corpus; several of one role are read one after the other."""
    notes: dict[str, None] = field(default_factory=dict)
    """Sentences about repairs and omissions, for the manifest. As keys they keep their order, and each occurs once."""

    def note(self, sentence: str) -> None:
        """Keep a sentence for the manifest, once."""
        self.notes[sentence] = None

    declared: dict[Path, tuple[str, ...]] = field(default_factory=dict)
    """For each file that names the numbers of its labels: the names, in the order of the numbers."""
    numbered: list[Path] = field(default_factory=list)
    """The files that have numbers as labels and do not name them."""

    def declared_names(self, path: Path, column: str) -> tuple[str, ...]:
        """Return the names that a file gives the numbers in a column, empty if it gives none; `declared` keeps them."""
        names = class_names(path, column)
        if names:
            self.declared[path] = names
        return names

    def check_numbers(self) -> None:
        """Refuse a file whose numbers have no names if another file names its numbers in an order of its own.

        Numbers without names are read in the order of the definition, which the other file then contradicts.
        """
        if not self.numbered:
            return
        labels = self.dataset.label_names
        for path, names in self.declared.items():
            if names == labels:
                continue
            ours = ", ".join(labels)
            theirs = ", ".join(names)
            raise UserError(
                f"{self.numbered[0]} has numbers as labels, by `labels` in the order {ours:.60}, but {path.name} has "
                f"them in the order {theirs:.60}; write the names"
            )

    def of(self, role: str) -> tuple[Path, ...]:
        """Return the files of a role; an empty tuple if the role was not given."""
        return self.files.get(role, ())

    def need(self, role: str, what: str) -> tuple[Path, ...]:
        """Return the files of a role; `UserError` says that `what` is missing."""
        if not self.of(role):
            raise UserError(f"{self.dataset.name} needs {what}: use --{role} FILE")
        return self.of(role)


def with_splits(
    inputs: ReaderInputs, rows: Callable[[Path], list[Row]]
) -> DatasetContent:
    """Return the rows of the files as three splits, as published or by the paper's rule.

    By the paper's rule the official validation set is `test`, and `validation` is 5 % of the training set. A labelled
    test file may stand in for the official validation file. If both files are given, the three splits are the files.

    Args:
        inputs: the files by role.
        rows: reads a file; a row without an id gets one from its number within the split.

    Raises:
        UserError: a file is missing.
    """
    # Which files there must be.
    dataset = inputs.dataset
    inputs.need("train", "a training file")
    if dataset.files.as_published:
        inputs.need("validation", "a validation file")
        inputs.need("test", "a test file")
    elif not inputs.of("test"):
        inputs.need(
            "validation", "the official validation file, which the paper tests on"
        )

    # A table for each role whose files were given: train, and one or both of validation and test.
    tables = {}
    for role in SPLIT_TABLES:
        paths = inputs.of(role)
        if not paths:
            continue
        with_ids: list[Row] = []
        for row in chain.from_iterable(map(rows, paths)):
            # A row that has an id keeps it in place of this one.
            with_ids.append({"id": f"{role}-{len(with_ids)}", **row})

        tables[role] = table(dataset.form, role, with_ids)

    inputs.check_numbers()
    # The splits: the files as they are if all three were given, else by the paper's rule.
    if len(tables) == 3:
        splits = "as given: three files"
        if dataset.files.as_published:
            splits = "as published"
    else:
        tables, splits = _papers_splits(tables)

    return DatasetContent(tables=tables, splits=splits, notes=tuple(inputs.notes))


def _papers_splits(tables: Mapping[str, pa.Table]) -> tuple[dict[str, pa.Table], str]:
    """Return the three splits by the paper's rule, and a sentence that says how they were made.

    Args:
        tables: `train`; and either `validation`, the official validation set, or `test`, a file in its place.
    """
    # The paper tests on the official validation set: official test files, such as GLUE's, have no labels.
    test, tested = "validation", "official validation set"
    if "test" in tables:
        test, tested = "test", "test file given"
    official_train = tables["train"]
    # Row numbers of the official training set, shuffled; `test` above is the name of a table.
    train, validation = carve(official_train.num_rows)
    splits = {
        "train": official_train.take(pa.array(train)),
        "validation": official_train.take(pa.array(validation)),
        "test": tables[test],
    }
    how = (
        f"validation is {1 - TRAIN_SHARE:.0%} of train, carved as datasets.train_test_split(train_size="
        f"{TRAIN_SHARE}, seed={CARVE_SEED}) does; test is the {tested}"
    )
    return splits, how
