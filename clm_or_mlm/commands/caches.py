"""The command that frees what this package has cached for its user."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from common.errors import UserError
from common.files import cache_folder
from common.plain_text import visible
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
    folders: Callable[[str], list[Path]]
    """Where it may be, from the setting `cache` of pretraining."""
    needs_network: bool = False
    """Whether it is fetched again, not computed; then it is removed only by its name."""


CACHES = Registry(
    "cache",
    [
        Cache(
            name="shards",
            what="decompressed shards; training decompresses them again",
            folders=lambda place: [shard_cache_folder(place), cache_folder() / "shards"],
        ),
        Cache(
            name="stores",
            what="run stores that were read; the next command reads them again",
            folders=lambda place: [cache_folder() / "stores"],
        ),
        Cache(
            name="released",
            what="the authors' result files; they are fetched again (needs network)",
            folders=lambda place: sorted(cache_folder().glob("released-*")),
            needs_network=True,
        ),
    ],
)
"""All caches of this package."""


def clean(
    names: Annotated[tuple[str, ...], Parameter(metavar="shards|stores|released", show_default=False)] = (),
    /,
    *,
    cache: Annotated[str, Parameter(metavar="DIR")] = "",
    dry_run: bool = False,
) -> None:
    """Remove what is cached for this user and say what that freed; running jobs make again what they need.

    Shards and stores are removed when no cache is named, released files only
    by their name, since they need the network to come back.

    example: python -m analysis clean --dry-run

    Args:
        names: the caches to remove
        cache: the setting `cache` that pretraining was given, if any
        dry_run: say what would be freed and remove nothing
    """
    chosen = [CACHES[name] for name in dict.fromkeys(names)] or list(CACHES.values())
    total = 0
    for item in chosen:
        keep = item.needs_network and not names
        for folder in dict.fromkeys(item.folders(cache)):
            if not _is_ours(folder):
                continue
            size = sum(status.st_size for _, status in _files(folder))
            if not (keep or dry_run):
                size -= _remove(folder)
            total += 0 if keep else size
            done = "kept" if keep else "would be freed" if dry_run else "freed"
            hint = f"; `clean {item.name}` removes them" if keep else ""
            sys.stdout.write(f"{_size(size):>9}  {done}  {visible(str(folder))}  ({item.what}{hint})\n")
    sys.stdout.write(f"{_size(total):>9}  {'would be freed' if dry_run else 'freed'} in all\n")


def _is_ours(folder: Path) -> bool:
    """Return whether there is a folder of this user, not a link to one.

    Raises:
        UserError: it is someone else's.
    """
    try:
        status = folder.lstat()
    except OSError:
        return False
    if not stat.S_ISDIR(status.st_mode):
        return False
    if status.st_uid != os.getuid():
        raise UserError(
            f"{visible(str(folder))}: belongs to the user with number {status.st_uid}; it is left alone"
        )
    return True


def _files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                yield Path(parent, name), Path(parent, name).lstat()


def _remove(folder: Path) -> int:
    """Remove a folder and return the bytes that could not be removed."""
    shutil.rmtree(folder, ignore_errors=True)
    return sum(status.st_size for _, status in _files(folder))


def _size(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e8 else f"{count / 1e6:.2f} MB"
