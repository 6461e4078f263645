"""Original distribution files: plain, .gz or .zst; TSV, JSON, JSON lines or Parquet. Bad lines are named."""

from __future__ import annotations

import contextlib
import functools
import gzip
import logging
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from benchmarks.datasets.readers.packed_files import most_unpacked, open_packed, unpacks_too_much
from common.errors import UserError, first_line
from common.plain_text import visible
from common.progress import progress
from common.registry import Registry

__all__ = [
    "FILE_KINDS", "TEXT", "FileKind", "Reading", "Row", "class_names", "json_of", "kind_of", "lines", "parquet_file",
    "pick", "pick_text", "records",
]  # fmt: skip

Row = dict[str, Any]
log = logging.getLogger(__name__)

_BATCH = 1 << 14
_LONGEST = 1 << 29
"""Bytes of the longest line that is read: all of SQuAD is a line of 30 MB."""
_MOST_WHOLE = 1 << 32
"""Bytes of the largest JSON file that is read at once."""


class Reading:
    """What to do with bad lines: stop with a sentence that names the line, or skip, count and say so."""

    def __init__(self, *, skip_bad: bool = False) -> None:
        self._skip_bad = skip_bad
        self._skipped: dict[str, str] = {}
        self._notes: dict[str, None] = {}
        self._seen: dict[tuple[str, str], str] = {}

    def bad(self, where: str, sentence: str) -> None:
        """Report a bad line.

        Raises:
            UserError: bad lines are not to be skipped.
        """
        if not self._skip_bad:
            raise UserError(f"{where}: {sentence} (--skip-bad-lines leaves such lines out)")
        log.warning("%s: %s; left out", where, sentence)
        self._skipped.setdefault(where, sentence)

    @contextlib.contextmanager
    def shape(self, where: str) -> Iterator[None]:
        """Report a row whose fields are missing or of another kind than the block expects."""
        try:
            yield
        except (KeyError, TypeError, AttributeError, IndexError, ValueError, OverflowError) as error:
            if isinstance(error, UserError):
                raise
            what = f"{error} is missing" if isinstance(error, KeyError) else visible(first_line(error))
            self.bad(where, f"the row has not the expected form: {what}")

    def is_new(self, identity: str, scope: str, where: str) -> bool:
        """Return whether an id occurs for the first time in `scope`, a file; a second time makes a bad line."""
        first = self._seen.setdefault((scope, identity), where)
        if first != where:
            self.bad(where, f"the id {identity!r} occurs twice, first at {first}")
        return first == where

    def note(self, sentence: str) -> None:
        """Keep a sentence for the manifest, once."""
        self._notes[sentence] = None

    def notes(self) -> tuple[str, ...]:
        """Return what the manifest should say about repairs and lines left out."""
        if not self._skipped:
            return tuple(self._notes)
        where, sentence = next(iter(self._skipped.items()))
        first = f"{where.rpartition('/')[2]}: {sentence}"
        return (*self._notes, f"bad lines left out: {len(self._skipped)}, the first at {first}")


@dataclass(frozen=True, kw_only=True)
class FileKind:
    """A kind of original file, known by the end of its name without .gz or .zst."""

    name: str
    """How the names of such files end."""
    rows: Callable[[Path, Reading, Sequence[str]], Iterator[tuple[str, Row]]]
    """Reads the rows, see `records`."""
    bare: bool = False
    """Whether its lines need not name their fields, so that a reader has to know their order."""
    whole: bool = False
    """Whether it may be one object with the rows inside, which a reader has to know."""
    columnar: bool = False
    """Whether single columns can be read, and batches of rows."""


def kind_of(path: Path) -> FileKind:
    """Return the kind of a file by its name; a file of lines where the name says nothing."""
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in (".gz", ".zst")]
    return FILE_KINDS.get("".join(suffixes[-1:]), TEXT)


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, line without its end) of a text file, compressed or not.

    Only a newline ends a line, so that a form feed or a Unicode separator inside a text is kept.

    Raises:
        UserError: the file is absent, cut short, not UTF-8, a line is endless, or it unpacks to far more than text
            does; the line is named.
    """
    number = total = 0
    try:
        with open_packed(path) as file:
            most = most_unpacked(path)
            for number, line in enumerate(iter(functools.partial(file.readline, _LONGEST), b""), 1):
                total += len(line)
                if len(line) == _LONGEST:
                    raise UserError(
                        f"{path}:{number}: the line has {_LONGEST:,} bytes or more, and none needs that many"
                    )
                if total > most:
                    raise unpacks_too_much(path)
                yield (
                    number,
                    line.removesuffix(b"\n")
                    .removesuffix(b"\r")
                    .decode("utf-8-sig" if number == 1 else "utf-8"),
                )
    except UnicodeDecodeError:
        raise UserError(f"{path}:{number}: the line is not UTF-8; convert the file first") from None
    except (EOFError, gzip.BadGzipFile, zlib.error, zstandard.ZstdError) as error:
        raise UserError(
            f"{path}: the compressed file is damaged after line {number} ({visible(first_line(error))})"
        ) from None


def json_of(path: Path) -> Any:
    """Return a JSON file's content.

    Raises:
        UserError: the file is no JSON, with its line, or too large to be read at once.
    """
    parts, total = [], 0
    for _, line in lines(path):
        parts.append(line)
        total += len(line) + 1
        if total > _MOST_WHOLE:
            raise UserError(
                f"{path}: holds more than {_MOST_WHOLE:,} bytes of JSON; convert it to one row a line"
            )
    text = "\n".join(parts)
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise UserError(f"{path}:{error.lineno}: not valid JSON ({error.msg})") from None


def records(path: Path, reading: Reading, columns: Sequence[str] = ()) -> Iterator[tuple[str, Row]]:
    """Yield (where, row) of Parquet, JSON lines, a JSON array or object of rows, or a TSV file with a header.

    Args:
        path: the file; its kind follows from its name.
        reading: is given the lines that cannot be read.
        columns: for a TSV file without a header, the names of its columns; a header is known by the first row
            that is made of column names only.
    """
    return kind_of(path).rows(path, reading, columns)


def pick(row: Row, names: Sequence[str], reading: Reading, where: str) -> Any:
    """Return the first of the columns `names` that the row has; a row with none is bad and gives None."""
    for name in names:
        if row.get(name) is not None:
            return row[name]
    there = ", ".join(repr(name[:40]) for name in row)
    header = "the first line, which must be a header, reads" if kind_of(_file(where)).bare else "there are"
    reading.bad(where, f"there is no column {' or '.join(names)}; {header} {there}")
    return None


def pick_text(row: Row, names: Sequence[str], reading: Reading, where: str) -> str | None:
    """Return what `pick` finds where it is text; a row with anything else there is bad and gives None."""
    found = pick(row, names, reading, where)
    if found is None or isinstance(found, str):
        return found
    reading.bad(where, f"{names[0]} is no text: {visible(repr(found))[:80]}")
    return None


def _file(where: str) -> Path:
    """Return the file of a place such as `train.tsv:7` or `train.json: entry 7`."""
    return Path(where.partition(": ")[0].rpartition(":")[0] or where.partition(": ")[0])


def class_names(path: Path, column: str) -> tuple[str, ...] | None:
    """Return the class names that a hub's Parquet file declares for `column`, or None when it names none."""
    if not kind_of(path).columnar:
        return None
    with parquet_file(path) as file:
        metadata = (file.schema_arrow.metadata or {}).get(b"huggingface")
    feature = orjson.loads(metadata)["info"]["features"].get(column) if metadata else None
    while feature is not None:
        feature = feature[0] if isinstance(feature, list) else feature
        if feature.get("names"):
            return tuple(feature["names"])
        feature = feature.get("feature")
    return None


@contextlib.contextmanager
def parquet_file(path: Path) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file; `UserError` when it is absent, or turns out damaged while it is read."""
    try:
        with pq.ParquetFile(path) as file:
            groups = (file.metadata.row_group(group) for group in range(file.metadata.num_row_groups))
            if sum(group.total_byte_size for group in groups) > most_unpacked(path, packed=True):
                raise unpacks_too_much(path)
            yield file
    except FileNotFoundError:
        raise UserError(f"there is no file {path}") from None
    except UserError:
        raise
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise UserError(f"{path} cannot be read as Parquet: {visible(first_line(error))}") from None


def _is_json_lines(path: Path) -> bool:
    found = [line for (_, line), _ in zip(lines(path), range(2), strict=False)]
    return len(found) == 2 and isinstance(_parsed(found[0]), dict)


def _parsed(line: str) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return None


def _json_line_rows(path: Path, reading: Reading, columns: Sequence[str]) -> Iterator[tuple[str, Row]]:
    for number, line in lines(path):
        if line.strip():
            row = _parsed(line)
            if isinstance(row, dict):
                yield f"{path}:{number}", row
            else:
                reading.bad(f"{path}:{number}", "the line is no JSON object")


def _json_rows(path: Path, reading: Reading, columns: Sequence[str]) -> Iterator[tuple[str, Row]]:
    if _is_json_lines(path):
        yield from _json_line_rows(path, reading, columns)
        return
    content = json_of(path)
    if not isinstance(content, dict | list):
        raise UserError(f"{path} holds neither rows nor an object of rows")
    for key, row in content.items() if isinstance(content, dict) else enumerate(content):
        if isinstance(row, dict):
            yield f"{path}: entry {key}", row
        else:
            reading.bad(f"{path}: entry {key}", "the entry is no JSON object")


def _parquet_rows(path: Path, reading: Reading, columns: Sequence[str]) -> Iterator[tuple[str, Row]]:
    number = 0
    with parquet_file(path) as file:
        total = -(-file.metadata.num_rows // _BATCH)
        for batch in progress(file.iter_batches(_BATCH), path.name, total=total, unit="batch"):
            for row in batch.to_pylist():
                yield f"{path}: row {number}", row
                number += 1


def _tsv_rows(path: Path, reading: Reading, columns: Sequence[str]) -> Iterator[tuple[str, Row]]:
    header: list[str] | None = list(columns) or None
    for number, line in lines(path):
        fields = line.split("\t")
        if number == 1 and (header is None or set(fields) <= set(header)):
            header = fields
        elif not line.strip():
            continue
        elif header is None or len(fields) != len(header):
            reading.bad(
                f"{path}:{number}", f"the line has {len(fields)} columns instead of {len(header or [])}"
            )
        else:
            yield f"{path}:{number}", dict(zip(header, fields, strict=True))


TEXT = FileKind(name=".tsv", rows=_tsv_rows, bare=True)

FILE_KINDS: Registry[FileKind] = Registry(
    "kind of file",
    [
        FileKind(name=".parquet", rows=_parquet_rows, columnar=True),
        FileKind(name=".jsonl", rows=_json_line_rows),
        FileKind(name=".json", rows=_json_rows, whole=True),
        TEXT,
    ],
)
"""Every kind of original file; any other name is a file of lines."""
