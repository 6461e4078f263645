"""A dataset from original distribution files, without network."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace as replace_fields
from itertools import combinations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.datasets.local_dataset import Content, write
from benchmarks.datasets.readers import beir, ner, squad, texts
from benchmarks.datasets.readers.original_files import Reading
from benchmarks.datasets.readers.reader import ROLES, Inputs
from benchmarks.datasets.schema import FORMS, SPLIT_TABLES, Manifest
from benchmarks.finetuning.tokenization import texts_of
from benchmarks.protocol import Dataset
from common.errors import UserError
from common.files import sha256_file

__all__ = ["READERS", "describe_files", "import_dataset", "make", "overlaps", "recognise", "report", "unused"]

READERS: dict[str, Callable[[Inputs], Content]] = {
    "SC": texts.read,
    "SC-labels": texts.read,
    "SC-value": texts.read,
    "TC": ner.read,
    "QA": squad.read,
    "IR": beir.read,
    "record": squad.read_record,
    "msmarco": beir.read_msmarco,
    "mldr": beir.read_mldr,
}
"""What makes a dataset of its files, by `Dataset.reader`."""

_NAMES = (
    ("corpus", r"corpus|collection|passages?"),
    ("queries", r"queries|topics?"),
    ("train", r"train|pairs?|triples?|triplets?"),
    ("validation", r"dev|val|valid|validation|development|testa"),
    ("test", r"test|testb|test2019|2019qrels"),
)


def recognise(dataset: Dataset, paths: Sequence[Path]) -> dict[str, tuple[Path, ...]]:
    """Return the files by role, by their names or, where these say nothing, their folders' names.

    Raises:
        UserError: a name fits no role; the message says how to give the role.
    """
    found: dict[str, tuple[Path, ...]] = {}
    for path in paths:
        for word, why in dataset.unwanted.items():
            if word in path.name:
                raise UserError(f"{path} is {why}")
        role = next((role for name in (path.name, path.parent.name) if (role := _role(name))), None)
        if role is None:
            raise UserError(
                f"{path}: its name does not say what it contains; put one of --{', --'.join(ROLES)} before it"
            )
        found[role] = (*found.get(role, ()), path)
    return found


def _role(name: str) -> str | None:
    words = re.split(r"[^a-z0-9]+", name.lower())
    for role, pattern in _NAMES:
        if any(re.fullmatch(pattern, word) for word in words):
            return role
    return None


def describe_files(files: Mapping[str, Sequence[Path]]) -> list[dict[str, Any]]:
    """Return role, name, size and hash of each file, for the manifest; of a folder, of each file in it."""
    return [
        {"role": role, "name": part.name, "bytes": part.stat().st_size, "sha256": sha256_file(part)}
        for role, paths in files.items()
        for path in paths
        for part in _parts(path)
    ]


def _parts(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(path.rglob("*_gold_conll")) or sorted(part for part in path.rglob("*") if part.is_file())


def make(dataset: Dataset, files: Mapping[str, Sequence[Path]], data: Path, *, source: Mapping[str, Any],
         skip_bad: bool = False, replace: bool = False) -> Manifest:  # fmt: skip
    """Read original files, write the dataset under `data`, and return its manifest.

    Args:
        dataset: the dataset.
        files: files by role, see `benchmarks.datasets.readers.reader.ROLES`.
        data: the folder that holds one folder a dataset.
        source: what the manifest says about where the files come from.
        skip_bad: leave bad lines out instead of stopping at the first.
        replace: put this in place of another content.

    Raises:
        UserError: a file is missing or bad, or another content is there already.
    """
    own = {role: tuple(paths) for role, paths in files.items()}
    content = READERS[dataset.reader](Inputs(dataset=dataset, files=own, reading=Reading(skip_bad=skip_bad)))
    notes = (*content.notes, *unused(dataset, content.tables), *overlaps(dataset, content.tables))
    content = replace_fields(content, notes=notes)
    return write(data, dataset, content, source=source, replace=replace)


def unused(dataset: Dataset, tables: Mapping[str, pa.Table]) -> Iterator[str]:
    """Yield a sentence that names the labels of a dataset of one's own of which `train` has no example."""
    if not dataset.content or (column := FORMS[dataset.form].label) is None:
        return
    ids = tables["train"][column]
    there = set((pc.list_flatten(ids) if pa.types.is_list(ids.type) else ids).to_pylist())
    if lacking := [name for number, name in enumerate(dataset.label_names) if number not in there]:
        yield f"train has no example of {', '.join(lacking)}"


def overlaps(dataset: Dataset, tables: Mapping[str, pa.Table]) -> Iterator[str]:
    """Yield a sentence for each two splits that share examples: how many of the second's, and the first of them.

    A score on such a test set says less.
    """
    found: dict[str, list[str]] = {}
    for split, row in _inputs(tables):
        found.setdefault(split, []).append(" ".join(texts_of(dataset, row)))
    called = FORMS[dataset.form].called
    for one, other in combinations([name for name in SPLIT_TABLES if name in found], 2):
        known = set(found[one])
        shared = [text for text in found[other] if text in known]
        if shared:
            first = shared[0] if len(shared[0]) <= 60 else f"{shared[0][:60]}..."
            yield (
                f"{len(shared):,} of the {len(found[other]):,} {called} of {other} are in {one} as well, the first "
                f"{first!r}"
            )


def _inputs(tables: Mapping[str, pa.Table]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the split and the row of each example; of retrieval, of each query."""
    for name, rows in tables.items():
        if name in SPLIT_TABLES:
            yield from ((name, row) for row in rows.to_pylist())
        elif name == "queries":
            yield from ((row["split"], row) for row in rows.to_pylist())
        elif name == "pairs":
            yield from (("train", {"text": query}) for query in rows["query"].to_pylist())


def report(dataset: Dataset, manifest: Manifest, data: Path) -> str:
    """Return what was made, in a few lines."""
    counts = ", ".join(f"{count:,} {split}" for split, count in manifest.counts.items())
    official = dataset.counts
    other = [
        f"{official[split]:,} {split}" for split in official if manifest.counts.get(split) != official[split]
    ]
    text = [f"{data / dataset.name}: {counts}", f"  splits: {manifest.splits}"]
    if other:
        text.append(f"  not all of the official data, which has {', '.join(other)}")
    text += [f"  note: {note}" for note in manifest.notes]
    return "\n".join(text)


def import_dataset(
    dataset: Dataset,
    files: Mapping[str, Sequence[Path]],
    data: Path,
    *,
    skip_bad: bool = False,
    replace: bool = False,
) -> str:
    """Make a dataset from original files and return what was made, in a few lines; arguments as in `make`.

    Raises:
        UserError: no file is named, or one is absent or bad.
    """
    if not files:
        raise UserError(f"name the files to import: {dataset.originals}")
    for paths in files.values():
        if absent := [path for path in paths if not path.exists()]:
            raise UserError(f"there is no file {absent[0]}")
    source = {"kind": "import", "files": describe_files(files)}
    manifest = make(dataset, files, data, source=source, skip_bad=skip_bad, replace=replace)
    return report(dataset, manifest, data)
