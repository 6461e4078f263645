"""Blocks of a file that grows: each a Zstandard frame with a checksum, and its length before it."""

from __future__ import annotations

import os
from typing import BinaryIO

import zstandard

_LENGTH = 8
END = bytes(_LENGTH)
"""What ends a file of blocks that is complete: the length of no block."""


def packed_block(data: bytes) -> bytes:
    """Return bytes as a block."""
    packed = zstandard.ZstdCompressor(level=1, write_checksum=True).compress(data)
    return len(packed).to_bytes(_LENGTH, "little") + packed


def read_block(file: BinaryIO) -> bytes | None:
    """Return the next block of a file; None at `END`.

    Raises:
        ValueError: it is damaged, or ends early.
    """
    length = file.read(_LENGTH)
    if length == END:
        return None
    size = os.fstat(file.fileno()).st_size  # of a damaged length
    packed = file.read(min(size, int.from_bytes(length, "little")))
    try:
        # An empty text, at a file's early end, is refused here as well.
        return zstandard.ZstdDecompressor().decompress(packed, allow_extra_data=False)
    except (zstandard.ZstdError, MemoryError) as error:
        raise ValueError(str(error) or "a size that cannot be") from None
