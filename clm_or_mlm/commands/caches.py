"""The command that frees what this package has cached for its user."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from common.errors import UserError
from common.files import cache_folder
from common.registry import Registry
from pretraining.data.shard_settings import shard_cache_folder

__all__ = ["clean"]


@dataclass(frozen=True, kw_only=True)
class Cache:
    """Something that is cached because it can be made again."""

    name: str
    """What `clean` calls it."""
    what: str
    """What it is, and what it takes to have it again."""
    folders: Callable[[], list[Path]]
    """Where it may be."""
    needs_network: bool = False
    """Whether it is fetched again, not computed; then it is removed only by its name."""


CACHES = Registry(
    "cache",
    [
        Cache(
            name="shards",
            what="decompressed shards; training decompresses them again",
            folders=lambda: [shard_cache_folder(), cache_folder() / "shards"],
        ),
        Cache(
            name="stores",
            what="run stores that were read; the next command reads them again",
            folders=lambda: [cache_folder() / "stores"],
        ),
        Cache(
            name="released",
            what="the authors' result files; they are fetched again (needs network)",
            folders=lambda: sorted(cache_folder().glob("released-*")),
            needs_network=True,
        ),
    ],
)
"""All caches of this package."""


def clean(
    names: Annotated[tuple[str, ...], Parameter(metavar="shards|stores|released", show_default=False)] = (),
    /,
    *,
    dry_run: bool = False,
) -> None:
    """Remove what is cached for this user and say what that freed; running jobs make again what they need.

    Shards and stores are removed when no cache is named, released files only
    by their name, since they need the network to come back.

    example: python -m analysis clean --dry-run

    Args:
        names: the caches to remove
        dry_run: say what would be freed and remove nothing
    """
    total = 0
    for item in [CACHES[name] for name in dict.fromkeys(names)] or CACHES.values():
        keep = item.needs_network and not names
        done = "kept" if keep else "would be freed" if dry_run else "freed"
        hint = f"; `clean {item.name}` removes them" if keep else ""
        for folder in filter(_is_ours, dict.fromkeys(item.folders())):
            size = _bytes_of(folder)
            if not (keep or dry_run):
                shutil.rmtree(folder, ignore_errors=True)
                size -= _bytes_of(folder)
            total += 0 if keep else size
            sys.stdout.write(f"{_size(size):>9}  {done}  {folder}  ({item.what}{hint})\n")
    sys.stdout.write(f"{_size(total):>9}  {'would be freed' if dry_run else 'freed'} in all\n")


def _is_ours(folder: Path) -> bool:
    """Return whether there is a folder of this user, not a link to one.

    Raises:
        UserError: it is someone else's.
    """
    if folder.is_symlink() or not folder.is_dir():
        return False
    if (owner := folder.stat().st_uid) != os.getuid():
        raise UserError(f"{folder}: belongs to the user with number {owner}; it is left alone")
    return True


def _bytes_of(folder: Path) -> int:
    size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                size += Path(parent, name).lstat().st_size
    return size


def _size(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e8 else f"{count / 1e6:.2f} MB"
