"""Original distribution files: plain, .gz or .zst; TSV, JSON, JSON lines or Parquet. Bad rows are named.

Those of one's own may be CSV, too, and their TSV may have quotes or no header.
"""

from __future__ import annotations

import contextlib
import csv
import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.datasets.schema import DOCUMENT, Row
from benchmarks.protocol import DatasetFiles
from common.errors import UserError, first_line
from common.packed import plain_suffix, unpacked
from common.progress import progress

_BATCH = 1 << 14
_LONGEST = 1 << 28
"""Bytes of the longest line that is read: all of SQuAD is a line of 30 MB."""
csv.field_size_limit(2 * _LONGEST)


class BadRowError(ValueError):
    """What is wrong with a row, in a sentence that does not name its place."""


@contextlib.contextmanager
def row_at(where: str) -> Iterator[None]:
    """Name the place of the row that a block reads where it is bad, or its fields are missing or of another kind.

    Raises:
        UserError: it is; the sentence begins with the place.
    """
    try:
        yield
    except BadRowError as error:
        raise UserError(f"{where}: {error}") from None
    except UserError:
        raise
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, OverflowError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else first_line(error)
        raise UserError(f"{where}: the row does not have the expected form: {what}") from None


def pick(row: Row, names: Sequence[str]) -> Any:
    """Return the first of the columns `names` that the row has; `BadRowError` where it has none."""
    for name in names:
        if row.get(name) is not None:
            return row[name]
    there = ", ".join(repr(name[:40]) for name in row)
    raise BadRowError(f"there is no column {' or '.join(names)}; the columns are {there}")


def pick_text(row: Row, names: Sequence[str]) -> str:
    """Return what `pick` finds; `BadRowError` where it is no text."""
    found = pick(row, names)
    if not isinstance(found, str):
        raise BadRowError(f"{names[0]} is not text: {found!r:.80}")
    return found


def document_of(row: Row, names: Sequence[str]) -> Row:
    """Return what the local form has of a row's document: nothing where none of the columns `names` has a value."""
    found = next((row[name] for name in names if row.get(name) is not None), None)
    return {} if found is None else {DOCUMENT: str(found)}


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, line without its end) of a text file, compressed or not.

    Only a newline ends a line, so that a form feed or a Unicode separator inside a text is kept.

    Raises:
        UserError: the file is absent, cut short or not UTF-8, or a line is endless; the line is named.
    """
    if not path.is_file():
        raise UserError(f"there is no file {path}")
    number = 0
    try:
        with path.open("rb") as raw:
            read = functools.partial(unpacked(path, raw).readline, _LONGEST)
            for number, line in enumerate(iter(read, b""), 1):
                if len(line) == _LONGEST:
                    raise UserError(f"{path}:{number}: the line is too long ({_LONGEST:,} bytes or more)")
                text = line.removesuffix(b"\n").removesuffix(b"\r")
                yield number, text.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{path}:{number}: the line is not UTF-8; convert the file first") from None
    except OSError as error:
        if error.errno is not None:
            raise
        raise UserError(
            f"{path}: the compressed file is damaged after line {number} ({first_line(error)})"
        ) from None


def json_of(path: Path) -> Any:
    """Return a JSON file's content; `UserError` names the line where it is none."""
    try:
        return orjson.loads("\n".join(line for _, line in lines(path)))
    except orjson.JSONDecodeError as error:
        raise UserError(f"{path}:{error.lineno}: not valid JSON ({error.msg})") from None


def is_text(path: Path) -> bool:
    """Return whether a file's lines need not name their fields, by its name."""
    return plain_suffix(path) not in _ROWS


def records(path: Path, files: DatasetFiles) -> Iterator[tuple[str, Row]]:
    """Yield (where, row) of Parquet, JSON lines, a JSON array or object of rows, or a table with a header.

    Args:
        path: the file; its kind follows from its name.
        files: of whose dataset it is; they say how a table of text is read.

    Raises:
        UserError: a row cannot be read; the sentence names its place.
    """
    return _ROWS.get(plain_suffix(path), _table_rows)(path, files)


def class_names(path: Path, column: str) -> tuple[str, ...]:
    """Return the class names that a hub's Parquet file declares for `column`; none where it declares none."""
    if plain_suffix(path) != ".parquet":
        return ()
    with parquet_file(path) as file:
        metadata = (file.schema_arrow.metadata or {}).get(b"huggingface")
    feature = orjson.loads(metadata)["info"]["features"].get(column) if metadata else None
    while feature is not None:
        feature = feature[0] if isinstance(feature, list) else feature
        if feature.get("names"):
            return tuple(feature["names"])
        feature = feature.get("feature")
    return ()


@contextlib.contextmanager
def parquet_file(path: Path) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file; `UserError` when it is absent, or turns out damaged while it is read."""
    try:
        with pq.ParquetFile(path) as file:
            yield file
    except FileNotFoundError:
        raise UserError(f"there is no file {path}") from None
    except UserError:
        raise
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise UserError(f"{path} cannot be read as Parquet: {first_line(error)}") from None


def _parsed(line: str) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return None


def _json_line_rows(path: Path, files: DatasetFiles) -> Iterator[tuple[str, Row]]:
    for number, line in lines(path):
        if line.strip():
            if not isinstance(row := _parsed(line), dict):
                raise UserError(f"{path}:{number}: the line is not a JSON object")
            yield f"{path}:{number}", row


def _json_rows(path: Path, files: DatasetFiles) -> Iterator[tuple[str, Row]]:
    first = [line for (_, line), _ in zip(lines(path), range(2), strict=False)]
    if len(first) == 2 and isinstance(_parsed(first[0]), dict):
        yield from _json_line_rows(path, files)
        return
    content = json_of(path)
    if not isinstance(content, dict | list):
        raise UserError(f"{path} contains neither a list nor an object of rows")
    for key, row in content.items() if isinstance(content, dict) else enumerate(content):
        if not isinstance(row, dict):
            raise UserError(f"{path}: entry {key}: the entry is not a JSON object")
        yield f"{path}: entry {key}", row


def _parquet_rows(path: Path, files: DatasetFiles) -> Iterator[tuple[str, Row]]:
    number = 0
    with parquet_file(path) as file:
        total = -(-file.metadata.num_rows // _BATCH)
        for batch in progress(file.iter_batches(_BATCH), path.name, total=total, unit="batch"):
            for row in batch.to_pylist():
                yield f"{path}: row {number}", row
                number += 1


def _table_rows(path: Path, files: DatasetFiles) -> Iterator[tuple[str, Row]]:
    """Yield the rows of a table of text.

    CSV is read as RFC 4180 has it, with the comma, semicolon or tab that its first line has most of. Whether quotes
    around a field of a TSV file are part of its text is for the definition to say; those of the paper's files are.
    """
    is_csv = ".csv" in path.suffixes
    if is_csv or files.quotes:
        first = next((line for _, line in lines(path)), "")
        rows = list(_quoted(path, max(",;\t", key=first.count) if is_csv else "\t"))
    else:
        rows = [(number, line.split("\t")) for number, line in lines(path) if number == 1 or line.strip()]
    marked = (number for number, fields in rows if any(field[:1] == '"' for field in fields))
    if files.content and files.quotes is None and not is_csv and (number := next(marked, None)):
        raise UserError(
            f"{path}:{number}: the quotes may enclose the text or be part of it; set quotes = true if they enclose "
            f"it, else quotes = false, in {files.where}"
        )
    header = list(files.header) or (rows.pop(0)[1] if rows else [])
    if files.header and rows and rows[0][1] == header:
        raise UserError(f"{path}:1: the first line is the header; remove `header` from {files.where}")
    for number, fields in rows:
        if len(fields) != len(header):
            raise UserError(f"{path}:{number}: the line has {len(fields)} columns instead of {len(header)}")
        yield f"{path}:{number}", dict(zip(header, fields, strict=True))


def _quoted(path: Path, mark: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of each row's first line, and its fields."""
    reader, start = csv.reader((f"{line}\n" for _, line in lines(path)), delimiter=mark, strict=True), 1
    try:
        for fields in reader:
            if fields:
                yield start, fields
            start = reader.line_num + 1
    except csv.Error as error:
        raise UserError(f"{path}:{start}: the line has invalid quotes ({error})") from None


_ROWS: dict[str, Callable[[Path, DatasetFiles], Iterator[tuple[str, Row]]]] = {
    ".parquet": _parquet_rows,
    ".csv": _table_rows,
    ".jsonl": _json_line_rows,
    ".json": _json_rows,
}
"""How the rows of a file are read, by the end of its name; any other name is a file of lines."""
