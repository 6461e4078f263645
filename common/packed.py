"""Packed files as streams: what gzip and Zstandard hold; a file that is cut short is never taken for a whole one."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

__all__ = ["ARCHIVES", "DAMAGE", "plain_suffix", "unpacked", "unzstd"]

DAMAGE = (EOFError, gzip.BadGzipFile, zlib.error)
"""What reading a damaged file raises."""

_STEP = 1 << 12
"""Packed bytes that are unpacked at once: of the most hostile Zstandard they make 128 MB."""


def unzstd(raw: IO[bytes]) -> BinaryIO:
    """Return what a Zstandard file of any number of frames holds."""
    return io.BufferedReader(_Zstandard(raw), 1 << 20)


ARCHIVES: dict[str, Callable[[IO[bytes]], IO[bytes]]] = {
    ".zst": unzstd,
    ".gz": lambda raw: cast(IO[bytes], gzip.GzipFile(fileobj=raw)),
}
"""What a packed file holds, by its suffix."""


def unpacked(name: str | Path, raw: IO[bytes]) -> IO[bytes]:
    """Return what a packed file holds; other files, by their names, as they are."""
    unpack = ARCHIVES.get(Path(name).suffix.lower())
    return raw if unpack is None else unpack(raw)


def plain_suffix(name: str | Path) -> str:
    """Return a file's suffix without that of packing, in lower case."""
    path = Path(name)
    return (path.with_suffix("") if path.suffix.lower() in ARCHIVES else path).suffix.lower()


class _Zstandard(io.RawIOBase):
    """Unpacked bytes of all frames; unlike the library's reader it notices a file that is cut short."""

    def __init__(self, raw: IO[bytes]) -> None:
        import zstandard  # for those who read such a file, not for a help

        self._library, self._raw = zstandard, raw
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._left = memoryview(b"")
        self._inside = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            packed = self._frame.unused_data if self._frame.eof else b""
            if self._frame.eof:
                self._frame, self._inside = self._library.ZstdDecompressor().decompressobj(), False
            packed = packed or self._raw.read(_STEP)
            if not packed:
                if self._inside:
                    raise EOFError("it ends inside a frame")
                return 0
            self._inside = True
            try:
                self._left = memoryview(self._frame.decompress(packed))
            except self._library.ZstdError as error:
                raise zlib.error(str(error)) from None
        taken = self._left[: len(buffer)]
        buffer[: len(taken)] = taken
        self._left = self._left[len(taken) :]
        return len(taken)
