"""How shards are compressed; a new way is an entry here and a word of `--compression`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import zstandard

from common.registry import Registry

__all__ = ["COMPRESSIONS", "Compression"]


@dataclass(frozen=True, kw_only=True)
class Compression:
    """How shards are compressed; streaming decompresses them."""

    name: str
    """Value of `--compression`."""
    mds: str | None
    """What streaming calls it; None for shards as they are."""
    suffix: str = ""
    """Put after a compressed shard's name."""
    compress: Callable[[bytes], bytes] = bytes
    """Bytes to compressed bytes."""


COMPRESSIONS = Registry(
    "compression",
    [
        # Level 1: with tiktoken the default, 3, would be a twelfth of the work, for a tenth less disk.
        Compression(
            name="zstd", mds="zstd:1", suffix=".zstd", compress=lambda data: zstandard.compress(data, 1)
        ),
        Compression(name="none", mds=None),
    ],
)
"""The compressions of shards."""
