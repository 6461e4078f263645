"""Original distribution files: plain, .gz, .xz or .zst; TSV, JSON, JSON lines or Parquet. Bad rows are named.

Files of one's own may also be CSV, and their TSV may have quotes or no header. A table of text is a TSV or CSV file.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.datasets.schema import DOCUMENT, Row
from benchmarks.protocol import DatasetFiles
from common.errors import UserError
from common.packed import plain_suffix, unpacked
from common.progress import progress
from common.reading import text_of

_BATCH = 1 << 14
"""Rows of a Parquet file that are read at a time."""
_LONGEST = 1 << 28
"""Bytes at which a line is too long: all of SQuAD is a line of 30 MB."""
csv.field_size_limit(2 * _LONGEST)


class BadRowError(ValueError):
    """A row that cannot be used: the sentence says why, and `row_at` puts the row's place before it."""


@contextlib.contextmanager
def row_at(where: str) -> Iterator[None]:
    """Turn an error that a block meets in a row into a `UserError` that begins with the row's place.

    Args:
        where: the place of the row, such as `train.tsv:7`.

    Raises:
        UserError: the row is bad, or lacks a field, or has a field of another kind.
    """
    try:
        yield
    except BadRowError as error:
        raise UserError(f"{where}: {error}") from None
    # A sentence already, which names a place of its own. It is a ValueError, which the next branch would catch.
    except UserError:
        raise
    except (
        KeyError,
        TypeError,
        AttributeError,
        IndexError,
        ValueError,
        OverflowError,
    ) as error:
        what = "a value is of another kind"
        # A KeyError's text is the name of the field.
        if isinstance(error, KeyError):
            what = f"{error} is missing"
        raise UserError(
            f"{where}: the row does not have the expected form: {what}; see docs/add-a-dataset.md"
        ) from None


class MissingValueError(BadRowError):
    """A row has a column, but no value in it."""


def is_missing(value: Any) -> bool:
    """Return whether there is no value: null, or NaN, which pandas writes for it and which is not equal to itself."""
    return value is None or (isinstance(value, float) and value != value)


def pick(row: Row, names: Sequence[str]) -> Any:
    """Return the first value of a row in the columns `names`; `BadRowError` if all are empty or no column is there."""
    for name in names:
        if not is_missing(row.get(name)):
            return row[name]

    empty = [name for name in names if name in row]
    if empty:
        raise MissingValueError(
            f"the value of {empty[0]} is missing; fill it in or leave the row out"
        )

    columns = ", ".join(repr(name[:40]) for name in row)
    raise BadRowError(
        f"there is no column {' or '.join(names)}; the columns are {columns:.120}"
    )


def pick_text(row: Row, names: Sequence[str]) -> str:
    """Return what `pick` finds; `BadRowError` where it is no text."""
    value = pick(row, names)
    if not isinstance(value, str):
        raise BadRowError(f"{names[0]} is not text: {value!r:.80}")
    return value


def words_of(row: Row, names: Sequence[str]) -> str:
    """Return a text, or a number as one, as `pick` finds it; a list or an object is no text."""
    value = pick(row, names)
    if isinstance(value, bool | list | dict | bytes):
        raise BadRowError(f"{names[0]} is not text: {value!r:.80}")
    return str(value)


def document_of(row: Row, names: Sequence[str]) -> Row:
    """Return the local form's column with the name of a row's document; empty if no column in `names` has a value."""
    for name in names:
        if not is_missing(row.get(name)):
            return {DOCUMENT: str(row[name])}
    return {}


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
            # At the end of the file, readline returns the empty line at which `iter` stops.
            for number, line in enumerate(iter(read, b""), 1):
                if len(line) == _LONGEST:
                    raise UserError(
                        f"{path}:{number}: the line is too long ({_LONGEST:,} bytes or more)"
                    )

                # Windows ends a line with both characters.
                text = line.removesuffix(b"\n").removesuffix(b"\r")
                # `rows` and `packed` are for the sentence about a file of another program: which formats it
                # could have, and that it may be packed if its name says so.
                yield (
                    number,
                    text_of(path, text, number, rows="CSV or JSON Lines", packed=True),
                )
    except OSError as error:
        # Decompression raises an OSError without a number if the file is damaged.
        if error.errno is not None:
            raise
        raise UserError(
            f"{path}: the compressed file is damaged after line {number}; copy it again"
        ) from None


def json_of(path: Path) -> Any:
    """Return a JSON file's content; a `UserError` names the line from which it is not valid JSON."""
    try:
        return orjson.loads("\n".join(line for _, line in lines(path)))
    except orjson.JSONDecodeError as error:
        raise UserError(
            f"{path}:{error.lineno}: not valid JSON from here on; write or copy the file again"
        ) from None


def is_text(path: Path) -> bool:
    """Return by a file's name whether its lines need not name their fields, unlike CSV, JSON or Parquet."""
    return plain_suffix(path) not in (*_ROWS, ".csv")


def is_data(path: Path) -> bool:
    """Return by its name whether a file in a folder has rows; `datasets` puts files about the folder beside them."""
    if path.name in ("state.json", "dataset_info.json", "dataset_dict.json"):
        return False
    # `datasets` caches results of maps and filters beside the original rows.
    if path.name.startswith("cache-"):
        return False
    return plain_suffix(path) in (*_ROWS, ".csv", ".tsv")


Note = Callable[[str], None]
"""Keeps a sentence for the manifest."""


def rows_of_file(
    path: Path, files: DatasetFiles, note: Note | None = None
) -> Iterator[tuple[str, Row]]:
    """Yield (where, row) of Parquet, JSON lines, a JSON array or object of rows, or a table with a header.

    Args:
        path: the file; its kind follows from its name.
        files: of whose dataset it is; they say how a table of text is read.
        note: called with a sentence about the rows of a table of text that a line break inside a text cuts in two,
            which are left out; None: such rows are refused.

    Raises:
        UserError: a row cannot be read; the sentence names its place.
    """
    read = _ROWS.get(plain_suffix(path))
    return read(path) if read else _table_rows(path, files, note)


def class_names(path: Path, column: str) -> tuple[str, ...]:
    """Return the class names that a Parquet or Arrow file declares for `column`, by number; empty if it declares none.

    `datasets` writes its own types, such as class labels, as JSON into the metadata of the file's schema.
    """
    if _ROWS.get(plain_suffix(path)) is not _typed_rows:
        return ()
    with typed_file(path) as (schema, _):
        metadata = (schema.metadata or {}).get(b"huggingface")
    feature = None
    if metadata:
        feature = orjson.loads(metadata)["info"]["features"].get(column)

    # A column of one class has {"names": ["neg", "pos"]}. A column of lists describes the type of a list's entries
    # inside: {"feature": {"names": ["O", "B-PER"]}}, or, in older versions of `datasets`, [{"names": [...]}].
    # There are further keys.
    while feature is not None:
        if isinstance(feature, list):
            feature = feature[0]
        if feature.get("names"):
            return tuple(feature["names"])
        feature = feature.get("feature")

    return ()


@contextlib.contextmanager
def typed_file(path: Path) -> Iterator[tuple[pa.Schema, Iterable[pa.RecordBatch]]]:
    """Open a Parquet file, or an Arrow file as `datasets` saves it, and yield its schema and its batches of rows.

    Raises:
        UserError: the file is absent, or the block that reads it finds it damaged.
    """
    try:
        if plain_suffix(path) == ".arrow":
            with pa.memory_map(str(path)) as raw:
                reader = pa.ipc.open_stream(raw)
                yield reader.schema, reader
        else:
            with pq.ParquetFile(path) as file:
                yield file.schema_arrow, file.iter_batches(_BATCH)
    except FileNotFoundError:
        raise UserError(f"there is no file {path}") from None
    # A sentence of the block about a row; as a ValueError, the next branch would catch it.
    except UserError:
        raise
    except (pa.ArrowException, OSError, ValueError, MemoryError):
        raise UserError(
            f"{path} cannot be read as {path.suffix[1:].capitalize()}; write or copy it again"
        ) from None


def _parsed(line: str) -> Any:
    """Return a line's JSON, which may have NaN as Python's own module writes it; None if the line is not JSON."""
    with contextlib.suppress(ValueError):
        return orjson.loads(line)
    if "NaN" in line:
        with contextlib.suppress(ValueError):
            return json.loads(line)
    return None


def _check_unique(names: Sequence[str]) -> None:
    """Refuse a name that two columns have; several columns may have no name, as the index that pandas writes."""
    twice = [name for name in names if name and names.count(name) > 1]
    if twice:
        raise BadRowError(
            f"the column {twice[0]!r} is there twice; rename or remove one"
        )


def _json_line_rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield the rows of JSON lines; refuse a name that is twice in an object, since the parser would drop one value."""
    for number, line in lines(path):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        row = _parsed(line)
        if not isinstance(row, dict):
            raise UserError(f"{where}: the line is not a JSON object")

        # Python's own parser shows names that are twice, but is slow. It reads only lines that have a name's text
        # twice, where the second one may still be a value.
        if any(line.count(f'"{name}"') > 1 for name in row):
            with row_at(where):
                json.loads(line, object_pairs_hook=_check_unique_pairs)

        yield where, row


def _check_unique_pairs(pairs: Sequence[tuple[str, Any]]) -> None:
    """Refuse an object of JSON with a name that is there twice."""
    _check_unique([name for name, _ in pairs])


def is_whole_json(path: Path) -> bool:
    """Return whether a file is a single JSON value: its name ends in `.json`, and its lines are not objects."""
    return plain_suffix(path) == ".json" and not _has_json_lines(path)


def _has_json_lines(path: Path) -> bool:
    """Return whether a file called `.json` has an object a line, as `datasets` writes it.

    A single line is taken for a JSON value, which may be an object as well.
    """
    first_two = [line for _, line in islice(lines(path), 2)]
    return len(first_two) == 2 and isinstance(_parsed(first_two[0]), dict)


def _json_rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield the rows of a file called `.json`: a JSON array or object of rows, or JSON lines after all."""
    if _has_json_lines(path):
        yield from _json_line_rows(path)
        return

    content = json_of(path)
    if isinstance(content, dict) and isinstance(content.get("data"), list):
        # SQuAD has its rows under `data`, next to a version.
        content = content["data"]

    if not isinstance(content, dict | list):
        raise UserError(f"{path} contains neither a list nor an object of rows")
    entries = content.items() if isinstance(content, dict) else enumerate(content)
    for key, row in entries:
        # pandas writes a frame by column: {"text": {"0": "first text", "1": "second text"}}. That is not a row.
        is_column = isinstance(row, dict) and row and all(map(str.isdecimal, row))
        if not isinstance(row, dict) or is_column:
            raise UserError(
                f"{path}: entry {key}: the entry is not a JSON object of a row; if the file has its values by column, "
                "write rows, in pandas with to_json(orient='records')"
            )
        yield f"{path}: entry {key}", row


def _typed_rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield the rows of a Parquet or Arrow file; their places count from 0."""
    number = 0
    with typed_file(path) as (schema, batches):
        with row_at(str(path)):
            _check_unique(schema.names)
        for batch in progress(batches, path.name, unit="batch"):
            for row in batch.to_pylist():
                yield f"{path}: row {number}", row
                number += 1


def _table_rows(
    path: Path, files: DatasetFiles, note: Note | None
) -> Iterator[tuple[str, Row]]:
    """Yield the rows of a table of text, except those that a line break inside a text cuts into several lines.

    Such lines have too few columns each and, put together, as many as a row. The first and the last of them must have
    two or more: a line of one column could just as well belong to the row before it or behind it.

    Args:
        path: the file.
        files: has the header of a file without one.
        note: called with a sentence about cut rows; None: they are refused.

    Raises:
        UserError: a line has another number of columns than the header and is not of such a row.
    """
    rows = cells(path, files)
    header = list(files.header)
    if not header:
        # An empty file has no first line: then no columns and no rows.
        _, header = next(rows, (1, []))

    with row_at(f"{path}:1"):
        _check_unique(header)
    # Numbers of the first lines of the rows that were cut.
    cut: list[int] = []

    # The lines of a row that may be cut: the number of each line, and how many columns it has.
    pieces: list[tuple[int, int]] = []
    for number, fields in rows:
        if files.header and number == 1 and fields == header:
            raise UserError(
                f"{path}:1: the first line is the header; remove `header` from {files.where}"
            )

        if len(fields) == len(header) and not pieces:
            yield f"{path}:{number}", dict(zip(header, fields, strict=True))
            continue

        pieces.append((number, len(fields)))
        first_line, first_size = pieces[0]
        # A line break inside a column: the next line has the rest of that column, so the two count as one.
        columns = sum(size - 1 for _, size in pieces) + 1
        # The pieces make a row whose first and last line have two columns or more: it is whole, and left out.
        if note and columns == len(header) and min(first_size, len(fields)) > 1:
            cut.append(first_line)
            pieces = []
        # Reading stops at lines that make no row. Without `note`, that is any line of another size. Otherwise
        # the first line has one column, or the lines have too many, or the last one, which completes the row,
        # has one. With too few columns, the next line may complete the row.
        elif not note or columns >= len(header) or first_size == 1:
            break

    # The loop stopped at lines that make no row, or the file ended within a row.
    if pieces:
        number, size = pieces[0]
        raise UserError(
            f"{path}:{number}: the line has {size} columns instead of {len(header)}"
        )

    if note and cut:
        note(
            f"{path.name}: rows that a line break cuts, left out: {len(cut):,} (first: line {cut[0]})"
        )


def cells(path: Path, files: DatasetFiles) -> Iterator[tuple[int, list[str]]]:
    """Yield (number of its first line, fields) for each row of a table of text, the header included.

    CSV is read as RFC 4180 has it, with the comma, semicolon or tab that its first line has most of. In TSV files of
    one's own, the definition says whether quotes around a field are part of its text; in the paper's files they are.

    Raises:
        UserError: quotes are invalid, or there are some and the definition does not say what they mean.
    """
    # Among all suffixes, not only the last one: a CSV file may be packed, as x.csv.gz.
    is_csv = ".csv" in path.suffixes
    if is_csv or files.quotes:
        mark = "\t"
        if is_csv:
            first_row = next((line for _, line in lines(path)), "")
            mark = max(",;\t", key=first_row.count)
        yield from _quoted(path, mark)
        return

    # `content` is the definition of a dataset of one's own; None: it does not say what quotes mean.
    is_undecided = bool(files.content) and files.quotes is None
    for number, line in lines(path):
        # An empty first line is kept: it would be the header.
        if number > 1 and not line.strip():
            continue
        fields = line.split("\t")
        if is_undecided and any(field.startswith('"') for field in fields):
            raise UserError(
                f"{path}:{number}: the quotes may enclose the text or be part of it; set quotes = true if they enclose "
                f"it, else quotes = false, in {files.where}"
            )

        yield number, fields


def _quoted(path: Path, mark: str) -> Iterator[tuple[int, list[str]]]:
    """Yield (number of its first line, fields) for each row of a table whose fields may stand in quotes.

    A row has several lines where a field in quotes has a line break.

    Args:
        path: the file.
        mark: what separates fields.
    """
    with_ends = (f"{line}\n" for _, line in lines(path))
    # Without `strict`, csv would read to the end of the file where a quote is never closed.
    reader = csv.reader(with_ends, delimiter=mark, strict=True)
    start = 1
    try:
        for fields in reader:
            # An empty line has no fields.
            if fields:
                yield start, fields
            start = reader.line_num + 1
    except csv.Error:
        raise UserError(
            f"{path}:{start}: the line has invalid quotes; a field with quotes in it stands in quotes, "
            "and those in it are doubled"
        ) from None


_ROWS: dict[str, Callable[[Path], Iterator[tuple[str, Row]]]] = {
    ".parquet": _typed_rows,
    ".arrow": _typed_rows,
    ".jsonl": _json_line_rows,
    ".json": _json_rows,
}
"""The function that reads a file's rows, by the end of the file's name; any other file is a table of text."""
