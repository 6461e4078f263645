"""`index.json` of a split: its one reader, which believes nothing but names, sizes, hashes and counts it has checked.

streaming's own reader would take any column encoding from an index, pickle included, and any path. Here what an index
may say is made from a few numbers and hashes by the function that writes it, and anything else is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.errors import UserError
from common.files import sha256_bytes, write_text
from common.reading import MOST_LARGE, BadJsonError, read_bounded, strict_json
from pretraining.data.shard_compression import COMPRESSIONS

__all__ = [
    "INDEX", "MDS_COLUMNS", "RECORD", "ShardEntry", "ShardFile", "read_index",
    "shard_name", "write_index",
]  # fmt: skip

INDEX = "index.json"
"""Name of a split's index."""
RECORD = 4096
"""Tokens of one record; the last of a split may be shorter."""
MDS_COLUMNS = {"tokens": "ndarray:int32"}
"""The one column of a record and how MDS encodes it."""

_MOST_BYTES = 2**32
"""MDS counts its offsets in 32 bits."""
_MOST_RECORDS = _MOST_BYTES // (4 * RECORD)
_REMEDY = "write the shards again"


@dataclass(frozen=True, kw_only=True)
class ShardFile:
    """A file of a shard: as it is on disk, or as it decompresses to."""

    basename: str
    """Its name in the split's folder."""
    size: int
    """Its bytes."""
    sha256: str
    """Its SHA-256."""

    @classmethod
    def of(cls, basename: str, content: bytes) -> ShardFile:
        """Return what says which file holds a content."""
        return cls(basename=basename, size=len(content), sha256=sha256_bytes(content))

    def listing(self) -> dict[str, Any]:
        """Return name, size and SHA-256, as the manifest lists the files in the split's folder."""
        return {"name": self.basename, "bytes": self.size, "sha256": self.sha256}

    def described(self) -> dict[str, Any]:
        """Return what streaming's index says of it."""
        return {"basename": self.basename, "bytes": self.size, "hashes": {"sha256": self.sha256}}


@dataclass(frozen=True, kw_only=True)
class ShardEntry:
    """A shard of a split."""

    samples: int
    """Its records."""
    raw: ShardFile
    """The shard itself."""
    packed: ShardFile | None
    """The compressed file; None where there is none."""
    compression: str | None
    """streaming's name of the compression; None for a file as it is."""

    @property
    def stored(self) -> ShardFile:
        """The file in the split's folder."""
        return self.packed or self.raw

    def described(self) -> dict[str, Any]:
        """Return its entry of streaming's index."""
        return {
            "column_encodings": list(MDS_COLUMNS.values()),
            "column_names": list(MDS_COLUMNS),
            "column_sizes": [None],
            "compression": self.compression,
            "format": "mds",
            "hashes": ["sha256"],
            "raw_data": self.raw.described(),
            "samples": self.samples,
            "size_limit": None,
            "version": 2,
            "zip_data": None if self.packed is None else self.packed.described(),
        }


def read_index(folder: Path) -> list[ShardEntry]:
    """Return a split's entries, checked each by itself and against each other.

    Raises:
        UserError: there is no index in the split's folder, or it is not one that `shards` wrote.
    """
    path = folder / INDEX
    try:
        data = read_bounded(path, MOST_LARGE)
        content = strict_json(data)
    except FileNotFoundError:
        raise UserError(f"{path}: no shards here; write them with `clm-or-mlm shards`") from None
    except BadJsonError as error:
        raise UserError(f"{path}: is damaged: {error}; {_REMEDY}") from None
    shards = content.get("shards") if isinstance(content, dict) else None
    if not isinstance(shards, list) or not shards:
        raise UserError(f"{path}: is damaged: it lists no shards; {_REMEDY}")
    entries: list[ShardEntry] = []
    for number, item in enumerate(shards):
        try:
            entries.append(_read_entry(number, item))
            _check(entries[-1], entries[0], is_last=number + 1 == len(shards))
        except (KeyError, TypeError, ValueError) as error:
            what = f"no {error}" if isinstance(error, KeyError) else error
            raise UserError(f"{path}: is damaged: shard {number}: {what}; {_REMEDY}") from None
    if data != _text([entry.described() for entry in entries]).encode():
        raise UserError(f"{path}: is not as `shards` writes it; {_REMEDY}")
    return entries


def write_index(folder: Path, entries: Sequence[Mapping[str, Any]]) -> None:
    """Write the index of a split, which streaming's readers open it by, from the `described` of its shards."""
    write_text(folder / INDEX, _text(entries))


def shard_name(number: int) -> str:
    """Return the name of a shard, decompressed, by its place in the split."""
    return f"shard.{number:05}.mds"


def _text(entries: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps({"shards": list(entries), "version": 2}, sort_keys=True)


def _read_entry(number: int, item: Mapping[str, Any]) -> ShardEntry:
    """Return what an item of an index says, as far as `ShardEntry.described` does not say it by itself.

    Raises:
        KeyError, TypeError, ValueError: it is no shard.
    """
    mds, name, packed = item["compression"], shard_name(number), None
    compression = next((one for one in COMPRESSIONS.values() if one.mds == mds), None)
    if compression is None:
        raise ValueError(f"it is compressed by {str(mds)[:40]!r}, which is unknown here")
    if compression.mds is not None:
        packed = _read_file(f"{name}{compression.suffix}", item["zip_data"])
    samples = _count(item["samples"], _MOST_RECORDS)
    return ShardEntry(samples=samples, raw=_read_file(name, item["raw_data"]), packed=packed, compression=mds)


def _read_file(name: str, item: Mapping[str, Any]) -> ShardFile:
    digest = item["hashes"]["sha256"]
    if not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise ValueError("a SHA-256 is none")
    return ShardFile(basename=name, size=_count(item["bytes"], _MOST_BYTES - 1), sha256=digest)


def _count(value: object, most: int) -> int:
    if type(value) is not int or not 1 <= value <= most:
        raise ValueError(f"{str(value)[:40]} is no number from 1 to {most}")
    return value


def _check(entry: ShardEntry, first: ShardEntry, *, is_last: bool) -> None:
    """Compare a shard with the first of its split, and its size with its records."""
    if entry.samples > first.samples or (entry.samples < first.samples and not is_last):
        raise ValueError(f"it has {entry.samples} records where the first has {first.samples}")
    # A count, offsets and the columns' description, then for each record a size, a shape and the tokens.
    fixed = 4 * (entry.samples + 2)
    if not fixed < entry.raw.size <= fixed + 4096 + entry.samples * (16 + 4 * RECORD):
        raise ValueError(f"it cannot have {entry.raw.size} bytes with {entry.samples} records")
