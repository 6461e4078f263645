"""A split's tokens by their place in the stream, read from files that are what their hashes say.

A split is one stream of tokens in records of `RECORD` tokens (MDS samples with one int32 array `tokens`), the records
in shards of equal size. Sequences are cut from the stream when they are read (`pretraining.data.sampler`), so that one
set of shards serves every length and every kind of cut. MosaicML's streaming brings a shard, compares it with its
hash, decompresses it (`Stream`) and reads its records (`MDSReader`); which shard and which record is decided here.
"""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from common.errors import UserError, first_line
from common.files import private_folder
from common.manifest import DamagedError, VerifiedFile
from common.reading import open_plain
from pretraining.data.shard_cache import make_room, unfinished
from pretraining.data.shard_index import RECORD, ShardEntry, read_index

if TYPE_CHECKING:
    from streaming.base.format.mds.reader import MDSReader

__all__ = ["DISK_FULL", "Fetch", "TokenStream"]

logger = logging.getLogger(__name__)

Tokens = npt.NDArray[np.int32]
Fetch = Callable[[str, Path, Callable[[], object]], None]
"""Brings a file of a split, by its name, to a path, and again until what checks it does not complain."""

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
"""Numbers of the errors of a full disk."""
_REMEDY = "`clm-or-mlm pretraining verify` lists all such files"


class TokenStream:
    """A split's tokens by their place in the stream.

    Shards that are compressed or elsewhere are put into a cache on first use. Threads may read at the same time; a
    shard that several of them open is hashed and decompressed once.
    """

    def __init__(
        self,
        folder: Path,
        cache: Path,
        *,
        limit_bytes: float = 0,
        root: Path | None = None,
        fetch: Fetch | None = None,
    ) -> None:
        """Open a split.

        Args:
            folder: the split's folder, which holds its index.
            cache: folder for decompressed shards, for this split alone.
            limit_bytes: size of the cache at which the least recently used shards are removed; 0 for no limit.
            root: the folder that is to stay below that size; `cache` when left out.
            fetch: brings a shard that is not in the folder (`remote_shards.RemoteShards.fetcher`).

        Raises:
            UserError: no index, one that `shards` did not write, or a damaged last shard.
        """
        from streaming.base.format import reader_from_json  # imports torchvision and transformers

        self.entries = read_index(folder)
        """The split's shards, as the index describes them."""
        self.folder = folder
        """The split's folder."""
        self._is_cached = self.entries[0].packed is not None or fetch is not None
        self._place = cache if self._is_cached else folder
        self._root, self._limit, self._fetch = root or cache, limit_bytes, fetch
        self._files = [
            VerifiedFile(self._place / entry.raw.basename, entry.raw.sha256, entry.raw.size)
            for entry in self.entries
        ]
        self._reader: MDSReader = reader_from_json("", "", self.entries[0].described())
        self._opening = [Lock() for _ in self.entries]
        self._records = self.entries[0].samples
        self._last = sum(entry.samples for entry in self.entries) - 1
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
            records += self._of_shard(shard, place, end + 1)
            first += end + 1 - place
        return records

    def _of_shard(self, shard: int, start: int, stop: int) -> list[Tokens]:
        """Return records [start, stop) of a shard."""
        with self._opening[shard]:
            descriptor = self._open(shard)
        try:
            return [self._record(descriptor, shard, place) for place in range(start, stop)]
        finally:
            os.close(descriptor)

    def _record(self, descriptor: int, shard: int, place: int) -> Tokens:
        length = RECORD if shard * self._records + place < self._last else None
        try:
            # By hand, since streaming's reader opens the file by its name, which another process may remove.
            begin, end = np.frombuffer(os.pread(descriptor, 8, 4 * (1 + place)), "<u4").tolist()
            if not 0 < end - begin <= 4 * RECORD + 64:
                raise ValueError
            tokens: Tokens = self._reader.decode_sample(os.pread(descriptor, end - begin, begin))["tokens"]
            if tokens.shape != (length or min(tokens.size, RECORD),):
                raise ValueError
        except Exception:  # whatever comes of what is no record
            raise UserError(
                f"{self.folder / self.entries[shard].stored.basename}: record {place} is not one that `shards` "
                f"writes; write the shards again"
            ) from None
        return tokens

    def _open(self, shard: int) -> int:
        """Return a descriptor of a shard, hashed if it has not been or if it has changed since."""
        file = self._files[shard]
        try:
            descriptor = file.open()
        except FileNotFoundError:
            if self._is_cached:
                return self._make(shard)
            raise UserError(f"{file.path}: is missing; {_REMEDY}") from None
        except DamagedError as problem:
            if not self._is_cached:
                raise UserError(f"{file.path}: is damaged: {problem}; {_REMEDY}") from None
            logger.warning("%s: %s; it is decompressed again", file.path, problem)
            file.path.unlink(missing_ok=True)
            return self._make(shard)
        if self._is_cached:
            # When it was opened last is its access time, which many file systems do not keep by themselves; the
            # time of its last change stays, since that says whether it is still what was hashed.
            os.utime(descriptor, ns=(time.time_ns(), os.fstat(descriptor).st_mtime_ns))
        return descriptor

    def _make(self, shard: int) -> int:
        """Put a shard into the cache, in the place of all others where the disk is full, and return a descriptor.

        Raises:
            UserError: it is missing or damaged, or the cache cannot be written.
        """
        entry = self.entries[shard]
        for limit in (self._limit, 1.0):
            make_room(self._root, entry.raw.size, limit)
            try:
                with unfinished(self._root) as folder:
                    made = self._prepare(entry, folder)
                    for between in reversed(self._place.relative_to(self._root).parents):
                        private_folder(self._root / between)
                    final = private_folder(self._place) / made.path.name
                    descriptor = made.open()
                    made.path.replace(final)
                # Read from what was written here, even where another rank has written it, too, or removed it.
                self._files[shard].trust(descriptor)
                return descriptor
            except OSError as error:
                if error.errno not in DISK_FULL:
                    raise
                full = os.strerror(error.errno).lower()
        raise UserError(
            f"{self._root}: {full}: a decompressed shard needs {entry.raw.size / 1e6:,.0f} MB; free some space or set "
            f"cache=DIR"
        )

    def _prepare(self, entry: ShardEntry, folder: Path) -> VerifiedFile:
        """Have streaming bring, check and decompress a shard in a folder, and return the file that is there then."""
        from streaming import Stream
        from streaming.base.format import reader_from_json

        made = VerifiedFile(folder / entry.raw.basename, entry.raw.sha256, entry.raw.size)
        reader: MDSReader = reader_from_json(str(folder), "", entry.described())
        options: dict[str, Any] = {"validate_hash": "sha256", "download_retry": 1, "download_timeout": 60.0}
        remote = None if self._fetch else str(self.folder.resolve())
        stream = Stream(remote=remote, local=str(folder), keep_zip=False, **options)

        def prepare() -> None:
            try:
                stream.prepare_shard(reader)
                # Back in time, so that whatever changes it later gives it another time.
                os.utime(made.path, ns=(time.time_ns(), time.time_ns() - 10**10))
                os.close(made.open())
            except BaseException as error:
                reader.evict()
                if isinstance(error, OSError | UserError) or not isinstance(error, Exception):
                    raise
                # streaming's own, and that of each codec
                why = first_line(error).partition(":")[0]
                raise DamagedError(f"its content has changed ({why})") from None

        path = self.folder / entry.stored.basename
        try:
            if self._fetch is not None:
                self._fetch(entry.stored.basename, folder / entry.stored.basename, prepare)
            else:
                descriptor = open_plain(
                    path
                )  # streaming would copy whatever stands there, a device without end
                size = os.fstat(descriptor).st_size
                os.close(descriptor)
                if size != entry.stored.size:
                    raise DamagedError(f"it has {size} bytes instead of {entry.stored.size}")
                prepare()
        except DamagedError as problem:
            raise UserError(f"{path}: is damaged: {problem}; {_REMEDY}") from None
        except FileNotFoundError:
            raise UserError(f"{path}: is missing; {_REMEDY}") from None
        except OSError as error:
            if error.errno in DISK_FULL:
                raise
            raise UserError(f"{path}: cannot be read: {error.strerror or error}; {_REMEDY}") from None
        return made
