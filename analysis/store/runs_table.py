"""The runs table: one row a run, the contract between a run store and every statistic made of it.

    model, task, dataset     the run's model, and what it was fine-tuned and evaluated on
    lr, seed                 its learning rate (float64) and seed (int64)
    validation_score         in [0, 1] (float64); the learning rate is selected by it
    test_score               in [0, 1] (float64)
    n_validation, n_test     number of instances behind each score (Int64, missing when not known)

Rows are unique in (model, dataset, lr, seed) and sorted: models and datasets in the study's order (others
after them by name), then learning rate, then seed. The file is Parquet, or CSV with these columns or
with the header `model,task,dataset,lr,seed,val_score,test_score`. What is written here is sealed. A Parquet file
records what its names mean besides the paper's: added models, and the definitions of datasets of one's own.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
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
from analysis.store.table_seal import check_seal, content_seal, seal_path, write_seal
from benchmarks.own_datasets.definitions import definitions_record, register_record
from benchmarks.protocol import DATASETS, PAPER, PROTOCOLS
from common.errors import UserError, first_line
from common.files import write_bytes
from common.plain_text import name_fault, visible
from common.reading import BadJsonError, read_bounded, strict_json
from common.tables import csv_text

__all__ = [
    "COLUMNS",
    "KEYS",
    "added_models",
    "is_sealed",
    "protocol_of",
    "read_runs",
    "sort_runs",
    "write_runs",
]

_MOST, _MOST_ROWS = 1 << 30, 10_000_000
"""Bytes and rows of the largest table that is read; that of the whole release has 18,483 rows."""
_UNREADABLE = (pa.ArrowException, OSError, ValueError, KeyError, MemoryError, OverflowError)
"""What reading a damaged Parquet file raises."""
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


def added_models(path: Path) -> tuple[str, ...]:
    """Return the models outside the released naming scheme that a Parquet runs table holds by its maker's word.

    They were named with `ingest --add-model`; a CSV has none.
    """
    return tuple(_recorded(path).get("added_models", ()))


def protocol_of(path: Path) -> str:
    """Return the protocol whose scores a runs table holds, as a Parquet file records it; a CSV holds `paper`'s."""
    return str(_recorded(path).get("protocol", PAPER))


def is_sealed(path: Path) -> bool:
    """Return whether a runs table carries a seal, as those do that this package wrote; `read_runs` compares it."""
    return seal_path(path).exists() if path.suffix.lower() == ".csv" else "seal" in _recorded(path)


def _recorded(path: Path) -> dict[str, Any]:
    """Return what a Parquet table's maker recorded in it, checked; empty for a CSV and for tables of other makers."""
    if path.suffix.lower() == ".csv":
        return {}
    try:
        _check_size(path)
        content = (pq.read_schema(path).metadata or {}).get(_METADATA)
    except _UNREADABLE as error:
        raise _unreadable(path, error) from None
    if content is None:
        return {}
    try:
        record = strict_json(content)
        added, protocol = record.get("added_models", []), record.get("protocol", PAPER)
        datasets = record.get("datasets", {})
    except (BadJsonError, AttributeError) as error:
        raise UserError(f"{path}: its record is damaged ({error}); make it again with ingest") from None
    if not isinstance(added, list) or not all(
        isinstance(name, str) and not name_fault(name) for name in added
    ):
        raise UserError(f"{path}: its record of added models is damaged; make it again with ingest")
    if not isinstance(datasets, dict):
        raise UserError(f"{path}: its record of datasets is damaged; make it again with ingest")
    if not isinstance(protocol, str) or protocol not in PROTOCOLS:
        raise UserError(f"{path}: its record names no known protocol; make it again with ingest")
    return dict(record)


def _check_size(path: Path) -> None:
    if path.stat().st_size > _MOST:
        raise UserError(f"{path}: has more than {_MOST:,} bytes, and no runs table needs that many")


def read_runs(path: Path, *, add_models: Sequence[str] = ()) -> pd.DataFrame:
    """Return the runs table in `path` (Parquet, or CSV by its ending), checked and sorted.

    The datasets of one's own that a Parquet file records are registered.

    Args:
        path: the file.
        add_models: names or shell patterns of models outside the released scheme that are accepted besides
            those that a Parquet file itself records.

    Raises:
        UserError: the file is absent or no table, its header lacks a column, or a row has an unknown model
            or dataset, a task that is not the dataset's, a score outside [0, 1], or repeats an earlier row; or a
            recorded definition is damaged or means another dataset than the one that is registered.
    """
    if not path.is_file():
        what = (
            "is a folder; a run store becomes a runs table with"
            if path.is_dir()
            else "does not exist; make it with"
        )
        raise UserError(f"{path}: {what} python -m analysis ingest STORE --out runs.parquet")
    if path.suffix.lower() == ".csv":
        return check_rows(_read_csv(path), path, first_row=2, added=add_models)
    recorded = _recorded(path)
    register_record(recorded.get("datasets", {}), path)
    try:
        if (rows := pq.read_metadata(path).num_rows) > _MOST_ROWS:
            raise UserError(f"{path}: has {rows:,} rows, and no runs table needs more than {_MOST_ROWS:,}")
        check_header([ALIASES.get(name, name) for name in pq.read_schema(path).names], path)
        table = pq.read_table(path, memory_map=False)
        table.validate(full=True)
        _check_types(table, path)
        frame = table.to_pandas(ignore_metadata=True).rename(columns=ALIASES)
    except UserError:
        raise
    except _UNREADABLE as error:
        raise _unreadable(path, error) from None
    runs = check_rows(frame, path, first_row=1, added=(*add_models, *recorded.get("added_models", ())))
    if "seal" in recorded and recorded["seal"] != _seal(runs, recorded):
        raise UserError(
            f"{path}: was changed since it was written: its seal does not fit; make it again with ingest"
        )
    return runs


def _seal(runs: pd.DataFrame, record: Mapping[str, Any]) -> str:
    return content_seal(csv_text(runs.loc[:, list(COLUMNS)]), record)


def _check_types(table: pa.Table, path: Path) -> None:
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind)
        if name in ("model", "task", "dataset") and not text:
            raise UserError(f"{path}: the column {name} holds {kind}, not text")
        if name in (*NUMBERS, "val_score") and not number:
            raise UserError(f"{path}: the column {name} holds something that is no number ({kind})")


def refuse_csv(out: Path, *, added: Collection[str], protocol: str, datasets: Iterable[str]) -> None:
    """Raise a `UserError` where a file is a CSV, which could not record what the names in it mean.

    Args:
        out: the file to be written.
        added: models outside the released scheme.
        protocol: by which the scores are.
        datasets: names of datasets.
    """
    own = ", ".join(definitions_record(DATASETS[name] for name in sorted(datasets)))
    unrecorded = {
        "models taken with --add-model": bool(added),
        "protocol": protocol != PAPER,
        f"definitions of datasets of your own ({own})": bool(own),
    }
    what = next((name for name, there in unrecorded.items() if there), None)
    if what is not None and out.suffix.lower() == ".csv":
        raise UserError(f"{out}: a CSV cannot record the {what}; let --out end in .parquet")


def write_runs(
    path: Path, runs: pd.DataFrame, *, add_models: Iterable[str] = (), protocol: str = PAPER
) -> None:
    """Write a runs table atomically, as Parquet or, by its ending, CSV; equal tables give equal bytes.

    The definitions of datasets of one's own are recorded in a Parquet file.

    A file that holds these bytes already is left untouched, so that what depends on it stays up to date.

    Args:
        path: the file, replaced when it exists.
        runs: the columns of `COLUMNS`, in any row order.
        add_models: the models outside the released naming scheme among them, recorded in a Parquet file.
        protocol: the protocol of the scores, recorded likewise.
    """
    frame = sort_runs(runs)
    if path.suffix.lower() == ".csv":
        content = csv_text(frame.loc[:, list(COLUMNS)]).encode()
    else:
        columns = [pa.array(frame[field.name], type=field.type, from_pandas=True) for field in _SCHEMA]
        record: dict[str, Any] = {"format": 1, "added_models": sorted(set(add_models)), "protocol": protocol}
        if own := definitions_record(DATASETS[name] for name in sorted(frame["dataset"].unique())):
            record["datasets"] = own
        record["seal"] = _seal(frame, record)
        schema = _SCHEMA.with_metadata({_METADATA: json.dumps(record).encode()})
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_arrays(columns, schema=schema), sink, compression="zstd")
        content = sink.getvalue().to_pybytes()
    if not path.is_file() or path.read_bytes() != content:
        write_bytes(path, content)
    if path.suffix.lower() == ".csv":
        write_seal(path, content)


def _unreadable(path: Path, error: Exception) -> UserError:
    reason = visible(first_line(error))
    return UserError(f"{path}: no Parquet file that can be read ({reason}); make it again with ingest")


def _read_csv(path: Path) -> pd.DataFrame:
    try:
        content = read_bounded(path, _MOST)
        check_seal(path, content)
        text = content.decode("utf-8-sig")
        rows = list(csv.reader(io.StringIO(text, newline="")))
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
        shown = visible(repr(text))[:60]
        raise UserError(f"{path}: line {line} has {name} {shown}, which is no number") from None
