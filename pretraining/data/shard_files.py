"""MDS shards of a token stream: written whole or not at all, read at any token, checked against their hashes.

A split is one stream of tokens in records of `RECORD` tokens (MDS samples with one int32 array `tokens`), the
records in shards of equal size. Sequences are cut from the stream when they are read (`pretraining.data.sampler`),
so that one set of shards serves every length and every kind of cut. Of MosaicML's libraries it uses streaming's MDS
writer and reader, as no other module does.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import zstandard
from streaming.base.format import MDSWriter
from streaming.base.format.mds.reader import MDSReader

from common.errors import UserError
from common.files import sha256_file, write_bytes
from common.manifest import DamagedError, VerifiedFile
from common.packed import unzstd
from common.registry import Registry
from pretraining.data.shard_cache import Decompress, ShardCache
from pretraining.data.shard_index import MDS_COLUMNS, RECORD, ShardEntry, ShardFile, read_index, shard_name

__all__ = ["COMPRESSIONS", "Compression", "TokenStream", "damages", "entries_of", "write_shard"]

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
    decompress: Decompress = lambda stream: stream
    """A stream of compressed bytes to that of the bytes."""


COMPRESSIONS = Registry(
    "compression",
    [
        # Level 1: with tiktoken the default, 3, would be a twelfth of the work, for a tenth less disk.
        Compression(
            name="zstd",
            mds="zstd:1",
            suffix=".zstd",
            compress=lambda data: zstandard.compress(data, 1),
            decompress=unzstd,
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
            columns=MDS_COLUMNS,
            out=unused,
            compression=compression.mds,
            hashes=["sha256"],
            size_limit=None,
        )
    for first in range(0, len(tokens), RECORD):
        writer.write({"tokens": tokens[first : first + RECORD]})
    data, name = writer.encode_joint_shard(), shard_name(number)
    raw, packed = _info(name, data), None
    if compression.mds is not None:
        data, name = compression.compress(data), f"{name}{compression.suffix}"
        packed = _info(name, data)
    write_bytes(folder / name, data)
    entry: dict[str, Any] = writer.get_config()
    return entry | {"samples": len(writer.new_samples), "raw_data": raw, "zip_data": packed}


def _info(name: str, data: bytes) -> dict[str, Any]:
    return {"basename": name, "bytes": len(data), "hashes": {"sha256": hashlib.sha256(data).hexdigest()}}


def entries_of(folder: Path) -> list[ShardEntry]:
    """Return the entries of a split's index, checked (`shard_index.read_index`)."""
    return read_index(folder, {item.mds: item.suffix for item in COMPRESSIONS.values()})


def damages(folder: Path) -> Iterator[str]:
    """Yield one sentence for each file of a split that is missing, of another size or of another content."""
    for entry in entries_of(folder):
        path = folder / entry.stored.basename
        if not path.is_file():
            yield f"{path}: is missing"
        elif path.stat().st_size != entry.stored.bytes:
            yield f"{path}: has {path.stat().st_size} bytes instead of {entry.stored.bytes}"
        elif sha256_file(path) != entry.stored.sha256:
            yield f"{path}: its content has changed (SHA-256)"


class TokenStream:
    """A split's tokens by their place in the stream, read from files that are what their hashes say.

    Compressed shards are decompressed on first use (`pretraining.data.shard_cache`). Threads may read at the same time;
    a shard that several of them open is hashed and decompressed once.
    """

    def __init__(
        self,
        folder: Path,
        cache: Path,
        *,
        limit_bytes: float = 0,
        root: Path | None = None,
        fetch: Callable[[ShardFile], AbstractContextManager[Path]] | None = None,
    ) -> None:
        """Open a split.

        Args:
            folder: the split's folder.
            cache: folder for decompressed shards, for this split alone.
            limit_bytes: size of the cache at which the least recently used shards are removed; 0 for no limit.
            root: the folder that is to stay below that size; `cache` when left out.
            fetch: downloads a shard that is not in the folder (`remote_shards.RemoteShards.fetcher`).

        Raises:
            UserError: no index, one that `shards` did not write, or a damaged last shard.
        """
        self.entries = entries_of(folder)
        """The split's shards, as the index describes them."""
        self.folder = folder
        """The split's folder."""
        self._cache, self._fetch = ShardCache(cache, root=root, limit_bytes=limit_bytes), fetch
        self._compressions = {item.mds: item for item in COMPRESSIONS.values()}
        self._records = self.entries[0].samples
        self._last = sum(entry.samples for entry in self.entries) - 1
        self._files = [
            VerifiedFile(
                (cache if entry.zip_data or fetch else folder) / entry.raw_data.basename,
                entry.raw_data.sha256,
                entry.raw_data.bytes,
            )
            for entry in self.entries
        ]
        self._opening = [Lock() for _ in self.entries]
        self._mds = MDSReader(
            dirname=str(folder),
            split="",
            column_encodings=list(MDS_COLUMNS.values()),
            column_names=list(MDS_COLUMNS),
            column_sizes=[None],
            compression=None,
            hashes=[],
            raw_data=None,
            samples=self._records,
            size_limit=None,
            zip_data=None,
        )
        self.tokens = self._last * RECORD + len(self._span(self._last, self._last)[0])
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
        records = self._span(first, last)
        return np.concatenate(records)[start - first * RECORD : stop - first * RECORD]

    def _span(self, first: int, last: int) -> list[Tokens]:
        """Return records [first, last]; each shard is opened once for all of its own."""
        records: list[Tokens] = []
        while first <= last:
            shard, place = divmod(first, self._records)
            end = min(last - first + place, self._records - 1)
            with self._opening[shard]:
                descriptor = self._open(shard)
            try:
                records += [self._record(descriptor, shard, number) for number in range(place, end + 1)]
            finally:
                os.close(descriptor)
            first += end + 1 - place
        return records

    def _open(self, shard: int) -> int:
        entry, file = self.entries[shard], self._files[shard]
        if entry.zip_data or self._fetch:
            decompress = self._compressions[entry.compression].decompress
            return self._cache.open(file, lambda: self._source(entry), entry.stored, decompress)
        try:
            return file.open()
        except FileNotFoundError:
            raise UserError(
                f"{file.path}: is missing; `python -m pretraining verify` lists all such files"
            ) from None
        except DamagedError as problem:
            raise UserError(
                f"{file.path}: is damaged: {problem}; `python -m pretraining verify` lists all such files"
            ) from None

    def _source(self, entry: ShardEntry) -> AbstractContextManager[Path]:
        if self._fetch is not None:
            return self._fetch(entry.stored)
        return nullcontext(self.folder / entry.stored.basename)

    def _record(self, descriptor: int, shard: int, place: int) -> Tokens:
        length = RECORD if shard * self._records + place < self._last else None
        try:
            begin, end = np.frombuffer(os.pread(descriptor, 8, 4 * (1 + place)), "<u4").tolist()
            if not 0 < end - begin <= 4 * RECORD + 64:
                raise ValueError
            data = os.pread(descriptor, end - begin, begin)
            tokens: Tokens = self._mds.decode_sample(data)["tokens"]
            if tokens.shape != (length or min(tokens.size, RECORD),):
                raise ValueError
        except Exception:
            raise UserError(
                f"{self.folder / self.entries[shard].stored.basename}: record {place} is not one that `shards` "
                f"writes; write the shards again"
            ) from None
        return tokens
