"""Reading what others wrote: bounded regular files, JSON and TOML with nothing to be guessed, paths that stay inside.

Nothing here waits on a pipe, opens a device, or needs more memory than the file's format allows.
"""

from __future__ import annotations

import codecs
import json
import math
import os
import stat
import tomllib
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

from common.errors import UserError
from common.plain_text import name_fault

MOST_BYTES = 2**28
"""Bytes of the largest file that is read as a whole: a hundred times the release's largest, half a million files of a
crate, a million rows of a log."""
MOST_LARGE = 2**30
"""The same for runs tables and for indexes of shards."""


class UnreadableError(UserError):
    """A file that is not opened or not read: no regular file, too large, or refused by the system."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} {reason}")
        self.reason = reason


class ChangingError(UnreadableError):
    """A file that was written while it was read."""


class BadJsonError(ValueError):
    """Content that is not the JSON it should be: the sentence says why, without the file's name."""


def refuse_pointer(path: Path, start: bytes) -> None:
    """Refuse what a clone without Git LFS has in place of a file, by its first bytes.

    Raises:
        UnreadableError: it is such a pointer.
    """
    if start.startswith(b"version https://git-lfs"):
        raise UnreadableError(path, "is a Git LFS pointer, not the file; fetch it with `git lfs pull`")


def open_plain(path: Path, most: int | None = None) -> int:
    """Return a descriptor for reading a regular file; pipes, devices and sockets are never waited for.

    Args:
        path: the file.
        most: bytes of the largest that is opened; None: whatever its size.

    Raises:
        OSError: it cannot be opened.
        UnreadableError: it is no regular file, or larger.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    status = os.fstat(descriptor)
    mode, size = status.st_mode, status.st_size
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise UnreadableError(path, f"is {'a folder' if stat.S_ISDIR(mode) else 'not a regular file'}")
    if most is not None and size > most:
        os.close(descriptor)
        raise UnreadableError(path, f"has {size:,} bytes, more than the limit of {most:,}")
    return descriptor


def read_bounded(path: Path, most: int = MOST_BYTES) -> bytes:
    """Return the content of a regular file of at most `most` bytes; pipes, devices and sockets are not opened.

    Raises:
        FileNotFoundError: there is none.
        UnreadableError: it is no regular file, larger than that, a Git LFS pointer, or cannot be read.
        ChangingError: it is being written.
    """
    try:
        with open(open_plain(path, most), "rb") as file:
            before = os.fstat(file.fileno())
            content = file.read(before.st_size + 1)
            after = os.fstat(file.fileno())
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UnreadableError(path, f"cannot be read ({error.strerror})") from None
    if len(content) != before.st_size or before.st_mtime_ns != after.st_mtime_ns:
        raise ChangingError(path, "changed while it was being read")
    refuse_pointer(path, content)
    return content


def strict_json(content: bytes, *, finite: bool = True) -> Any:
    """Return JSON in UTF-8 in which no key occurs twice and every number can be held.

    Args:
        content: the bytes.
        finite: refuse NaN and Infinity, which Python writes into JSON; off for logs, where a loss may be one.

    Raises:
        BadJsonError: it is something else.
    """
    if content.startswith(codecs.BOM_UTF8):
        raise BadJsonError(
            "it begins with a byte-order mark, which `sed -i '1s/^\\xEF\\xBB\\xBF//'` takes off"
        )
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadJsonError(f"byte {error.start:,} is not UTF-8") from None
    try:
        return json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_no_number if finite else float,
            parse_float=_finite,
        )
    except json.JSONDecodeError as error:
        raise BadJsonError(f"line {error.lineno}: {error.msg}") from None
    except RecursionError:
        raise BadJsonError("it is nested too deeply") from None
    except ValueError as error:
        raise BadJsonError(str(error)) from None  # a number of thousands of digits


def read_json(path: Path, remedy: str) -> Any:
    """Return the content of a JSON file, read as `strict_json` does.

    Args:
        path: the file.
        remedy: what the user can do about a damaged one, for the message.

    Raises:
        FileNotFoundError: there is none.
        UserError: it cannot be read, or is something else; the sentence ends with the remedy.
    """
    try:
        return strict_json(read_bounded(path))
    except BadJsonError as error:
        raise UserError(f"{path}: {error}; {remedy}") from None


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file; TOML itself lets no key occur twice.

    Raises:
        FileNotFoundError: there is none.
        UserError: it is not TOML, no regular file, or too large.
    """
    content = read_bounded(path)
    try:
        return tomllib.loads(content.decode("utf-8-sig"))  # Windows' editors begin a file with a mark
    except (ValueError, RecursionError) as error:  # a number of thousands of digits is a plain ValueError
        reason = " ".join(str(error).split()) or "nested too deep"
        raise UserError(f"{path}: not a TOML file: {reason}") from None


def inside(folder: Path, name: str) -> Path:
    """Return the path of `name`, which a file gave, below `folder`; it cannot lead out of it.

    Raises:
        UserError: it is absolute, climbs with `..`, or is no printable name.
    """
    parts = PurePosixPath(name).parts
    wrong = not parts or name.startswith("/") or ".." in parts or "\\" in name
    if wrong or any(name_fault(part, most=255) for part in parts):
        raise UserError(f"{name!r} is not a valid path inside its folder")
    return folder.joinpath(*parts)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of a JSON object's pairs; a key that occurs twice is refused."""
    unique = dict(pairs)
    if len(unique) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise BadJsonError(f"the key {twice[:40]!r} occurs twice")
    return unique


def _no_number(word: str) -> NoReturn:
    raise BadJsonError(f"it contains {word}, which is not a finite number")


def _finite(digits: str) -> float:
    if not math.isfinite(number := float(digits)):
        raise BadJsonError(f"it contains the number {digits[:20]}, which is out of range")
    return number
