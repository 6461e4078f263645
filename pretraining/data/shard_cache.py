"""Shards opened: each process hashes a file before it reads from it, and again only when the file has changed.

Compressed shards are decompressed into a cache, hashed on the way on both sides. The cache belongs to one user and is
bounded; the ranks of a node and the jobs of a user share it without a lock: a shard is written under another name and
appears whole, the first of several to write it wins, and whoever finds one gone makes it again.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import logging
import os
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from common.errors import UserError
from common.files import private_folder
from common.manifest import DamagedError, VerifiedFile
from common.reading import open_plain
from pretraining.data.shard_index import ShardFile
from pretraining.data.shard_settings import shard_cache_folder

__all__ = [
    "DamagedError",
    "Decompress",
    "ShardCache",
    "Source",
    "VerifiedFile",
    "held",
    "make_shard_cache_folder",
]

logger = logging.getLogger(__name__)

Decompress = Callable[[BinaryIO], BinaryIO]
"""From a stream of compressed bytes to the stream of what they stand for."""
Source = Callable[[], contextlib.AbstractContextManager[Path]]
"""What gives a compressed file's path, there as long as the context is open."""

_CHUNK = 2**20
_LEFT_OVER_SECONDS = 3600.0
_REMEDY = "`python -m pretraining verify` lists all such files"


def make_shard_cache_folder(place: str = "") -> Path:
    """Make the folder of all decompressed shards, for this user alone, and return it.

    Raises:
        UserError: a folder on the way belongs to someone else, or it cannot be made.
    """
    folder = shard_cache_folder(place)
    try:
        if folder.parent.name == f"clm-or-mlm-{os.getuid()}":
            private_folder(folder.parent)
        return private_folder(folder)
    except OSError as error:
        raise UserError(
            f"{folder}: decompressed shards cannot be put there ({error.strerror}); choose a place with "
            f"--set cache=DIR or CLM_OR_MLM_SCRATCH"
        ) from None


class ShardCache:
    """Decompressed shards of one split."""

    def __init__(self, folder: Path, *, root: Path | None = None, limit_bytes: float = 0) -> None:
        """Name the cache; its folders are made when the first shard is written.

        Args:
            folder: for this split alone.
            root: the folder above it that is bounded as a whole; `folder` when left out.
            limit_bytes: size at which the least recently opened shards are removed; 0 for no limit.
        """
        self.folder, self._root, self._limit = folder, root or folder, limit_bytes

    def open(self, cached: VerifiedFile, source: Source, packed: ShardFile, decompress: Decompress) -> int:
        """Return a descriptor of a decompressed shard, made from its source if need be.

        Args:
            cached: the decompressed shard.
            source: entered for the path of the compressed file, only if that is needed.
            packed: what the compressed file must be.
            decompress: how it is decompressed.

        Raises:
            UserError: the source is missing or damaged, or the cache cannot be written.
        """
        try:
            descriptor = cached.open()
            status = os.fstat(descriptor)
            # When it was opened last is its access time, which many file systems do not keep by themselves; the
            # time of its last change stays, since that says whether it is still what was hashed.
            with contextlib.suppress(OSError):
                os.utime(descriptor, ns=(time.time_ns(), status.st_mtime_ns))
            return descriptor
        except FileNotFoundError:
            pass
        except (DamagedError, UserError) as problem:
            logger.warning("%s: %s; it is decompressed again", cached.path, problem)
            cached.path.unlink(missing_ok=True)
        self._make_folders()
        try:
            return self._make(cached, source, packed, decompress, self._limit)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
        try:
            return self._make(cached, source, packed, decompress, 1)
        except OSError as error:
            raise UserError(
                f"{self.folder}: {os.strerror(error.errno or 0).lower()}: a decompressed shard needs "
                f"{cached.bytes / 1e6:,.0f} MB; free some space or set cache=DIR"
            ) from None

    def _make_folders(self) -> None:
        between = [folder for folder in reversed(self.folder.parents) if self._root in folder.parents]
        for folder in dict.fromkeys((self._root, *between, self.folder)):
            private_folder(folder)

    def _make(
        self, cached: VerifiedFile, source: Source, packed: ShardFile, decompress: Decompress, limit: float
    ) -> int:
        self._make_room(cached.bytes, limit)
        path = cached.path
        temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
        try:
            with source() as packed_path, temporary.open("xb") as file:
                try:
                    _decompress(packed_path, packed, file, cached, decompress)
                except DamagedError as problem:
                    raise UserError(f"{packed_path}: is damaged: {problem}; {_REMEDY}") from None
                # Back in time, so that whatever changes it later gives it another time.
                past = time.time_ns() - 10**10
                os.utime(file.fileno(), ns=(time.time_ns(), past))
                descriptor = open_plain(temporary)
            try:
                _publish(temporary, path)
            except BaseException:
                os.close(descriptor)
                raise
            # Read from what was written here, even where another rank was faster or has evicted it already.
            cached.trust(descriptor)
            return descriptor
        finally:
            temporary.unlink(missing_ok=True)

    def _make_room(self, size: int, limit: float) -> None:
        if not limit:
            return
        files = sorted(held(self._root), key=lambda item: item[1].st_atime_ns)
        used = sum(status.st_size for _, status in files) + size
        for path, _ in files:
            if used <= limit:
                return
            with contextlib.suppress(FileNotFoundError):
                used -= path.stat().st_size
                path.unlink()


def held(root: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the shards in a cache; what killed processes left half-written is removed."""
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder, name)
            with contextlib.suppress(FileNotFoundError):
                status = path.lstat()
                if name.endswith(".mds"):
                    yield path, status
                elif name.endswith(".tmp") and time.time() - status.st_ctime > _LEFT_OVER_SECONDS:
                    path.unlink()


class _Hashing(io.RawIOBase):
    """A stream of a file's bytes, hashed as they pass."""

    def __init__(self, file: io.FileIO) -> None:
        self._file, self.digest = file, hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._file.readinto(buffer) or 0
        self.digest.update(memoryview(buffer)[:count])
        return count


def _decompress(
    source: Path, packed: ShardFile, target: BinaryIO, wanted: VerifiedFile, decompress: Decompress
) -> None:
    """Write what `source` decompresses to, never more than is wanted.

    Raises:
        UserError: there is no such file.
        DamagedError: the source or what it decompresses to is not what the index says.
        OSError: the target cannot be written.
    """
    try:
        descriptor = open_plain(source)
    except FileNotFoundError:
        raise UserError(f"{source}: is missing; {_REMEDY}") from None
    with io.FileIO(descriptor) as file:
        if (size := os.fstat(descriptor).st_size) != packed.bytes:
            raise DamagedError(f"it has {size} bytes instead of {packed.bytes}")
        compressed = _Hashing(file)
        digest, count = hashlib.sha256(), 0
        stream = decompress(compressed)  # type: ignore[arg-type]
        while True:
            try:
                data = stream.read(_CHUNK)
            except Exception as error:  # each library has its own
                raise DamagedError(" ".join(str(error).split())) from None
            count += len(data)
            if not data or count > wanted.bytes:
                break
            digest.update(data)
            target.write(data)
        while compressed.read(_CHUNK):
            pass
        if compressed.digest.hexdigest() != packed.sha256:
            raise DamagedError("its content has changed (SHA-256)")
        if count != wanted.bytes or digest.hexdigest() != wanted.sha256:
            raise DamagedError("it does not decompress to what the index says")


def _publish(temporary: Path, path: Path) -> None:
    """Give a file its name, unless another process was faster."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    except OSError:  # a file system without links
        temporary.replace(path)
