"""`index.json` of a split: its one reader, which believes nothing but names, sizes, hashes and counts it has checked.

streaming's own reader would take any column encoding from an index, pickle included, and any path. Here an entry says
which files there are and what they hash to; how they are decoded is fixed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from common.errors import UserError
from common.files import write_text
from common.reading import BadJsonError, read_bounded, strict_json

__all__ = [
    "INDEX",
    "MDS_COLUMNS",
    "RECORD",
    "ShardEntry",
    "ShardFile",
    "read_index",
    "shard_name",
    "write_index",
]

INDEX = "index.json"
"""Name of a split's index."""
RECORD = 4096
"""Tokens of one record; the last of a split may be shorter."""
MDS_COLUMNS = {"tokens": "ndarray:int32"}
"""The one column of a record and how MDS encodes it."""

_MOST_BYTES = 2**32
"""MDS counts its offsets in 32 bits."""
_MOST_INDEX = 2**30
_MOST_RECORDS = _MOST_BYTES // (4 * RECORD)
_REMEDY = "write the shards again"


class _Record(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class _Hashes(_Record):
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}\z")]


class ShardFile(_Record):
    """A file of a shard: as it is on disk, or as it decompresses to."""

    basename: str
    """Its name in the split's folder."""
    bytes: Annotated[int, Field(ge=1, lt=_MOST_BYTES)]
    """Its size."""
    hashes: _Hashes
    """Its SHA-256."""

    @property
    def sha256(self) -> str:
        """Its SHA-256."""
        return self.hashes.sha256


class ShardEntry(_Record):
    """A shard, as streaming's index describes it."""

    column_encodings: Annotated[list[Literal["ndarray:int32"]], Field(min_length=1, max_length=1)]
    column_names: Annotated[list[Literal["tokens"]], Field(min_length=1, max_length=1)]
    column_sizes: Annotated[list[None], Field(min_length=1, max_length=1)]
    compression: Annotated[str, Field(max_length=40)] | None
    """streaming's name of the compression; None for a file as it is."""
    format: Literal["mds"]
    hashes: Annotated[list[Literal["sha256"]], Field(min_length=1, max_length=1)]
    raw_data: ShardFile
    """The shard itself."""
    samples: Annotated[int, Field(ge=1, le=_MOST_RECORDS)]
    """Its records."""
    size_limit: None
    version: Literal[2]
    zip_data: ShardFile | None
    """The compressed file; None where there is none."""

    @cached_property
    def stored(self) -> ShardFile:
        """The file in the split's folder."""
        return self.zip_data or self.raw_data

    def listing(self) -> dict[str, Any]:
        """Return name, size and SHA-256 of the file in the split's folder, as the manifest lists them."""
        return {"name": self.stored.basename, "bytes": self.stored.bytes, "sha256": self.stored.sha256}


class _Index(_Record):
    shards: Annotated[list[ShardEntry], Field(min_length=1, max_length=10**6)]
    version: Literal[2]


def shard_name(number: int) -> str:
    """Return the name of a shard, decompressed, by its place in the split."""
    return f"shard.{number:05}.mds"


def read_index(folder: Path, suffixes: dict[str | None, str]) -> list[ShardEntry]:
    """Return a split's entries, checked each by itself and against each other.

    Args:
        folder: the split's folder.
        suffixes: for each compression that can be read, by streaming's name, what a compressed file's name ends in.

    Raises:
        UserError: there is no index, or it is not one that `shards` wrote.
    """
    path = folder / INDEX
    try:
        data = read_bounded(path, _MOST_INDEX)
        content = strict_json(data)
    except FileNotFoundError:
        raise UserError(f"{path}: no shards here; write them with `python -m pretraining shards`") from None
    except BadJsonError as error:
        raise UserError(f"{path}: is damaged: {error}; {_REMEDY}") from None
    try:
        entries = _Index.model_validate(content).shards
    except ValidationError as error:
        raise UserError(f"{path}: is damaged: {_first(error)}; {_REMEDY}") from None
    if data != _text([entry.model_dump() for entry in entries]).encode():
        raise UserError(f"{path}: is not as `shards` writes it; {_REMEDY}")
    for number, entry in enumerate(entries):
        if problem := _problem(number, entry, entries, suffixes):
            raise UserError(f"{path}: shard {number} {problem}; {_REMEDY}")
    return entries


def _first(error: ValidationError) -> str:
    """Return the first thing that is wrong, and where."""
    one = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(str(part)[:40] for part in one['loc'])}: {one['msg'].lower()}"


def write_index(folder: Path, entries: Sequence[dict[str, Any]]) -> None:
    """Write the index of a split, which streaming's readers open it by."""
    write_text(folder / INDEX, _text(entries))


def _text(entries: Sequence[dict[str, Any]]) -> str:
    return json.dumps({"shards": list(entries), "version": 2}, sort_keys=True)


def _problem(
    number: int, entry: ShardEntry, entries: list[ShardEntry], suffixes: dict[str | None, str]
) -> str:
    """Return what is wrong with an entry, or an empty string."""
    name, compressed = shard_name(number), entry.zip_data
    if entry.compression not in suffixes:
        return f"is compressed by {entry.compression!r}, which is unknown here"
    if (compressed is None) != (entry.compression is None):
        return "is compressed or is not: the index says both"
    if entry.raw_data.basename != name:
        return f"is called {entry.raw_data.basename!r}, not {name!r}"
    if compressed is not None and compressed.basename != (wanted := name + suffixes[entry.compression]):
        return f"is stored as {compressed.basename!r}, not {wanted!r}"
    if entry.samples > entries[0].samples or (
        entry.samples < entries[0].samples and number + 1 < len(entries)
    ):
        return f"has {entry.samples} records where the first has {entries[0].samples}"
    # A count, offsets and the columns' description, then for each record a size, a shape and the tokens.
    fixed = 4 * (entry.samples + 2)
    if not fixed < entry.raw_data.bytes <= fixed + 4096 + entry.samples * (16 + 4 * RECORD):
        return f"cannot have {entry.raw_data.bytes} bytes with {entry.samples} records"
    return ""
