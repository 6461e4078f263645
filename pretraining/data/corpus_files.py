"""Files that documents are read from: Parquet, JSON lines, plain text; each also compressed."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import orjson
import pyarrow
import pyarrow.parquet
import zstandard

from common.errors import UserError
from common.registry import Registry

__all__ = ["ARCHIVES", "FILE_KINDS", "Archive", "CorpusFile", "FileKind", "decompressed", "kind_of"]


@dataclass(frozen=True, kw_only=True)
class CorpusFile:
    """An opened file."""

    name: str
    """Its path or address."""
    raw: IO[bytes]
    """Its bytes."""
    size: int
    """How many."""
    text_field: str
    """Column or key that holds the text."""


@dataclass(frozen=True, kw_only=True)
class Archive:
    """A compression of single files."""

    name: str
    """Suffix of the file."""
    open: Callable[[IO[bytes]], IO[bytes]]
    """What a compressed file holds."""


def _open_zst(raw: IO[bytes]) -> IO[bytes]:
    """Return what a file of any number of frames holds."""
    reader = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
    return io.BufferedReader(_Readable(reader), 1 << 20)


ARCHIVES = Registry(
    "compression",
    [
        Archive(name=".zst", open=_open_zst),
        Archive(name=".gz", open=lambda raw: gzip.GzipFile(fileobj=raw)),  # type: ignore[arg-type,return-value]
    ],
)
"""Compressions that any kind of file may have."""


def decompressed(file: str, raw: IO[bytes]) -> IO[bytes]:
    """Return what a compressed file holds; other files as they are."""
    archive = ARCHIVES.get(Path(file).suffix)
    return raw if archive is None else archive.open(raw)


class _Readable(io.RawIOBase):
    """A zstandard reader in the form that BufferedReader splits lines of."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return int(self._reader.readinto(buffer))


def _holds_text(kind: pyarrow.DataType) -> bool:
    types = pyarrow.types
    if types.is_dictionary(kind):
        return _holds_text(kind.value_type)
    return any(
        is_it(kind) for is_it in (types.is_string, types.is_large_string, types.is_string_view, types.is_null)
    )


def _row(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        # Stricter than the standard library, which also takes NaN and halves of surrogate pairs.
        row = json.loads(line)
    if isinstance(row, dict):
        return {key: _whole(value) if isinstance(value, str) else value for key, value in row.items()}
    return row


def _whole(text: str) -> str:
    """Return the text with halves of surrogate pairs replaced, which have no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def kind_of(name: str) -> str:
    """Return a file's suffix without that of a compression, in lower case."""
    archive = ARCHIVES.get(Path(name).suffix)
    return Path(name.removesuffix(archive.name) if archive else name).suffix.lower()


@dataclass(frozen=True, kw_only=True)
class FileKind:
    """A kind of file that documents are read from."""

    name: str
    """Its suffix, without that of a compression."""
    texts: Callable[[CorpusFile, int], Iterator[tuple[str, int]]]
    """The texts of a file from a row on, each with the bytes of the file read so far."""


def _parquet_texts(file: CorpusFile, start: int) -> Iterator[tuple[str, int]]:
    table, column_name = pyarrow.parquet.ParquetFile(file.raw), file.text_field
    if column_name not in table.schema_arrow.names:
        known = ", ".join(table.schema_arrow.names)
        raise UserError(f"{file.name}: has no column {column_name!r}; it has {known} (--text-field)")
    kind = table.schema_arrow.field(column_name).type
    if not _holds_text(kind):
        raise UserError(f"{file.name}: its column {column_name!r} holds {kind}, not text (--text-field)")
    rows, first = table.metadata.num_rows, 0
    for group in range(table.num_row_groups):
        last = first + table.metadata.row_group(group).num_rows
        if last > start:
            column = table.read_row_group(group, columns=[column_name]).column(0)
            for number in range(max(start, first), last):
                yield column[number - first].as_py() or "", file.size * (number + 1) // rows
        first = last


def _json_texts(file: CorpusFile, start: int) -> Iterator[tuple[str, int]]:
    for number, line in enumerate(decompressed(file.name, file.raw)):
        if number >= start:
            yield _from_json(file, number, line), file.raw.tell()


def _from_json(file: CorpusFile, number: int, line: bytes) -> str:
    if not line.strip():
        return ""
    try:
        row = _row(line)
    except ValueError:
        raise UserError(f"{file.name}: line {number + 1} is not JSON") from None
    if not isinstance(row, dict) or file.text_field not in row:
        known = ", ".join(map(str, row)) if isinstance(row, dict) else "no keys"
        raise UserError(
            f"{file.name}: line {number + 1} has no {file.text_field!r}; it has {known} (--text-field)"
        )
    text = row[file.text_field]
    if not isinstance(text, str | None):
        raise UserError(
            f"{file.name}: line {number + 1} has a {type(text).__name__} in {file.text_field!r}, "
            f"not text (--text-field)"
        )
    return text or ""


def _whole_text(file: CorpusFile, start: int) -> Iterator[tuple[str, int]]:
    if start == 0:
        yield decompressed(file.name, file.raw).read().decode("utf-8"), file.raw.tell()


FILE_KINDS = Registry(
    "kind of file",
    [
        FileKind(name=".parquet", texts=_parquet_texts),
        FileKind(name=".jsonl", texts=_json_texts),
        FileKind(name=".json", texts=_json_texts),
        FileKind(name=".txt", texts=_whole_text),
        FileKind(name=".raw", texts=_whole_text),
    ],
)
"""Files that documents are read from: a row or a line each, or one document a file."""
