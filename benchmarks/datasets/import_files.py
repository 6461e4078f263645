"""A dataset from original distribution files, without network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace as replace_fields
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.datasets.local_dataset import DatasetContent, check_place, write
from benchmarks.datasets.readers import beir, ner, squad, texts
from benchmarks.datasets.readers.reader import ReaderInputs
from benchmarks.datasets.schema import FORMS, SPLIT_TABLES, Manifest
from benchmarks.finetuning.tokenization import texts_of
from benchmarks.protocol import Dataset
from common.errors import UserError
from common.files import sha256_file

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
    parts = {
        role: [part for path in paths for part in _parts(path)]
        for role, paths in files.items()
    }
    check_place(data / dataset.name, chain.from_iterable(parts.values()))
    described = [
        {
            "role": role,
            "name": path.name,
            "bytes": path.stat().st_size,
            "sha256": sha256_file(path),
        }
        for role, paths in parts.items()
        for path in paths
    ]
    manifest = make(
        dataset,
        parts,
        data,
        source={"kind": "import", "files": described},
        replace=replace,
    )
    return report(dataset, manifest, data)


def _parts(path: Path) -> list[Path]:
    """Return the file itself, or those of a folder."""
    if not path.exists():
        raise UserError(f"there is no file {path}")
    parts = sorted(path.rglob("*_gold_conll")) if path.is_dir() else [path]
    if not parts:
        raise UserError(f"{path} is a folder without *_gold_conll files; give a file")
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
    inputs = ReaderInputs(
        dataset=dataset, files={role: tuple(paths) for role, paths in files.items()}
    )
    content = READERS[dataset.files.reader or dataset.form](inputs)
    notes = (
        *content.notes,
        *unused(dataset, content.tables),
        *overlaps(dataset, content.tables),
    )
    return write(
        data,
        dataset,
        replace_fields(content, notes=notes),
        source=source,
        replace=replace,
    )


def unused(dataset: Dataset, tables: Mapping[str, pa.Table]) -> Iterator[str]:
    """Yield a sentence that names the labels of a dataset of one's own of which `train` has no example."""
    if not dataset.is_own or (column := FORMS[dataset.form].label) is None:
        return
    ids = tables["train"][column]
    present = set(
        (pc.list_flatten(ids) if pa.types.is_list(ids.type) else ids).to_pylist()
    )
    if lacking := [
        name for number, name in enumerate(dataset.label_names) if number not in present
    ]:
        yield f"train has no example of {', '.join(lacking)}"


def overlaps(dataset: Dataset, tables: Mapping[str, pa.Table]) -> Iterator[str]:
    """Yield a sentence for each two splits that share examples: how many of the second's, and the first of them.

    A score on such a test set says less.
    """
    texts_in: dict[str, list[str]] = {}
    for split, row in _inputs(tables):
        texts_in.setdefault(split, []).append(" ".join(texts_of(dataset, row)))
    called = FORMS[dataset.form].called
    for first, second in combinations(
        [name for name in SPLIT_TABLES if name in texts_in], 2
    ):
        texts_of_first = set(texts_in[first])
        shared = [text for text in texts_in[second] if text in texts_of_first]
        if shared:
            example = shared[0] if len(shared[0]) <= 60 else f"{shared[0][:60]}..."
            yield (
                f"{len(shared):,} of the {len(texts_in[second]):,} {called} of {second} are in {first} as well, the "
                f"first {example!r}"
            )


def _inputs(tables: Mapping[str, pa.Table]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the split and the row of each example; of retrieval, of each query."""
    for name, rows in tables.items():
        if name in SPLIT_TABLES:
            yield from ((name, row) for row in rows.to_pylist())
        elif name == "queries":
            yield from ((row["split"], row) for row in rows.to_pylist())
        elif name == "pairs":
            yield from (
                ("train", {"text": query}) for query in rows["query"].to_pylist()
            )


def report(dataset: Dataset, manifest: Manifest, data: Path) -> str:
    """Return what was made, in a few lines."""
    counts = ", ".join(f"{count:,} {split}" for split, count in manifest.counts.items())
    official = dataset.counts
    unlike = [
        f"{official[split]:,} {split}"
        for split in official
        if manifest.counts.get(split) != official[split]
    ]
    lines = [f"{data / dataset.name}: {counts}", f"  splits: {manifest.splits}"]
    if unlike:
        lines.append(f"  not all of the official data, which has {', '.join(unlike)}")
    lines += [f"  note: {note}" for note in manifest.notes]
    return "\n".join(lines)
