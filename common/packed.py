"""Packed files as streams: what gzip and Zstandard hold; a file that is cut short is never taken for a whole one."""

from __future__ import annotations

import functools
import io
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, BinaryIO


def _unpack(kind: str, raw: IO[bytes]) -> BinaryIO:
    """Return the content of a file of one or more frames; a damaged one raises an OSError without a number."""
    # Imported here: a help does not need it.
    import pyarrow as pa

    return io.BufferedReader(pa.CompressedInputStream(raw, kind), 1 << 20)


class _Xz(lzma.LZMAFile):
    """What an xz file of one or more streams holds; damage is an OSError without a number, as of the other kinds."""

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer."""
        try:
            return super().readinto(buffer)
        except (EOFError, lzma.LZMAError) as error:
            raise OSError(str(error)) from None


unzstd = functools.partial(_unpack, "zstd")
"""What a Zstandard file holds."""

ARCHIVES: dict[str, Callable[[IO[bytes]], IO[bytes]]] = {
    ".zst": unzstd,
    ".gz": functools.partial(_unpack, "gzip"),
    ".xz": lambda raw: io.BufferedReader(_Xz(raw), 1 << 20),
}
"""What a packed file holds, by its suffix."""


def unpacked(name: str | Path, raw: IO[bytes]) -> IO[bytes]:
    """Return what a packed file holds; other files, by their names, as they are."""
    unpack = ARCHIVES.get(Path(name).suffix.lower())
    return raw if unpack is None else unpack(raw)


def plain_suffix(name: str | Path) -> str:
    """Return a file's suffix in lower case; of a packed file, that before the suffix of packing: `.csv` of x.csv.gz."""
    path = Path(name)
    if path.suffix.lower() in ARCHIVES:
        path = path.with_suffix("")
    return path.suffix.lower()
