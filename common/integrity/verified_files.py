"""Files that are read only while they are what a hash says: hashed when first opened, and again when they change."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from common.integrity.doors import open_plain

__all__ = ["DamagedError", "VerifiedFile", "check_file"]

_CHUNK = 2**20


class DamagedError(Exception):
    """A file's content is not what its hash says; the words say in what, without the file's name."""


@dataclass(eq=False)
class VerifiedFile:
    """A file, and what is known of it."""

    path: Path
    """Where it is."""
    bytes: int
    """Its size."""
    sha256: str
    """What its content hashes to."""
    _seen: tuple[int, ...] | None = None

    def open(self) -> int:
        """Return a descriptor of the file, for reading, hashed if it has not been or if it has changed since.

        Raises:
            FileNotFoundError: there is none.
            UserError: it is no regular file.
            DamagedError: its size or content is another.
        """
        descriptor = open_plain(self.path)
        try:
            now = _state(descriptor)
            if now != self._seen:
                self._seen = None
                self._hash(descriptor)
                if _state(descriptor) != now:
                    raise DamagedError("it changed while it was read")
                self._seen = now
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def trust(self, descriptor: int) -> None:
        """Take a file that this process has just written and hashed as seen."""
        self._seen = _state(descriptor)

    def _hash(self, descriptor: int) -> None:
        if (size := os.fstat(descriptor).st_size) != self.bytes:
            raise DamagedError(f"it has {size} bytes instead of {self.bytes}")
        digest, buffer = hashlib.sha256(), memoryview(bytearray(_CHUNK))
        place = 0
        while count := os.preadv(descriptor, [buffer], place):
            digest.update(buffer[:count])
            place += count
        if digest.hexdigest() != self.sha256:
            raise DamagedError("its content has changed (SHA-256)")


_files: dict[tuple[Path, str], VerifiedFile] = {}


def check_file(path: Path, size: int, sha256: str) -> None:
    """Compare a file with its size and hash, once in this process as long as it does not change.

    Raises:
        FileNotFoundError: there is none.
        UserError: it is no regular file.
        DamagedError: its size or content is another.
    """
    file = _files.setdefault((path, sha256), VerifiedFile(path, size, sha256))
    os.close(file.open())


def _state(descriptor: int) -> tuple[int, ...]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
