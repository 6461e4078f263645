"""Blocks of a file that grows by appending: each is a length in 8 bytes, and a Zstandard frame with a checksum."""

from __future__ import annotations

import os
from typing import BinaryIO

import zstandard

_LENGTH = 8
"""Bytes of the length before a block."""
END = bytes(_LENGTH)
"""Zeros that stand at the end of a complete file, in place of the next block's length; no block has the length 0."""


def packed_block(data: bytes) -> bytes:
    """Return some data as a block: compressed, with its length before it."""
    packed = zstandard.ZstdCompressor(level=1, write_checksum=True).compress(data)
    return len(packed).to_bytes(_LENGTH, "little") + packed


def read_block(file: BinaryIO) -> bytes | None:
    """Return the data of the next block of a file; None at `END`.

    Raises:
        ValueError: the block is damaged, or the file ends before the block does.
    """
    length = file.read(_LENGTH)
    if length == END:
        return None
    # A damaged length may be huge: no more is asked for than the file has.
    file_size = os.fstat(file.fileno()).st_size
    packed = file.read(min(file_size, int.from_bytes(length, "little")))
    try:
        # Where the file ends early, `packed` is a part of a frame or empty. Both are refused here.
        return zstandard.ZstdDecompressor().decompress(packed, allow_extra_data=False)
    except (zstandard.ZstdError, MemoryError) as error:
        # A MemoryError has no text. Python raises it where the frame says that its data are larger than the
        # memory.
        raise ValueError(str(error) or "a size that cannot be") from None
