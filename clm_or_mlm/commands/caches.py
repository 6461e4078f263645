"""The command that frees what this package has cached for its user."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Literal

from common.files import cache_folder
from pretraining.data.token_stream import shard_cache_folder

__all__ = ["clean"]


def clean(*names: Literal["shards", "stores", "released"], dry_run: bool = False) -> None:
    """Delete your caches and print how much space was freed; running jobs rebuild what they need.

    Without a name, decompressed shards and cached run stores are deleted; they are rebuilt when needed. Released files
    would have to be downloaded again, so they are deleted only if you name `released`.

    example: clm-or-mlm clean --dry-run

    Args:
        names: the caches to delete
        dry_run: print what would be freed, but delete nothing
    """
    folders = {
        "shards": [shard_cache_folder(), cache_folder() / "shards"],
        "stores": [cache_folder() / "stores"],
        "released": sorted(cache_folder().glob("released-*")),
    }
    total, done = 0, "would be freed" if dry_run else "freed"
    for folder in dict.fromkeys(folder for name in names or ("shards", "stores") for folder in folders[name]):
        if folder.is_dir() and not folder.is_symlink():
            size = _bytes_of(folder)
            if not dry_run:
                shutil.rmtree(folder, ignore_errors=True)
                size -= _bytes_of(folder)
            total += size
            sys.stdout.write(f"{size / 1e6:9.2f} MB  {done}  {folder}\n")
    sys.stdout.write(f"{total / 1e6:9.2f} MB  {done} in all\n")


def _bytes_of(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())
