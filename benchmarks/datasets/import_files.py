"""A dataset from original distribution files, without network."""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace as replace_fields
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.datasets.local_dataset import DatasetContent, check_place, write_dataset
from benchmarks.datasets.readers import beir, ner, squad, texts
from benchmarks.datasets.readers.original_files import is_data
from benchmarks.datasets.readers.reader import ReaderInputs
from benchmarks.datasets.schema import FORMS, SPLIT_TABLES, Manifest
from benchmarks.finetuning.tokenization import texts_of
from benchmarks.protocol import Dataset
from common.errors import UserError
from common.files import sha256_file
from common.plain_text import first_of

_NUMBERS = re.compile(r"[-_.]?\d+(-of-\d+)?")
"""What numbers a part of a file."""

READERS: dict[str, Callable[[ReaderInputs], DatasetContent]] = {
    "SC": texts.read,
    "SC-labels": texts.read,
    "SC-value": texts.read,
    "TC": ner.read,
    "QA": squad.read,
    "IR": beir.read,
    "msmarco": beir.read_msmarco,
    "mldr": beir.read_mldr,
}
"""What makes a dataset of its files, by `DatasetFiles.reader`."""


def import_dataset(
    dataset: Dataset,
    files: Mapping[str, Sequence[Path]],
    data: Path,
    *,
    replace: bool = False,
) -> str:
    """Make a dataset from original files and return what was made, in a few lines.

    Args:
        dataset: the dataset.
        files: files by role, see `ReaderInputs.files`; of CoNLL-2012, which has thousands, folders.
        data: the folder that holds one folder a dataset.
        replace: put this in place of another content.

    Raises:
        UserError: no file is named, or one is absent or bad.
    """
    if not files:
        raise UserError(f"name the files to import: {dataset.files.originals}")
    parts: dict[str, list[Path]] = {}
    for role, paths in files.items():
        parts[role] = list(chain.from_iterable(map(_parts, paths)))
    check_place(data / dataset.name, chain.from_iterable(parts.values()))
    described = []
    for role, paths in parts.items():
        for path in paths:
            entry: dict[str, Any] = {"role": role, "name": path.name}
            entry |= {"bytes": path.stat().st_size, "sha256": sha256_file(path)}
            described.append(entry)
    source = {"kind": "import", "files": described}
    manifest = make(dataset, parts, data, source=source, replace=replace)
    return import_summary(dataset, manifest, data)


def _parts(path: Path) -> list[Path]:
    """Return the file itself, those that fit a pattern, or those of a folder: of CoNLL-2012, or parts of one file.

    Raises:
        UserError: there is none, or a folder's files are not numbered parts of one.
    """
    if path.is_file():
        return [path]
    # A pattern in quotes, which the shell did not expand.
    if not path.is_dir():
        parts = sorted(map(Path, glob.glob(str(path), recursive=True)))  # noqa: PTH207  (in any part)
        if not parts:
            raise UserError(f"there is no file {path}")
        return parts
    # CoNLL-2012 is a tree with thousands of files, each a document.
    parts = sorted(path.rglob("*_gold_conll"))
    wholes: set[str] = set()
    if not parts:
        parts = sorted(part for part in path.iterdir() if is_data(part))
        # train-00000-of-00004 and train-00001-of-00004 are parts of one file; train and test are not.
        wholes = {_NUMBERS.sub("", part.name) for part in parts}
    if not parts or len(wholes) > 1:
        there = first_of(sorted(part.name for part in path.iterdir())) or "nothing"
        raise UserError(
            f"{path} is a folder without *_gold_conll files or numbered parts of one data file (it has {there}); "
            "give a file, or a pattern such as 'train-*.parquet'"
        )
    return parts


def make(
    dataset: Dataset,
    files: Mapping[str, Sequence[Path]],
    data: Path,
    *,
    source: Mapping[str, Any],
    replace: bool = False,
) -> Manifest:
    """Read original files, write the dataset under `data`, and return its manifest.

    Args:
        dataset: the dataset.
        files: files by role.
        data: the folder that holds one folder a dataset.
        source: what the manifest says about where the files come from.
        replace: put this in place of another content.

    Raises:
        UserError: a file is missing or bad, or another content is there already.
    """
    files_of = {role: tuple(paths) for role, paths in files.items()}
    read = READERS[dataset.files.reader or dataset.form]
    content = read(ReaderInputs(dataset=dataset, files=files_of))
    notes = [*content.notes]
    notes += unused(dataset, content.tables)
    notes += overlaps(dataset, content.tables)
    noted = replace_fields(content, notes=tuple(notes))
    return write_dataset(data, dataset, noted, source=source, replace=replace)


def unused(dataset: Dataset, tables: Mapping[str, pa.Table]) -> Iterator[str]:
    """Yield a sentence that names the labels without an example in `train`; only for a dataset of one's own."""
    column = FORMS[dataset.form].label
    if not dataset.is_own or column is None:
        return
    ids = tables["train"][column]
    if pa.types.is_list(ids.type):
        ids = pc.list_flatten(ids)
    present = set(ids.to_pylist())
    lacking = []
    for number, name in enumerate(dataset.label_names):
        if number not in present:
            lacking.append(name)
    if lacking:
        yield f"train has no example of {', '.join(lacking)}"


def overlaps(dataset: Dataset, tables: Mapping[str, pa.Table]) -> Iterator[str]:
    """Yield a sentence for each two splits that share examples: how many of the second's, and the first of them.

    A score on such a test set says less.
    """
    texts_in: dict[str, list[str]] = {}
    for split, row in _inputs(tables):
        texts_in.setdefault(split, []).append(" ".join(texts_of(dataset, row)))
    called = FORMS[dataset.form].called
    splits = [name for name in SPLIT_TABLES if name in texts_in]
    for first, second in combinations(splits, 2):
        texts_of_first = set(texts_in[first])
        shared = [text for text in texts_in[second] if text in texts_of_first]
        if shared:
            example = shared[0]
            if len(example) > 60:
                example = f"{example[:60]}..."
            yield (
                f"{len(shared):,} of the {len(texts_in[second]):,} {called} of {second} are in {first} as well, the "
                f"first {example!r}"
            )


def _inputs(tables: Mapping[str, pa.Table]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the split and the row of each example; for retrieval, of each query."""
    for name, rows in tables.items():
        if name in SPLIT_TABLES:
            yield from ((name, row) for row in rows.to_pylist())
        elif name == "queries":
            yield from ((row["split"], row) for row in rows.to_pylist())
        elif name == "pairs":
            yield from (
                ("train", {"text": query}) for query in rows["query"].to_pylist()
            )


def import_summary(dataset: Dataset, manifest: Manifest, data: Path) -> str:
    """Return what was made, in a few lines."""
    counts = ", ".join(f"{count:,} {split}" for split, count in manifest.counts.items())
    unlike = []
    for split, count in dataset.counts.items():
        if manifest.counts.get(split) != count:
            unlike.append(f"{count:,} {split}")
    lines = [f"{data / dataset.name}: {counts}", f"  splits: {manifest.splits}"]
    if unlike:
        lines.append(f"  not all of the official data, which has {', '.join(unlike)}")
    lines += [f"  note: {note}" for note in manifest.notes]
    return "\n".join(lines)
