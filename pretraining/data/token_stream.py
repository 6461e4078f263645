"""A split's tokens by their place in the stream, read from shards whose hashes are checked.

A split is one stream of tokens in records of `RECORD` tokens (MDS samples with one int32 array `tokens`). All shards
but the last have the same number of records. Sequences are cut from the stream when they are read
(`pretraining.data.sampler`), so that one set of shards serves every length and every kind of cut. MosaicML's streaming
decodes the records (`MDSReader`); which shard and which record are read is decided here.

Decompressed shards are kept in a cache of limited size. It belongs to one user, and is shared by the user's jobs and by
the processes (ranks) of a job on one node. No process waits for another: a shard is decompressed into a temporary
folder, and moves into the cache when it is whole. A process that finds a shard removed from the cache decompresses it
again. A killed process leaves nothing but its temporary folder, which a later process removes.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import time
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from common.errors import UserError
from common.files import mark_cache, private_folder, scratch_folder, temporary_folder
from common.manifest import DamagedError, VerifiedFile
from common.packed import unzstd
from pretraining.data.shard_manifest import RECORD, Shard, read_index

if TYPE_CHECKING:
    from streaming.base.format.mds.reader import MDSReader


logger = logging.getLogger(__name__)

Tokens = npt.NDArray[np.int32]
"""Ids of tokens, 1-D."""

Fetch = Callable[[str, Path, Callable[[], object]], None]
"""A function that downloads a file of a split. It takes the file's name, the path to put it at, and a check that raises
an error if the file is damaged; the download is then repeated."""

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
"""Numbers of the system's errors when a disk, or a user's quota of it, is full."""
_REMEDY = "`clm-or-mlm check` lists all such files"
"""End of the messages on a missing or damaged shard."""


class TokenStream:
    """A split's tokens by their place in the stream.

    Shards are decompressed into a cache on first use. Threads may read at the same time; a shard that several of them
    open is hashed and decompressed once.
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
            cache: folder for decompressed shards, only of this split.
            limit_bytes: size of the cache at which the least recently used shards are removed; 0 for no limit.
            root: the folder whose size is limited, which holds the caches of several splits; `cache` when left out.
            fetch: downloads shards that are not in the folder (`remote_shards.RemoteShards.fetcher`).

        Raises:
            UserError: there is no index, it is not one that `shards` wrote, or the last shard is damaged.
        """
        # Imported here: it imports torchvision and transformers, which takes seconds.
        from streaming.base.format import reader_from_json

        self.shards = read_index(folder)
        """The split's shards, as the index describes them."""
        self.folder = folder
        """The split's folder."""
        self._root, self._limit, self._fetch = root or cache, limit_bytes, fetch
        # The decompressed file of each shard, at its place in the cache, whether or not it is there yet.
        self._files = []
        for shard in self.shards:
            file = VerifiedFile(cache / shard.name, shard.sha256, shard.size)
            self._files.append(file)

        # The reader only decodes records, whose form is the same in all shards, so it opens no file.
        self._reader: MDSReader = reader_from_json("", "", self.shards[0].described())
        # By the shard's number: a lock, a descriptor of the open file, and when the file's access time was last set.
        self._locks = [Lock() for _ in self.shards]
        self._descriptors: dict[int, int] = {}
        self._touched: dict[int, float] = {}
        weakref.finalize(self, _close_all, self._descriptors)
        # Records of a shard, of which only the last shard may have fewer, and the number of the stream's last
        # record, from 0.
        self._shard_records = self.shards[0].samples
        self._last = sum(shard.samples for shard in self.shards) - 1

        # Only the last record may have fewer tokens.
        self.tokens = self._last * RECORD + len(self._record(self._last))
        """Number of tokens in the stream."""

    def read(self, start: int, stop: int) -> Tokens:
        """Return tokens [start, stop) of the stream, int32.

        Raises:
            UserError: a shard is missing or damaged.
            ValueError: the span is outside the stream.
        """
        if not 0 <= start < stop <= self.tokens:
            raise ValueError(
                f"tokens [{start}, {stop}) are outside the stream of {self.tokens}"
            )
        # Read the whole records that the span touches, then cut off what is not wanted at both ends.
        first, last = start // RECORD, (stop - 1) // RECORD
        records = [self._record(number) for number in range(first, last + 1)]
        offset = first * RECORD
        return np.concatenate(records)[start - offset : stop - offset]

    def _record(self, number: int) -> Tokens:
        """Return the tokens of a record, by its number in the stream.

        Raises:
            UserError: the record's shard is missing or damaged, or the record is not one that `shards` wrote.
        """
        shard, place = divmod(number, self._shard_records)
        with self._locks[shard]:
            descriptor = self._open(shard)
            # Read by hand: streaming's reader would open the file by its name, which another process may remove. A
            # shard begins with the number of its records; the offset at which each record begins follows, and last the
            # offset at which the last one ends. All have 4 bytes.
            offsets = os.pread(descriptor, 8, 4 * (1 + place))

            # Filled up with zeros, since a damaged shard may be too short.
            begin, end = np.frombuffer(offsets.ljust(8, b"\0"), "<u4").tolist()
            record_bytes = b""

            # A record is its tokens and a few bytes that describe them. Nothing larger is read into memory.
            if 0 < end - begin <= 4 * RECORD + 64:
                record_bytes = os.pread(descriptor, end - begin, begin)

        try:
            tokens: Tokens = self._reader.decode_sample(record_bytes)["tokens"]
            # One dimension of RECORD tokens is right. Only the stream's last record may have fewer; its own
            # size is then compared, so that a second dimension is still refused.
            is_last = number == self._last
            size = min(tokens.size, RECORD) if is_last else RECORD
            if tokens.shape != (size,):
                raise ValueError
        except Exception:  # whatever the reader may raise for other bytes
            raise UserError(
                f"{self.folder / self.shards[shard].packed_name}: record {place} was not written by "
                f"`shards`; write the shards again"
            ) from None

        return tokens

    def _open(self, number: int) -> int:
        """Return a descriptor of a decompressed shard, which stays open; the caller holds the shard's lock.

        The shard is hashed when it is first opened and after each change, and decompressed if the cache lacks it.

        Raises:
            UserError: the compressed shard is missing or damaged, or the cache cannot be written.
        """
        file, descriptor = self._files[number], self._descriptors.get(number)
        # An open file that was changed or replaced since it was hashed.
        if descriptor is not None and not file.is_seen(descriptor):
            os.close(self._descriptors.pop(number))
            descriptor = None

        if descriptor is None:
            self._close_unneeded()
            # `open` hashes the shard: without the hash, half of all flipped bits became wrong tokens.
            try:
                descriptor = file.open()
            except FileNotFoundError:
                descriptor = self._make(number)
            except DamagedError as problem:
                logger.warning("%s: %s; decompressing it again", file.path, problem)
                file.path.unlink(missing_ok=True)
                descriptor = self._make(number)

            self._descriptors[number] = descriptor
            self._touched[number] = 0.0  # so that the access time is set below

        now = time.time()
        if now - self._touched[number] > _TOUCH_SECONDS:
            # The access time tells when a shard was read last; many file systems do not keep it, so it is set here.
            # The time of change stays: it tells whether the shard is still the one that was hashed.
            os.utime(descriptor, ns=(time.time_ns(), os.fstat(descriptor).st_mtime_ns))
            self._touched[number] = now

        return descriptor

    def _close_unneeded(self) -> None:
        """Close the oldest descriptors, and those of shards that were removed from the cache.

        The disk space of a removed file is only freed when no process has it open.
        """
        # In the order in which the shards were opened.
        numbers = list(self._descriptors)
        for place, number in enumerate(numbers):
            # A shard that another thread is reading stays open.
            if not self._locks[number].acquire(blocking=False):
                continue
            try:
                descriptor = self._descriptors.get(number)
                if descriptor is None:  # another thread has just closed it
                    continue

                # One more will be opened, so at most _OPEN - 1 of those that were opened last stay.
                is_old = len(numbers) - place >= _OPEN
                is_removed = os.fstat(descriptor).st_nlink == 0
                if is_old or is_removed:
                    os.close(self._descriptors.pop(number))
            finally:
                self._locks[number].release()

    def _make(self, number: int) -> int:
        """Put a shard into the cache, and return a descriptor of it.

        Raises:
            UserError: the compressed shard is missing or damaged, or the disk stays full with no other shard in the
                cache.
        """
        shard, file = self.shards[number], self._files[number]
        # If the disk is full, once more with a limit of 1 byte, which removes all other shards from the cache.
        for limit in (self._limit, 1.0):
            make_room(self._root, shard.size, limit)
            try:
                with temporary_folder(private_folder(self._root) / "shard") as folder:
                    shard_file = self._decompressed(shard, folder)
                    # The folders from the root to the shard's own, the outermost first; only this user may read them.
                    for parent in reversed(file.path.relative_to(self._root).parents):
                        private_folder(self._root / parent)
                    descriptor = shard_file.open()
                    shard_file.path.replace(file.path)

                # The descriptor reads this file, even if another rank also writes the shard, or removes it.
                # The file was hashed above, so it counts as compared with its hash and is not hashed again.
                file.trust(descriptor)
                return descriptor
            except OSError as error:
                if error.errno not in DISK_FULL:
                    raise
                reason = os.strerror(error.errno).lower()

        raise UserError(
            f"{self._root}: {reason}: a decompressed shard needs {shard.size / 1e6:,.0f} MB; free some space, or put "
            "the cache elsewhere with --set cache=DIR"
        )

    def _decompressed(self, shard: Shard, folder: Path) -> VerifiedFile:
        """Decompress a shard into a folder, and return the decompressed file.

        If the shards are at an address, the compressed file is downloaded into the folder first. The hashes of both the
        compressed and the decompressed file are checked.

        Raises:
            UserError: the compressed shard is missing or damaged.
            OSError: the disk is full.
        """
        path = self.folder / shard.packed_name
        packed = VerifiedFile(path, shard.packed_sha256, shard.packed_size)
        shard_file = VerifiedFile(folder / shard.name, shard.sha256, shard.size)
        try:
            if self._fetch is not None:
                # The check of the download: opening the file hashes it, and raises an error where it is
                # damaged.
                packed.path = folder / shard.packed_name
                self._fetch(
                    shard.packed_name, packed.path, lambda: os.close(packed.open())
                )

            with os.fdopen(packed.open(), "rb") as file:
                # One byte more than the shard has shows that the content is another, however large it would be.
                shard_file.path.write_bytes(unzstd(file).read(shard.size + 1))

            # Dated ten seconds back, so that any later change gives the file another time.
            os.utime(shard_file.path, ns=(time.time_ns(), time.time_ns() - 10**10))
            # Opening a file hashes it.
            os.close(shard_file.open())
        except DamagedError as problem:
            raise UserError(f"{path} is damaged: {problem}; {_REMEDY}") from None
        except FileNotFoundError:
            raise UserError(f"{path} is missing; {_REMEDY}") from None
        except OSError as error:
            if error.errno in DISK_FULL:
                raise
            raise UserError(
                f"{path} cannot be read: {error.strerror or error}; {_REMEDY}"
            ) from None

        return shard_file


def _close_all(descriptors: Mapping[int, int]) -> None:
    for descriptor in descriptors.values():
        os.close(descriptor)


_OPEN = 256
"""Most descriptors at a time: a block of sequences in random order is read from 130 shards."""
_TOUCH_SECONDS = 60.0
"""Least seconds from one setting of a shard's access time to the next: to set it at each record was more than a shared
file system bears."""


def make_shard_cache_folder(place: str = "") -> Path:
    """Make the folder of all decompressed shards, which only this user may read, and return it.

    Args:
        place: the setting `cache`; empty for the usual place (`common.files.scratch_folder`).

    Raises:
        UserError: the folder cannot be made, or a folder on the way belongs to someone else.
    """
    folder = scratch_folder(place) / "shards"
    try:
        # `scratch_folder` gives this name to a user's folder in a place for all users.
        if folder.parent.name == f"clm-or-mlm-{os.getuid()}":
            private_folder(folder.parent)
        mark_cache(folder.parent)
        return private_folder(folder)
    except OSError as error:
        raise UserError(
            f"{folder}: decompressed shards cannot be written there ({error.strerror}); choose another folder with "
            f"--set cache=DIR or CLM_OR_MLM_SCRATCH"
        ) from None


def cached_shards(root: Path) -> dict[Path, os.stat_result]:
    """Return the status of each shard in a cache, by its path; the shard that was opened last comes last."""
    statuses = {}
    for folder, subfolders, names in os.walk(root):
        # A change of this list keeps `os.walk` out of temporary folders, in which shards are being made.
        subfolders[:] = [name for name in subfolders if not name.startswith(".")]
        for name in names:
            if not name.endswith(".mds"):
                continue
            path = Path(folder, name)
            # Another process may have removed the shard to make room.
            with contextlib.suppress(FileNotFoundError):
                statuses[path] = path.stat()

    # An item is a path with its status. `TokenStream` sets the access time when it reads a shard.
    return dict(sorted(statuses.items(), key=lambda item: item[1].st_atime_ns))


def make_room(root: Path, size: int, limit: float) -> None:
    """Remove the least recently opened shards from a cache until it has room for one more.

    Args:
        root: the cache's folder.
        size: bytes of the shard that will be added.
        limit: most bytes of the cache with that shard; 0 for no limit.
    """
    if not limit:
        return
    shards = cached_shards(root)
    used = size + sum(status.st_size for status in shards.values())
    # In the order of `cached_shards`: the shard whose last opening is longest ago comes first.
    for path, status in shards.items():
        if used <= limit:
            return
        path.unlink(missing_ok=True)
        used -= status.st_size
