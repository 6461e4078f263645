"""The cache of decompressed shards: one user's, bounded, shared by the ranks of a node and the jobs of a user.

Nobody waits for a lock. What is being made is in a folder that its process alone knows, and gets its name when it is
whole; whoever finds a shard gone makes it again. A killed process leaves nothing but such a folder, which the next
one removes.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from common.errors import UserError
from common.files import private_folder, scratch_folder

__all__ = ["held", "make_room", "make_shard_cache_folder", "shard_cache_folder", "unfinished"]

_UNFINISHED = ".unfinished"
_LEFT_OVER_SECONDS = 3600.0


def shard_cache_folder(place: str = "") -> Path:
    """Return the folder of all decompressed shards of this user, where `--set cache=PLACE` puts it."""
    return scratch_folder(place) / "shards"


def make_shard_cache_folder(place: str = "") -> Path:
    """Make the folder of all decompressed shards, for this user alone, and return it.

    Raises:
        UserError: a folder on the way belongs to someone else, or it cannot be made.
    """
    folder = shard_cache_folder(place)
    try:
        if folder.parent.name == f"clm-or-mlm-{os.getuid()}":  # next to other users'
            private_folder(folder.parent)
        return private_folder(folder)
    except OSError as error:
        raise UserError(
            f"{folder}: decompressed shards cannot be written there ({error.strerror}); choose another folder with "
            f"--set cache=DIR or CLM_OR_MLM_SCRATCH"
        ) from None


@contextlib.contextmanager
def unfinished(root: Path) -> Iterator[Path]:
    """Yield a folder for this process alone in the cache's folder; whatever is in it at the end is removed."""
    place = private_folder(private_folder(root) / _UNFINISHED)
    for left in place.iterdir():  # of killed processes
        with contextlib.suppress(FileNotFoundError):
            if time.time() - left.stat().st_mtime > _LEFT_OVER_SECONDS:
                shutil.rmtree(left, ignore_errors=True)
    folder = private_folder(place / secrets.token_hex(8))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def held(root: Path) -> dict[Path, os.stat_result]:
    """Return the shards in a cache, the one that was opened last at the end."""
    found = {}
    for folder, inside, names in os.walk(root):
        if _UNFINISHED in inside:
            inside.remove(_UNFINISHED)
        for path in (Path(folder, name) for name in names if name.endswith(".mds")):
            with contextlib.suppress(FileNotFoundError):
                found[path] = path.stat()
    return dict(sorted(found.items(), key=lambda item: item[1].st_atime_ns))


def make_room(root: Path, size: int, limit: float) -> None:
    """Remove the least recently opened shards until a cache has room for one more.

    Args:
        root: the cache's folder.
        size: bytes of the shard that is to come.
        limit: bytes that the cache may have then; 0 for no limit.
    """
    if not limit:
        return
    shards = held(root)
    used = size + sum(status.st_size for status in shards.values())
    for path, status in shards.items():
        if used <= limit:
            return
        path.unlink(missing_ok=True)
        used -= status.st_size
