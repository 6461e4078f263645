"""MDS shards of a token stream: written whole or not at all, read at any token, checked against their hashes.

A split is one stream of tokens in records of `RECORD` tokens (MDS samples with one int32 array `tokens`), the
records in shards of equal size. Sequences are cut from the stream when they are read (`pretraining.data.sampler`),
so that one set of shards serves every length and every kind of cut. With `training.composer_adapter` the only
module that touches MosaicML's libraries: shards are written and decoded by streaming's MDS writer and readers.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import zstandard
from streaming.base.compression import decompress
from streaming.base.format import MDSWriter, reader_from_json

from common.errors import UserError
from common.files import sha256_file, write_bytes, write_text
from common.registry import Registry

__all__ = [
    "COMPRESSIONS", "RECORD", "Compression", "TokenStream", "damages", "write_index", "write_shard",
]  # fmt: skip

RECORD = 4096
"""Tokens of one record; the last of a split may be shorter."""

Tokens = npt.NDArray[np.int32]


@dataclass(frozen=True, kw_only=True)
class Compression:
    """How shards are compressed."""

    name: str
    """Value of `--compression`."""
    mds: str | None
    """What the index calls it, for streaming's readers; None for shards as they are."""
    suffix: str = ""
    """Put after a compressed shard's name."""
    compress: Callable[[bytes], bytes] = bytes
    """Bytes to compressed bytes."""


COMPRESSIONS = Registry(
    "compression",
    [
        # Level 1: with tiktoken the default, 3, would be a twelfth of the work, for a tenth less disk.
        Compression(
            name="zstd", mds="zstd:1", suffix=".zstd", compress=lambda data: zstandard.compress(data, 1)
        ),
        Compression(name="none", mds=None),
    ],
)
"""The compressions of shards."""


def write_shard(folder: Path, number: int, tokens: Tokens, compression: Compression) -> dict[str, Any]:
    """Write tokens as shard `number` of a split's folder and return its entry of the index.

    Args:
        folder: the split's folder.
        number: place of the shard in the stream, from 0.
        tokens: 1-D, int32; whole records, but for the last shard of a split.
        compression: one of `COMPRESSIONS`.
    """
    # Only its encoding is used, since its zstd takes half as long again; it needs an empty folder all the same.
    with tempfile.TemporaryDirectory() as unused:
        writer = MDSWriter(
            columns={"tokens": "ndarray:int32"},
            out=unused,
            compression=compression.mds,
            hashes=["sha256"],
            size_limit=None,
        )
    for first in range(0, len(tokens), RECORD):
        writer.write({"tokens": tokens[first : first + RECORD]})
    data, name = writer.encode_joint_shard(), f"shard.{number:05}.mds"
    raw, packed = _info(name, data), None
    if compression.mds is not None:
        data, name = compression.compress(data), f"{name}{compression.suffix}"
        packed = _info(name, data)
    write_bytes(folder / name, data)
    entry: dict[str, Any] = writer.get_config()
    return entry | {"samples": len(writer.new_samples), "raw_data": raw, "zip_data": packed}


def _info(name: str, data: bytes) -> dict[str, Any]:
    return {"basename": name, "bytes": len(data), "hashes": {"sha256": hashlib.sha256(data).hexdigest()}}


def write_index(folder: Path, entries: list[dict[str, Any]]) -> None:
    """Write the index of a split, which streaming's readers open it by."""
    write_text(folder / "index.json", json.dumps({"shards": entries, "version": 2}, sort_keys=True))


def damages(folder: Path) -> Iterator[str]:
    """Yield one sentence for each file of a split that is missing, of another size or of another content."""
    for entry in _entries(folder):
        info = entry["zip_data"] or entry["raw_data"]
        path = folder / info["basename"]
        if not path.is_file():
            yield f"{path}: is missing"
        elif path.stat().st_size != info["bytes"]:
            yield f"{path}: has {path.stat().st_size} bytes instead of {info['bytes']}"
        elif sha256_file(path) != info["hashes"]["sha256"]:
            yield f"{path}: its content has changed (SHA-256)"


class TokenStream:
    """A split's tokens by their place in the stream; compressed shards are decompressed on first use.

    Decompressed shards are in a cache folder that the ranks of a node share: each is written under another name
    and renamed, so that no lock is needed and a killed process leaves nothing half-written to be read.
    """

    def __init__(self, folder: Path, cache: Path, *, limit_bytes: float = 0) -> None:
        """Open a split.

        Args:
            folder: the split's folder.
            cache: folder for decompressed shards, for this split alone.
            limit_bytes: size of the cache at which the least recently used shards are removed; 0 for no limit.
        """
        self._folder, self._cache, self._limit = folder, cache, limit_bytes
        self._index = _entries(folder)
        self._records = self._index[0]["samples"]
        self._readers: dict[int, Any] = {}
        *full, last = self._index
        if any(entry["samples"] != self._records for entry in full):
            raise UserError(
                f"{folder}: its shards are of different sizes; these were not written by `shards`"
            )
        count = sum(entry["samples"] for entry in full) + last["samples"]
        self.tokens = (count - 1) * RECORD + len(self._record(count - 1))
        """Tokens in the stream."""

    def read(self, start: int, stop: int) -> Tokens:
        """Return tokens [start, stop) of the stream, int32.

        Raises:
            UserError: a shard is missing or damaged.
            ValueError: the span is outside the stream.
        """
        if not 0 <= start < stop <= self.tokens:
            raise ValueError(f"tokens [{start}, {stop}) are outside the stream of {self.tokens}")
        first, last = start // RECORD, (stop - 1) // RECORD
        records = [self._record(number) for number in range(first, last + 1)]
        return np.concatenate(records)[start - first * RECORD : stop - first * RECORD]

    def _record(self, number: int) -> Tokens:
        shard, place = divmod(number, self._records)
        try:
            tokens: Tokens = self._readers[shard][place]["tokens"]
        except (KeyError, FileNotFoundError):
            self._readers[shard] = self._open(shard)
            tokens = self._readers[shard][place]["tokens"]
        return tokens

    def _open(self, shard: int) -> Any:
        entry = self._index[shard]
        raw, packed = entry["raw_data"], entry["zip_data"]
        path = (self._folder if packed is None else self._cache) / raw["basename"]
        whole = path.is_file() and path.stat().st_size == raw["bytes"]
        if packed is None and not whole:
            raise UserError(f"{path}: is missing or damaged; `shards verify` lists all such files")
        if packed is not None and not whole:
            source = self._folder / packed["basename"]
            try:
                data = decompress(entry["compression"], source.read_bytes())
            except FileNotFoundError:
                raise UserError(f"{source}: is missing; `shards verify` lists what is") from None
            except Exception as error:
                raise UserError(
                    f"{source}: is damaged: {error}; `shards verify` lists all such files"
                ) from None
            if len(data) != raw["bytes"]:
                raise UserError(f"{source}: is damaged; `shards verify` lists all such files")
            self._make_room(raw["bytes"])
            write_bytes(path, data)
        if packed is not None:
            os.utime(path)
        return reader_from_json(str(path.parent), "", entry)

    def _make_room(self, size: int) -> None:
        if not self._limit:
            return
        held = sorted(self._cache.glob("*.mds"), key=lambda path: path.stat().st_mtime)
        used = sum(path.stat().st_size for path in held) + size
        for path in held:
            if used <= self._limit:
                return
            used -= path.stat().st_size
            path.unlink(missing_ok=True)


def _entries(folder: Path) -> list[dict[str, Any]]:
    path = folder / "index.json"
    try:
        entries: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["shards"]
    except FileNotFoundError:
        raise UserError(f"{path}: no shards here; write them with `python -m pretraining shards`") from None
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{path}: is damaged; write the shards again") from None
    if not entries:
        raise UserError(f"{path}: lists no shards")
    return entries
