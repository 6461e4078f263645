"""Datasets on disk in the local form: write, load, verify. No torch.

`load_dataset(Path("data"), "sst2").train` is a `pyarrow.Table`; a dataset that is not there, is of another
schema version or differs from its hashes is a `UserError` that says what to run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.datasets.schema import (
    FORMS,
    SPLIT_TABLES,
    TABLE_NAMES,
    Manifest,
    TableInfo,
    schema_of,
    table_names,
)
from benchmarks.protocol import Dataset, get_dataset
from benchmarks.runs import SCORED_SPLITS
from common.errors import UserError, path_hint
from common.files import atomic_folder, sha256_file
from common.manifest import (
    MANIFEST,
    SEAL,
    DamagedError,
    check_files,
    read_manifest,
    strangers,
)
from common.plain_text import first_of
from common.reading import read_bounded


@dataclass(frozen=True, kw_only=True)
class DatasetContent:
    """A dataset in memory, ready to be written."""

    tables: Mapping[str, pa.Table]
    """Every table of `benchmarks.datasets.schema.table_names`, in the schema's columns."""
    splits: str
    """How the splits were made, in one sentence."""
    notes: tuple[str, ...] = ()
    """What was dropped, repaired or assumed."""


@dataclass(frozen=True, kw_only=True)
class LocalDataset:
    """A dataset read from disk."""

    dataset: Dataset
    """Its entry in the protocol."""
    manifest: Manifest
    """What its `manifest.json` says."""
    tables: Mapping[str, pa.Table] = field(repr=False)
    """Its tables by name."""

    @property
    def name(self) -> str:
        """The dataset's name."""
        return self.dataset.name

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes or tags by id; empty for QA and IR."""
        return self.manifest.labels

    @property
    def train(self) -> pa.Table:
        """The table that fine-tuning reads: examples; for retrieval pairs of query and positive, perhaps negatives."""
        return self.tables[FORMS[self.dataset.form].train]

    def evaluated(self) -> dict[str, pa.Table]:
        """Return the tables that a model reads in evaluation, by name.

        These are `validation` and `test`; for IR the queries of each, and `corpus`, the documents.
        """
        if "corpus" not in self.tables:
            return {split: self.tables[split] for split in SCORED_SPLITS}
        queries = {split: self.queries(split) for split in SCORED_SPLITS}
        return queries | {"corpus": self.corpus}

    @property
    def corpus(self) -> pa.Table:
        """The documents that are searched (IR): those judged for a query of either split, or all."""
        return self.tables["corpus"]

    def queries(self, split: str) -> pa.Table:
        """Return the queries of `validation` or `test` (IR); each has at least one relevant document."""
        return _of_split(self.tables["queries"], split)

    def qrels(self, split: str) -> pa.Table:
        """Return the judgements of `validation` or `test` (IR)."""
        return _of_split(self.tables["qrels"], split)


def _of_split(rows: pa.Table, split: str) -> pa.Table:
    """Return the rows whose column `split` has this value, without the column."""
    return rows.filter(pc.equal(rows["split"], split)).drop_columns(["split"])


def table(task: str, name: str, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Return rows as a table in the schema's columns; optional columns that no row fills are left out.

    Args:
        task: the local form.
        name: the name of one of its tables.
        rows: values by column; other keys than the schema's columns are dropped.

    Raises:
        UserError: a value is missing, has the wrong type or is no valid Unicode.
    """
    rows = list(rows)

    def is_filled(column: str) -> bool:
        return any(row.get(column) not in (None, []) for row in rows)

    # `is_filled` is asked only about the schema's optional columns; the others are always in the table.
    schema = schema_of(task, name, is_filled)
    # pyarrow itself would accept null in a column that must not have it.
    for column in schema:
        if column.nullable:
            continue
        for row in rows:
            if row.get(column.name) is None:
                raise UserError(
                    f"a row of the table {name} has no {column.name}: {row!r:.120}"
                )

    try:
        return pa.Table.from_pylist(rows, schema=schema)
    except (pa.ArrowException, UnicodeEncodeError):
        raise UserError(
            f"the values of a row of the table {name} do not fit its columns {', '.join(schema.names)}: one is of "
            "another kind, or not valid Unicode; correct the file"
        ) from None


def cluster_ids(dataset: Dataset, rows: pa.Table) -> list[int]:
    """Return the number of each row's cluster; clusters are numbered from 0 in the order of their first rows.

    A cluster is made of the rows with the same value in the column `dataset.cluster`, such as sentences of a document.
    The list is empty where the table has no such column: then every row stands for itself.
    """
    if dataset.cluster not in rows.column_names:
        return []
    numbers: dict[str | int, int] = {}
    ids = []
    for row, name in enumerate(rows[dataset.cluster].to_pylist()):
        # A row without a value is a cluster of its own. Its key is an integer, so it equals no other row's text.
        key = row if name is None else name
        ids.append(numbers.setdefault(key, len(numbers)))
    return ids


def write_dataset(
    data: Path,
    dataset: Dataset,
    content: DatasetContent,
    *,
    source: Mapping[str, Any],
    replace: bool = False,
) -> Manifest:
    """Write a dataset's folder whole or not at all, and return its manifest.

    A folder that already has this content is left as it is.

    Raises:
        UserError: the folder has the dataset with another content and `replace` is off, or holds files of others; a
            split is empty, an id occurs twice, or a label is outside the label set.
    """
    names = table_names(dataset)
    folder = data / dataset.name
    for name in names:
        _check_table(dataset, name, content)
    manifest = None
    try:
        # Any error in the block, including `_ThereError`, drops the temporary folder and leaves the old folder.
        # `_ThereError` is raised below for that: the same content is there, and a new folder is not needed.
        with contextlib.suppress(_ThereError), atomic_folder(folder) as temporary:
            # The files, and the manifest that describes them.
            infos = {
                name: _write_table(temporary, name, content.tables[name])
                for name in names
            }
            # In a table's entry `content` is the hash of its rows; the argument `content` is the dataset itself.
            # By name, so that the hash of them all does not depend on the order of the tables.
            hashes = {name: infos[name].content for name in sorted(infos)}

            # Rows are hashed, not files: another version of the Parquet writer writes other bytes.
            content_text = orjson.dumps(
                {"labels": dataset.label_names, "tables": hashes}
            )
            manifest = Manifest(
                dataset=dataset.name,
                task=dataset.task,
                content=hashlib.sha256(content_text).hexdigest(),
                tables=infos,
                counts=_counts(content.tables),
                labels=dataset.label_names,
                splits=content.splits,
                source=dict(source),
                licence=dataset.files.licence,
                citation=dataset.files.citation,
                notes=content.notes,
            )
            (temporary / MANIFEST).write_text(manifest.to_json(), encoding="utf-8")

            # At the end of the block the temporary folder replaces this one, unless an error is raised here.
            if folder.exists():
                check_place(folder)
                # `_same` does not compare words about the data. The folder keeps its own words, and the
                # manifest that is returned has the new ones.
                if _same(data, dataset, manifest):
                    raise _ThereError
                if not replace:
                    raise UserError(
                        f"{folder} contains a different version of {dataset.name}; add --replace to overwrite it"
                    )
    except OSError:
        # The temporary folder cannot take its place if another process put a folder there after the check.
        # Another process may have just written the same dataset: then all is well. There is no manifest
        # if the error came before all tables were written.
        if manifest is None or not _same(data, dataset, manifest):
            raise

    # For the type checker: the block above sets it or raises an error that leaves this function.
    assert manifest is not None
    return manifest


def check_place(folder: Path, sources: Iterable[Path] = ()) -> None:
    """Refuse to write a dataset to a folder that holds other files than a dataset's, which would be lost.

    Args:
        folder: the folder of the dataset, which need not exist.
        sources: files that the dataset is made from; they must not lie in the folder.

    Raises:
        UserError: the sentence names the other files.
    """
    if not folder.exists():
        return
    # `strangers` takes the hash of each file that is the package's own. "" in place of a hash allows any content:
    # a damaged file of the dataset is still the package's own.
    others = strangers(folder, dict.fromkeys(_written(folder), ""))
    others += [
        path.name
        for path in sources
        # A link to itself is refused later, in a sentence: realpath accepts it, Path.resolve would raise an error.
        if Path(os.path.realpath(path)).is_relative_to(folder.resolve())
    ]
    if others:
        raise UserError(
            f"{folder} holds other files ({first_of(others)}); choose another --out"
        )


def _written(folder: Path) -> list[str]:
    """Return the names of the files in a folder that this package wrote there, by the folder's manifest.

    A damaged manifest is not believed: then they are all files that a dataset may have.
    """
    path = folder / MANIFEST
    try:
        # "": the remedy at the end of a message that is never shown.
        tables = read_manifest(path, "").get("tables", ())
    except DamagedError:
        # Every manifest of this package has a seal. Without the word `seal` it is another program's file, and
        # so are the files beside it.
        if SEAL.encode() not in read_bounded(path):
            return []
        tables = TABLE_NAMES
    # There is no manifest, or one that cannot be read at all, such as a Git LFS pointer. Then nothing shows
    # that the files are the package's own.
    except (FileNotFoundError, UserError):
        return []

    return [MANIFEST, *(f"{name}.parquet" for name in tables)]


class _ThereError(Exception):
    """The folder already has the dataset that was to be written."""


def dataset_manifest(data: Path, dataset: Dataset | str) -> Manifest:
    """Return the manifest of a dataset under `data`.

    Raises:
        UserError: the name is unknown, the dataset is not there, or its manifest cannot be read.
    """
    dataset = get_dataset(dataset)
    path = find_manifest(data, dataset)
    manifest = Manifest.read(path)
    names = table_names(dataset)
    # Somebody may have renamed the folder, or given the definition of this name another kind.
    # The names of tables can be compared in their order: `Manifest.read` restores that of `FORMS`.
    if manifest.dataset != dataset.name or tuple(manifest.tables) != names:
        raise UserError(
            f"{path} describes {manifest.dataset} with the tables {', '.join(manifest.tables)}, not {dataset.name} "
            f"with {', '.join(names)}; fetch or import {dataset.name} again"
        )
    return manifest


def load_dataset(data: Path, dataset: Dataset | str) -> LocalDataset:
    """Read a dataset and check its files against the manifest's hashes.

    Args:
        data: the folder that holds one folder a dataset.
        dataset: the dataset, or the name of one of the paper's twelve.

    Raises:
        UserError: the dataset is not fetched, has another schema version, or differs from its manifest.
    """
    dataset = get_dataset(dataset)
    manifest = dataset_manifest(data, dataset)
    remedy = f"fetch or import {dataset.name} again with --replace"
    check_files(data / dataset.name, _files(manifest), remedy)
    tables = {
        name: _read_table(data / dataset.name, dataset, name, remedy)
        for name in manifest.tables
    }
    # Once more: a file may have changed while it was read, and runs record these hashes as those of what was read.
    check_files(data / dataset.name, _files(manifest), remedy)
    return LocalDataset(dataset=dataset, manifest=manifest, tables=tables)


def verify_dataset(data: Path, dataset: Dataset | str) -> list[str]:
    """Return in a list why a dataset differs from its manifest; the list is empty if it does not.

    Every byte and every row is read: the hashes of the files and the columns of the tables are compared.

    Raises:
        UserError: the dataset is not there.
    """
    dataset = get_dataset(dataset)
    # Only for its error: a missing dataset raises one, and any error below becomes an entry of the list.
    find_manifest(data, dataset)
    try:
        load_dataset(data, dataset)
    except UserError as error:
        return [str(error)]
    return []


def find_manifest(data: Path, dataset: Dataset) -> Path:
    """Return the path of a dataset's manifest in `data`; if it is missing, a `UserError` says how to get the data."""
    name = dataset.name
    path = data / name / MANIFEST
    if not path.is_file():
        fetch = f"clm-or-mlm fetch {name} --out {data}"
        convert = f"clm-or-mlm import {name} --train FILE ... --out {data}"
        if dataset.is_own:
            fetch = f"clm-or-mlm fetch {name} --datasets FILE --out {data}"
            convert = f"clm-or-mlm import {name} --datasets FILE --out {data}"

        # For the paper's datasets both ways are named.
        ways = f"`{fetch}` on a machine with network access, or `{convert}`"
        # A dataset of one's own comes either from files or from a repository on the hub.
        if dataset.is_own and dataset.files.pins:
            ways = f"`{fetch}` on a machine with network access"
        elif dataset.is_own:
            ways = f"`{convert}`"

        # `path_hint` adds which folders may have been meant by `data`; it is empty where there are none.
        raise UserError(
            f"{name} is not in {data}; run {ways}{path_hint(data, f'{name}/{MANIFEST}')}"
        )

    return path


def _files(manifest: Manifest) -> dict[str, str]:
    """Return the SHA-256 of each file that a manifest names."""
    return {f"{name}.parquet": info.sha256 for name, info in manifest.tables.items()}


def _read_table(folder: Path, dataset: Dataset, name: str, remedy: str) -> pa.Table:
    """Return a table of a dataset's folder; other columns raise a `UserError` that ends in the remedy."""
    path = folder / f"{name}.parquet"
    rows = pq.read_table(path)
    columns = rows.schema.remove_metadata()
    # The schema's optional columns are compared if the file has them, and are otherwise not expected.
    if columns != schema_of(dataset.form, name, columns.names.__contains__):
        raise UserError(
            f"{path} does not have the columns of the local format; {remedy}"
        )
    return rows


def _same(data: Path, dataset: Dataset, manifest: Manifest) -> bool:
    """Return whether the dataset on disk is the one that the manifest describes."""
    try:
        # "": the remedy at the end of a message that is never shown.
        check_files(data / dataset.name, _files(manifest), "")
        on_disk = dataset_manifest(data, dataset)
    except UserError:
        return False
    return _without_words(on_disk) == _without_words(manifest)


def _without_words(manifest: Manifest) -> str:
    """Return a manifest's text without its words about the data, which versions of the package may put differently."""
    return dataclasses.replace(
        manifest, splits="", licence="", citation="", notes=()
    ).to_json()


def _write_table(folder: Path, name: str, rows: pa.Table) -> TableInfo:
    """Write a table into a folder as Parquet, and return what the manifest says about it."""
    path = folder / f"{name}.parquet"
    pq.write_table(rows, path, compression="zstd", row_group_size=1 << 16)
    return TableInfo(
        rows=rows.num_rows,
        bytes=path.stat().st_size,
        sha256=sha256_file(path),
        content=_rows_hash(rows),
    )


def _rows_hash(rows: pa.Table) -> str:
    """Return the SHA-256 of the rows themselves, which no version of the Parquet writer changes."""
    digest = hashlib.sha256(orjson.dumps(rows.schema.names) + b"\n")
    for batch in rows.to_batches(max_chunksize=1 << 12):
        for row in batch.to_pylist():
            digest.update(orjson.dumps(row) + b"\n")
    return digest.hexdigest()


def _counts(tables: Mapping[str, pa.Table]) -> dict[str, int]:
    """Return the number of examples of each split; for retrieval, of training pairs and of queries."""
    if "queries" not in tables:
        return {split: tables[split].num_rows for split in SPLIT_TABLES}
    counts = {}
    # Retrieval sets that are only evaluated, such as NQ and MLDR, have no training pairs of their own.
    if "pairs" in tables:
        counts["train"] = tables["pairs"].num_rows
    splits = tables["queries"]["split"].to_pylist()
    for split in SCORED_SPLITS:
        counts[split] = splits.count(split)
    return counts


def _check_table(dataset: Dataset, name: str, content: DatasetContent) -> None:
    """Refuse a table whose rows would silently give a wrong score: none at all, an id twice, or an unknown label."""
    rows = content.tables[name]
    if not rows.num_rows:
        raise UserError(f"the table {name} of {dataset.name} would be empty")

    # `queries` is made with a row for each judged query of a split, so that no id is twice there; `pairs` and
    # `qrels` have no column `id`.
    if name in (*SPLIT_TABLES, "corpus"):
        # Each id (`values`) with the number of its rows (`counts`).
        counts = pc.value_counts(rows["id"])
        twice = counts.filter(pc.greater(counts.field("counts"), 1))
        if len(twice):
            row_id = twice[0]["values"].as_py()
            hint = ""
            # Only questions have ids of their files that can be left out: other rows get a number anyway.
            if dataset.form == "QA":
                hint = "; set ids = 'none' to number the questions instead"
            raise UserError(f"the id {row_id!r} occurs twice in the table {name}{hint}")

    # The column with the ids of labels; None: datasets of this form have no labels.
    label = FORMS[dataset.form].label
    if label is not None:
        numbers = rows[label]
        # A row has a list of numbers where it has several labels, or a tag for each word.
        if pa.types.is_list(numbers.type):
            numbers = pc.list_flatten(numbers)
        names = dataset.label_names
        is_negative = pc.less(numbers, 0)
        is_above = pc.greater_equal(numbers, len(names))
        wrong = numbers.filter(pc.or_(is_negative, is_above))
        if len(wrong):
            raise UserError(
                f"the table {name} of {dataset.name} has the label number {wrong[0].as_py()}, but there are "
                f"{len(names)} labels, numbered from 0: {', '.join(names)}"
            )
