"""Original files as they were packed: plain, gzip or Zstandard, and how much may come out of them."""

from __future__ import annotations

import contextlib
import gzip
import io
import math
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

import zstandard

from common.errors import UserError

__all__ = ["most_unpacked", "open_packed", "unpacks_too_much"]

_UNPACKED, _RATIO = 1 << 28, 200
"""A compressed file may unpack to so many bytes, and beyond them to so many times its size; text has 3 to 20 times."""
_STEP = 1 << 12
"""Packed bytes that are unpacked at once: of the most hostile Zstandard they make 128 MB."""


def most_unpacked(path: Path, *, packed: bool = False) -> float:
    """Return how many bytes a file may hold: any number, unless it is compressed."""
    packed = packed or path.suffix.lower() in (".gz", ".zst")
    return _UNPACKED + _RATIO * path.stat().st_size if packed else math.inf


def unpacks_too_much(path: Path) -> UserError:
    """Return the error for a file of which more comes out than `most_unpacked`."""
    return UserError(
        f"{path}: unpacks to more than {_RATIO} times its size, as no text does; it is not read further"
    )


@contextlib.contextmanager
def open_packed(path: Path) -> Iterator[IO[bytes]]:
    """Open a file and unpack it while it is read; `UserError` when it is absent."""
    if not path.is_file():
        raise UserError(f"there is no file {path}")
    suffix = path.suffix.lower()
    with path.open("rb") as raw:
        if suffix == ".gz":
            with gzip.open(raw) as file:
                yield cast(IO[bytes], file)
        elif suffix == ".zst":
            yield io.BufferedReader(_Zstandard(raw))
        else:
            yield raw


class _Zstandard(io.RawIOBase):
    """Decompressed bytes of all frames; unlike the library's reader it notices a file that is cut short."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._left = memoryview(b"")
        self._inside = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            packed = self._frame.unused_data if self._frame.eof else b""
            if self._frame.eof:
                self._frame, self._inside = zstandard.ZstdDecompressor().decompressobj(), False
            packed = packed or self._raw.read(_STEP)
            if not packed:
                if self._inside:
                    raise EOFError("it ends inside a frame")
                return 0
            self._inside = True
            self._left = memoryview(self._frame.decompress(packed))
        taken = self._left[: len(buffer)]
        buffer[: len(taken)] = taken
        self._left = self._left[len(taken) :]
        return len(taken)
