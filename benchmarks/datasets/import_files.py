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
"""The number of a part in a file's name, such as `-00001-of-00004` or `_2`."""

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
"""The function that reads a dataset's original files, by `DatasetFiles.reader`."""


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
        files: files by role, see `ReaderInputs.files`; a path may also be a pattern, or a folder (see `_parts`).
        data: the folder that holds one folder a dataset.
        replace: overwrite a dataset of another content.

    Raises:
        UserError: no file is named, or one is absent or bad.
    """
    if not files:
        raise UserError(f"name the files to import: {dataset.files.originals}")
    # The single files: a path in `files` may mean several.
    parts: dict[str, list[Path]] = {}
    for role, paths in files.items():
        parts[role] = list(chain.from_iterable(map(_parts, paths)))
    # The dataset's own folder is replaced as a whole at the end. Other files in that folder would be lost, and so
    # would the original files if they lie there.
    check_place(data / dataset.name, chain.from_iterable(parts.values()))
    entries = []
    for role, paths in parts.items():
        for path in paths:
            entry: dict[str, Any] = {"role": role, "name": path.name}
            entry |= {"bytes": path.stat().st_size, "sha256": sha256_file(path)}
            entries.append(entry)

    source = {"kind": "import", "files": entries}
    manifest = make(dataset, parts, data, source=source, replace=replace)
    return import_summary(dataset, manifest, data)


def _parts(path: Path) -> list[Path]:
    """Return the files that a path of the command line means: a file, a pattern's files, or a folder's.

    A folder has the tree of CoNLL-2012, or the numbered parts of one file, which are returned in their order.

    Raises:
        UserError: there is no file, or a folder's files are not numbered parts of one file.
    """
    if path.is_file():
        return [path]
    # Neither a file nor a folder: perhaps a pattern in quotes, which the shell did not expand.
    if not path.is_dir():
        # A pattern may have wildcards in any part of the path; `Path.glob` needs the folder in front of them.
        parts = sorted(map(Path, glob.glob(str(path), recursive=True)))  # noqa: PTH207  (in any part)
        if not parts:
            raise UserError(f"there is no file {path}")
        return parts

    # CoNLL-2012 is a tree with thousands of files, each a document.
    parts = sorted(path.rglob("*_gold_conll"))
    # Names without the numbers of parts: more than one means that the parts are of several files.
    whole_names: set[str] = set()
    if not parts:
        parts = sorted(part for part in path.iterdir() if is_data(part))
        # train-00000-of-00004 and train-00001-of-00004 are parts of one file; train and test are not.
        whole_names = {_NUMBERS.sub("", part.name) for part in parts}

    if not parts or len(whole_names) > 1:
        contents = first_of(sorted(part.name for part in path.iterdir())) or "nothing"
        raise UserError(
            f"{path} is a folder without *_gold_conll files or numbered parts of one data file (it has {contents}); "
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
        replace: overwrite a dataset of another content.

    Raises:
        UserError: a file is missing or bad, or `data` already has the dataset with another content.
    """
    files_of = {role: tuple(paths) for role, paths in files.items()}
    # Only MS MARCO and MLDR name a reader of their own. The others have that of their form.
    read = READERS[dataset.files.reader or dataset.form]
    content = read(ReaderInputs(dataset=dataset, files=files_of))
    # What the reader noted, then which labels `train` lacks, then which splits share examples.
    notes = [*content.notes]
    notes += unused(dataset, content.tables)
    notes += overlaps(dataset, content.tables)
    with_notes = replace_fields(content, notes=tuple(notes))
    return write_dataset(data, dataset, with_notes, source=source, replace=replace)


def unused(dataset: Dataset, tables: Mapping[str, pa.Table]) -> Iterator[str]:
    """Yield a sentence that names the labels without an example in `train`; only for a dataset of one's own."""
    # The column with the ids of labels; None: datasets of this form have no labels.
    column = FORMS[dataset.form].label
    if not dataset.is_own or column is None:
        return
    ids = tables["train"][column]

    # A row has a list of ids where it has several labels, or a tag for each word.
    if pa.types.is_list(ids.type):
        ids = pc.list_flatten(ids)
    used_ids = set(ids.to_pylist())
    unused_names = []
    for label_id, name in enumerate(dataset.label_names):
        if label_id not in used_ids:
            unused_names.append(name)

    if unused_names:
        yield f"train has no example of {', '.join(unused_names)}"


def overlaps(dataset: Dataset, tables: Mapping[str, pa.Table]) -> Iterator[str]:
    """Yield a sentence for each two splits that share examples, since a score on such a test set says less.

    The sentence says how many examples of the later split are also in the earlier one, and shows the first of them.
    """
    texts_in: dict[str, list[str]] = {}
    for split, row in _inputs(tables):
        # The example as a model reads it. `texts_of` returns a list, which has one text for each row of `_inputs`.
        texts_in.setdefault(split, []).append(" ".join(texts_of(dataset, row)))

    # What the sentence calls the examples: texts, sentences, questions with their contexts, or queries.
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
    """Yield the split and the row of each example; for retrieval, of each query, also those of training pairs."""
    for name, rows in tables.items():
        if name in SPLIT_TABLES:
            yield from ((name, row) for row in rows.to_pylist())
        elif name == "queries":
            yield from ((row["split"], row) for row in rows.to_pylist())
        elif name == "pairs":
            # As a row of the table of queries: without its positive, which is no input here.
            yield from (
                ("train", {"text": query}) for query in rows["query"].to_pylist()
            )


def import_summary(dataset: Dataset, manifest: Manifest, data: Path) -> str:
    """Return what was made, in a few lines: counts, splits, differences from the official counts, and notes."""
    counts = ", ".join(f"{count:,} {split}" for split, count in manifest.counts.items())
    # The official counts of the splits that have another count here.
    official = []
    for split, count in dataset.counts.items():
        if manifest.counts.get(split) != count:
            official.append(f"{count:,} {split}")
    lines = [f"{data / dataset.name}: {counts}", f"  splits: {manifest.splits}"]
    if official:
        lines.append(f"  not all of the official data, which has {', '.join(official)}")
    lines += [f"  note: {note}" for note in manifest.notes]
    return "\n".join(lines)
