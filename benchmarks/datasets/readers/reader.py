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
"""Ours: the release draws NQ's halves from an unseeded global generator, again in every run."""


def carve(rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the row numbers of (train, validation) as `datasets.train_test_split(train_size=0.95, seed=42)` does.

    Both are shuffled. SST-2's 67,349 rows give 63,981 and 3,368.
    """
    trained = math.floor(TRAIN_SHARE * rows)
    order = np.random.default_rng(CARVE_SEED).permutation(rows)
    # `datasets` takes the test part of a split, here the validation set, from the front of the order.
    return order[rows - trained :], order[: rows - trained]


def halve(ids: Iterable[str], seed: int = HALVES_SEED) -> set[str]:
    """Return the half of the query ids that is NQ's validation split; the rest is test.

    The release's own draw, `random.sample` of the sorted ids, with the seed that it lacks.
    """
    unique = sorted(set(ids))
    return set(random.Random(seed).sample(unique, round(0.5 * len(unique))))


@dataclass(frozen=True, kw_only=True)
class ReaderInputs:
    """The files to make a dataset from, and what is to be said about them."""

    dataset: Dataset
    """Its entry in the protocol."""
    files: Mapping[str, tuple[Path, ...]]
    """Files by role: train, validation, test, queries, corpus; several of one role are read one after the other."""
    notes: dict[str, None] = field(default_factory=dict)
    """What the manifest is to say of repairs and omissions: sentences as keys, which keep their order."""

    def note(self, sentence: str) -> None:
        """Keep a sentence for the manifest, once."""
        self.notes[sentence] = None

    declared: dict[Path, tuple[str, ...]] = field(default_factory=dict)
    """The names that files give the numbers of their labels."""
    numbered: list[Path] = field(default_factory=list)
    """The files that have numbers in place of labels, and no names for them."""

    def declared_names(self, path: Path, column: str) -> tuple[str, ...]:
        """Return the names that a file gives the numbers of a column, none where it gives none, and keep them."""
        names = class_names(path, column)
        if names:
            self.declared[path] = names
        return names

    def check_numbers(self) -> None:
        """Refuse numbers without names next to a file that names its numbers in another order."""
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
        """Return the files of a role, none when it was not given."""
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

    By the paper's rule the official validation is `test`, and `validation` is 5 % of train. A labelled test file may
    stand in for the official validation file. With both, all three splits are kept as they are given.

    Args:
        inputs: the files.
        rows: reads one of them; rows without an id are numbered.

    Raises:
        UserError: a file is missing.
    """
    dataset = inputs.dataset
    inputs.need("train", "a training file")
    if dataset.files.as_published:
        inputs.need("validation", "a validation file")
        inputs.need("test", "a test file")
    elif not inputs.of("test"):
        inputs.need(
            "validation", "the official validation file, which the paper tests on"
        )
    tables = {}
    for role in SPLIT_TABLES:
        paths = inputs.of(role)
        if not paths:
            continue
        numbered: list[Row] = []
        for row in chain.from_iterable(map(rows, paths)):
            # A row that has an id keeps it in place of this one.
            numbered.append({"id": f"{role}-{len(numbered)}", **row})
        tables[role] = table(dataset.form, role, numbered)
    inputs.check_numbers()
    if len(tables) == 3:
        splits = "as given: three files"
        if dataset.files.as_published:
            splits = "as published"
    else:
        # The paper tests on the official validation set: official test files, such as GLUE's, have no labels.
        tested = "official validation set"
        test = tables.get("validation")
        if inputs.of("test"):
            tested = "test file given"
            test = tables["test"]
        official_train = tables["train"]
        train, validation = carve(official_train.num_rows)
        tables = {
            "train": official_train.take(pa.array(train)),
            "validation": official_train.take(pa.array(validation)),
            "test": test,
        }
        splits = (
            f"validation is {1 - TRAIN_SHARE:.0%} of train, carved as datasets.train_test_split(train_size="
            f"{TRAIN_SHARE}, seed={CARVE_SEED}) does; test is the {tested}"
        )
    return DatasetContent(tables=tables, splits=splits, notes=tuple(inputs.notes))
