"""The runs table: one row a run, the contract between a run store and every statistic made of it.

    model, task, dataset     the run's model, and what it was fine-tuned and evaluated on
    lr, seed                 its learning rate (float64) and seed (int64)
    validation_score         in [0, 1] (float64); the learning rate is selected by it
    test_score               in [0, 1] (float64)
    n_validation, n_test     number of instances behind each score (Int64, missing when not known)

Rows are unique in (model, dataset, lr, seed) and sorted: models and datasets in the study's order (others
after them by name), then learning rate, then seed. The file is Parquet, or CSV with these columns or
with the header `model,task,dataset,lr,seed,val_score,test_score`; `runs.parquet.manifest.json` next to it has its
hash. A Parquet file records what its names mean besides the paper's: added models, and the definitions of datasets of
one's own.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from analysis.store.instances import RUN_FIELDS
from analysis.store.runs_check import (
    ALIASES,
    COLUMNS,
    KEYS,
    NUMBERS,
    OPTIONAL,
    check_header,
    check_rows,
    sort_runs,
)
from benchmarks.own_datasets.definitions import definitions_record, known_datasets, recorded_definitions
from benchmarks.protocol import DATASETS, PAPER, PROTOCOLS, Dataset
from common.errors import UserError, first_line
from common.files import sha256_bytes, write_bytes
from common.manifest import FILES, DamagedError, read_manifest, write_manifest
from common.plain_text import name_fault
from common.reading import BadJsonError, read_bounded, strict_json
from common.tables import csv_text

__all__ = [
    "COLUMNS", "KEYS", "RunsTable", "manifest_path", "read_runs", "read_table", "refuse_csv", "sort_runs", "write_runs",
]  # fmt: skip

_MOST, _MOST_ROWS = 1 << 30, 10_000_000
"""Bytes and rows of the largest table that is read; that of the whole release has 18,483 rows."""
_SCHEMA = pa.schema(
    [
        *RUN_FIELDS,
        ("validation_score", pa.float64()),
        ("test_score", pa.float64()),
        ("n_validation", pa.int64()),
        ("n_test", pa.int64()),
    ]
)
_METADATA = b"clm_or_mlm"
_AGAIN = "make it again with ingest"


@dataclass(frozen=True, kw_only=True)
class RunsTable:
    """A runs table that was read, and what it records."""

    runs: pd.DataFrame
    """The rows, checked and sorted."""
    added_models: tuple[str, ...] = ()
    """The models outside the released naming scheme that `ingest --add-model` took; a CSV records none."""
    protocol: str | None = None
    """Whose scores they are, as a Parquet file records it; None of a CSV."""
    datasets: Mapping[str, Dataset]
    """Those that are known: the paper's, and after them what the table defines."""
    sealed: bool
    """Whether a manifest is there, which was compared with it: those that this package wrote have one."""


def manifest_path(table: Path) -> Path:
    """Return where the manifest of a runs table is."""
    return table.with_name(f"{table.name}.manifest.json")


def read_runs(path: Path, *, add_models: Sequence[str] = ()) -> pd.DataFrame:
    """Return the rows of the runs table in `path`, as `read_table` reads them."""
    return read_table(path, add_models=add_models).runs


def read_table(path: Path, *, add_models: Sequence[str] = ()) -> RunsTable:
    """Return the runs table in `path` (Parquet, or CSV by its ending), checked and sorted.

    Args:
        path: the file.
        add_models: names or shell patterns of models outside the released scheme that are accepted besides
            those that a Parquet file itself records.

    Raises:
        UserError: the file is absent or no table, was changed since it was written, its header lacks a column, or a
            row has an unknown model or dataset, a task that is not the dataset's, a score outside [0, 1], or repeats
            an earlier row; or a recorded definition is damaged.
    """
    if not path.is_file():
        verb = "is a folder; a run store becomes a runs table" if path.is_dir() else "does not exist; make it"
        raise UserError(f"{path}: {verb} with python -m analysis ingest STORE --out runs.parquet")
    content = read_bounded(path, _MOST)
    sealed = _is_as_written(path, content)
    if path.suffix.lower() == ".csv":
        runs = check_rows(_csv_rows(path, content), path, first_row=2, added=add_models, datasets=DATASETS)
        return RunsTable(runs=runs, datasets=DATASETS, sealed=sealed)
    try:
        file = pq.ParquetFile(pa.BufferReader(content))
        if (rows := file.metadata.num_rows) > _MOST_ROWS:
            raise UserError(f"{path}: has {rows:,} rows, and no runs table needs more than {_MOST_ROWS:,}")
        check_header([ALIASES.get(name, name) for name in file.schema_arrow.names], path)
        record = _record(path, (file.schema_arrow.metadata or {}).get(_METADATA, b"{}"))
        table = file.read()
        table.validate(full=True)
        _check_types(table, path)
        frame = table.to_pandas(ignore_metadata=True).rename(columns=ALIASES)
    except UserError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError, MemoryError, OverflowError) as error:
        reason = first_line(error)
        raise UserError(f"{path}: no Parquet file that can be read ({reason}); {_AGAIN}") from None
    datasets = known_datasets(recorded_definitions(record["datasets"], path))
    added = tuple(record["added_models"])
    runs = check_rows(frame, path, first_row=1, added=(*add_models, *added), datasets=datasets)
    return RunsTable(
        runs=runs, added_models=added, protocol=record["protocol"], datasets=datasets, sealed=sealed
    )


def refuse_csv(out: Path, *, added: Iterable[str], protocol: str, datasets: Iterable[Dataset]) -> None:
    """Raise a `UserError` where a file is a CSV, which could not record what the names in it mean.

    Args:
        out: the file to be written.
        added: models outside the released scheme.
        protocol: by which the scores are.
        datasets: those of its rows.
    """
    own = ", ".join(definitions_record(datasets))
    unrecorded = {
        "models taken with --add-model": any(added),
        "protocol": protocol != PAPER,
        f"definitions of datasets of your own ({own})": bool(own),
    }
    what = next((name for name, there in unrecorded.items() if there), None)
    if what is not None and out.suffix.lower() == ".csv":
        raise UserError(f"{out}: a CSV cannot record the {what}; let --out end in .parquet")


def write_runs(
    path: Path,
    runs: pd.DataFrame,
    *,
    add_models: Iterable[str] = (),
    protocol: str = PAPER,
    datasets: Mapping[str, Dataset] = DATASETS,
) -> None:
    """Write a runs table and its manifest atomically, as Parquet or, by its ending, CSV; equal tables give equal bytes.

    A file that holds these bytes already is left untouched, so that what depends on it stays up to date.

    Args:
        path: the file, replaced when it exists.
        runs: the columns of `COLUMNS`, in any row order.
        add_models: the models outside the released naming scheme among them, recorded in a Parquet file.
        protocol: the protocol of the scores, recorded likewise.
        datasets: those that are known; the definitions of the rows' own ones are recorded likewise.
    """
    frame = sort_runs(runs)
    if path.suffix.lower() == ".csv":
        content = csv_text(frame.loc[:, list(COLUMNS)]).encode()
    else:
        columns = [pa.array(frame[field.name], type=field.type, from_pandas=True) for field in _SCHEMA]
        own = definitions_record(datasets[name] for name in sorted(frame["dataset"].unique()))
        record = {"added_models": sorted(set(add_models)), "datasets": own, "protocol": protocol}
        schema = _SCHEMA.with_metadata({_METADATA: json.dumps(record).encode()})
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_arrays(columns, schema=schema), sink, compression="zstd")
        content = sink.getvalue().to_pybytes()
    manifest = manifest_path(path)
    if not path.is_file() or path.read_bytes() != content:
        manifest.unlink(missing_ok=True)  # killed before the new one is there, this leaves a table without
        write_bytes(path, content)
    if path.is_file():  # neither a device nor a pipe
        write_manifest(manifest, {}, {path.name: sha256_bytes(content)})


def _is_as_written(path: Path, content: bytes) -> bool:
    """Return whether a table has a manifest, after comparing it.

    Raises:
        DamagedError: the table was changed since it was written, or its manifest was.
    """
    manifest = manifest_path(path)
    remedy = f"make both again with ingest, or delete {manifest} to have it read as a table of your own"
    try:
        files = read_manifest(manifest, remedy).get(FILES, {})
    except FileNotFoundError:
        return False
    # By its hash alone: both may have been given another name.
    if list(files.values()) != [sha256_bytes(content)]:
        raise DamagedError(f"{path}: was changed since it was written; {remedy}")
    return True


def _record(path: Path, content: bytes) -> dict[str, Any]:
    """Return what a Parquet table's maker recorded in it, checked; of tables of other makers what no record means."""
    try:
        record = strict_json(content)
        added, datasets = record.get("added_models", []), record.get("datasets", {})
        protocol = record.get("protocol", PAPER)
    except (BadJsonError, AttributeError) as error:
        raise UserError(f"{path}: its record is damaged ({error}); {_AGAIN}") from None
    if not isinstance(added, list) or not all(
        isinstance(name, str) and not name_fault(name) for name in added
    ):
        raise UserError(f"{path}: its record of added models is damaged; {_AGAIN}")
    if not isinstance(datasets, dict):
        raise UserError(f"{path}: its record of datasets is damaged; {_AGAIN}")
    if not isinstance(protocol, str) or protocol not in PROTOCOLS:
        raise UserError(f"{path}: its record names no known protocol; {_AGAIN}")
    return {"added_models": added, "datasets": datasets, "protocol": protocol}


def _check_types(table: pa.Table, path: Path) -> None:
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind)
        if name in ("model", "task", "dataset") and not text:
            raise UserError(f"{path}: the column {name} holds {kind}, not text")
        if name in (*NUMBERS, "val_score") and not number:
            raise UserError(f"{path}: the column {name} holds something that is no number ({kind})")


def _csv_rows(path: Path, content: bytes) -> pd.DataFrame:
    try:
        rows = list(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline="")))
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path}: no CSV file in UTF-8 ({error})") from None
    if not rows:
        raise UserError(f"{path}: the file is empty; the first line of a runs table names its columns")
    header = [ALIASES.get(name.strip(), name.strip()) for name in rows[0]]
    check_header(header, path)
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(header):
            raise UserError(f"{path}: line {number} has {len(row)} fields, the header has {len(header)}")
    frame = pd.DataFrame(rows[1:], columns=header, dtype=object)
    for name in NUMBERS:
        if name in frame:
            frame[name] = [_number(text, name, path, line) for line, text in enumerate(frame[name], start=2)]
    return frame


def _number(text: str, name: str, path: Path, line: int) -> float | None:
    if not text.strip() and name in OPTIONAL:
        return None
    try:
        return float(text)
    except ValueError:
        shown = repr(text)[:60]
        raise UserError(f"{path}: line {line} has {name} {shown}, which is no number") from None
