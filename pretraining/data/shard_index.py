"""What the shards' bytes depend on, and `index.json` of a split, whose one reader believes only what it has checked.

streaming's own reader would take any column encoding from an index, pickle included, and any path. Here what an index
may say is made from a few numbers and hashes by the function that writes it, and anything else is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from common.cli import shared_options
from common.errors import UserError
from common.files import write_text
from common.reading import MOST_LARGE, read_bounded, strict_json

INDEX = "index.json"
"""Name of a split's index."""
RECORD = 4096
"""Tokens of one record; the last of a split may be shorter."""
MDS_COLUMNS = {"tokens": "ndarray:int32"}
"""The one column of a record and how MDS encodes it."""

_MOST_BYTES = 2**32
"""MDS counts its offsets in 32 bits."""
_REMEDY = "run the same `shards` command again"


@dataclass(frozen=True, kw_only=True)
class Shard:
    """A shard of a split: records in MDS, compressed by Zstandard."""

    number: int
    """Its place in the stream, from 0."""
    samples: int
    """Its records."""
    size: int
    """Its bytes once decompressed."""
    sha256: str
    """Their SHA-256."""
    packed_size: int
    """Bytes of the file in the split's folder."""
    packed_sha256: str
    """Their SHA-256."""

    def __post_init__(self) -> None:
        """Refuse types that are others, and more bytes than the records can have.

        Raises:
            ValueError: it is no shard.
        """
        counts = (self.samples, self.size, self.packed_size)
        if not all(type(count) is int and 0 < count < _MOST_BYTES for count in counts):
            raise ValueError(
                f"one of {str(counts)[:99]} is not a number from 1 to {_MOST_BYTES - 1}"
            )
        if not all(
            re.fullmatch(r"[0-9a-f]{64}", digest)
            for digest in (self.sha256, self.packed_sha256)
        ):
            raise ValueError("a SHA-256 is not valid")
        # A count, offsets and the columns' description, then for each record a size, a shape and the tokens.
        fixed = 4 * (self.samples + 2)
        if not fixed < self.size <= fixed + 4096 + self.samples * (16 + 4 * RECORD):
            raise ValueError(
                f"it cannot have {self.size} bytes with {self.samples} records"
            )

    @property
    def name(self) -> str:
        """Name of the decompressed file."""
        return f"shard.{self.number:05}.mds"

    @property
    def packed_name(self) -> str:
        """Name of the file in the split's folder."""
        return f"{self.name}.zstd"

    def listing(self) -> dict[str, Any]:
        """Return name, size and SHA-256 of the file in the split's folder, as the manifest lists it."""
        return {
            "name": self.packed_name,
            "bytes": self.packed_size,
            "sha256": self.packed_sha256,
        }

    def described(self) -> dict[str, Any]:
        """Return its entry of streaming's index."""
        raw = {
            "basename": self.name,
            "bytes": self.size,
            "hashes": {"sha256": self.sha256},
        }
        packed = {
            "basename": self.packed_name,
            "bytes": self.packed_size,
            "hashes": {"sha256": self.packed_sha256},
        }
        return {
            "column_encodings": list(MDS_COLUMNS.values()),
            "column_names": list(MDS_COLUMNS),
            "column_sizes": [None],
            "compression": f"zstd:{COMPRESSION}",
            "format": "mds",
            "hashes": ["sha256"],
            "raw_data": raw,
            "samples": self.samples,
            "size_limit": None,
            "version": 2,
            "zip_data": packed,
        }


def read_index(folder: Path) -> list[Shard]:
    """Return a split's shards, checked each by itself and against the first.

    Raises:
        UserError: there is no index in the split's folder, or it is not one that `shards` wrote.
    """
    path = folder / INDEX
    try:
        data = read_bounded(path, MOST_LARGE)
    except FileNotFoundError:
        raise UserError(f"{path}: no shards here; {_REMEDY}") from None
    shards: list[Shard] = []
    try:
        entries = strict_json(data)["shards"]
        for number, entry in enumerate(entries):
            raw, packed = entry["raw_data"], entry["zip_data"]
            shard = Shard(
                number=number,
                samples=entry["samples"],
                size=raw["bytes"],
                sha256=raw["hashes"]["sha256"],
                packed_size=packed["bytes"],
                packed_sha256=packed["hashes"]["sha256"],
            )
            shards.append(shard)
            most, is_last = shards[0].samples, number + 1 == len(entries)
            if shard.samples > most or (shard.samples < most and not is_last):
                raise ValueError(
                    f"shard {number} has {shard.samples} records where the first has {most}"
                )
    except (KeyError, TypeError, ValueError) as error:
        what = f"no {error}" if isinstance(error, KeyError) else error
        raise UserError(f"{path} is damaged: {what}; {_REMEDY}") from None
    if not shards or data != _text(shards).encode():
        raise UserError(f"{path} is not in the form that `shards` writes; {_REMEDY}")
    return shards


def write_index(folder: Path, shards: Sequence[Shard]) -> None:
    """Write the index of a split, which streaming's readers open it by."""
    write_text(folder / INDEX, _text(shards))


def _text(shards: Sequence[Shard]) -> str:
    return json.dumps(
        {"shards": [shard.described() for shard in shards], "version": 2},
        sort_keys=True,
    )


COMPRESSION = 1
"""Level of zstd at which shards are compressed."""

SHARDS = 1
"""Version of the code that decides which tokens are in which shard; it is raised together with the golden tokens, and
unfinished or finished shards of another version are not continued or taken for the same."""


_SMALL = 20e6
"""Bytes of a source from which half a percent to one of it is held out."""


@shared_options("what the shards' bytes depend on")
@dataclass(frozen=True, kw_only=True)
class ShardSettings:
    """What the shards' bytes depend on, with the source and the tokenizer."""

    text_field: str = "text"
    """column or key of the text"""
    document_separator: str = "blank"
    """what ends a document in a text file: blank (line), line, file, or a line of text"""
    validation_share: float | None = None
    """documents held out (default: 0.005; below 20 MB 0.01 or 2,048 tokens)"""
    validation_tokens: int = 4_000_000
    """number of validation tokens after which no more documents are held out"""
    tokens: int = 0
    """training tokens after which reading stops; 0 reads everything"""
    shard_records: int = 4_096
    """records of 4,096 tokens in a shard (4096: 67 MB)"""

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if self.validation_share is not None and not 0 < self.validation_share < 1:
            raise UserError(
                f"--validation-share must be above 0 and below 1, not {self.validation_share}"
            )
        if self.shard_records < 1 or self.validation_tokens < 1 or self.tokens < 0:
            raise UserError(
                "--shard-records and --validation-tokens must be at least 1, --tokens at least 0"
            )

    def settled(self, size: int) -> ShardSettings:
        """Return the settings for a source of so many bytes, with the share that is held out of it.

        Of a small one it stays None: what is held out then depends on what validation has (`build_shards`).
        """
        usual = max(0.005, 200_000 / size) if size >= _SMALL else None
        return replace(self, validation_share=self.validation_share or usual)
