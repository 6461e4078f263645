"""Files that are either whole or absent, and their hashes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

__all__ = ["atomic_folder", "atomic_path", "cache_folder", "sha256_file", "write_bytes", "write_text"]


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path in `path`'s folder that becomes `path` when the block ends well.

    The file is flushed to disk before the rename, so a killed process or a lost machine leaves either the
    old file or the new one. After an error the temporary file is removed and `path` is as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp{path.suffix}")
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        if error.filename == str(temporary):
            error.filename = str(path)  # the name that the user gave
        raise
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder next to `path` that takes the place of `path` when the block ends well.

    Its files are flushed to disk before the rename.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    temporary.mkdir()
    try:
        yield temporary
        for item in temporary.iterdir():
            with item.open("rb") as file:
                os.fsync(file.fileno())
        if path.exists():
            shutil.rmtree(path)
        temporary.replace(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_bytes(path: Path, content: bytes) -> None:
    """Write `content` to `path` atomically, making its folder."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


def write_text(path: Path, content: str) -> None:
    """Write `content` to `path` atomically as UTF-8 with Unix line ends, making its folder."""
    write_bytes(path, content.encode("utf-8"))


def sha256_file(path: Path) -> str:
    """Return the SHA-256 of the file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def cache_folder() -> Path:
    """Return the folder for what can be made again: CLM_OR_MLM_CACHE, else `clm-or-mlm` in the user's cache."""
    if given := os.environ.get("CLM_OR_MLM_CACHE"):
        return Path(given).expanduser()
    xdg = os.environ.get("XDG_CACHE_HOME")
    return (Path(xdg) if xdg and Path(xdg).is_absolute() else Path.home() / ".cache") / "clm-or-mlm"
