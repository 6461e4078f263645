"""A folder archived as an RO-Crate: its files against the hashes that `ro-crate-metadata.json` gives of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common.errors import UserError
from common.manifest import check_files
from common.reading import BadJsonError, read_bounded, strict_json

__all__ = ["CRATE", "check_crate", "crate_files"]

CRATE = "ro-crate-metadata.json"
"""The file that makes a folder an RO-Crate; its name is the standard's."""

_MOST = 1 << 28
"""Bytes of the largest that is read: half a million files."""
_SHOWN = 5
_REMEDY = (
    "bring the archive again, or, if it was changed on purpose, archive it again (python -m workflow archive) or "
    f"delete its {CRATE}"
)


def check_crate(folder: Path, part: str = "") -> int:
    """Compare a crate's files with their hashes and return how many there are; 0 where the folder is no crate.

    Args:
        folder: the crate.
        part: only what is below this folder of it, and then nothing may be there that the crate does not list.

    Raises:
        UserError: files are changed, missing or, with `part`, not listed; or the metadata cannot be read.
    """
    if not (folder / CRATE).is_file():
        return 0
    listed = {name: digest for name, _, digest in crate_files(folder) if name.startswith(part)}
    check_files(folder, listed, _REMEDY, label=f"checking {CRATE}")
    if part:
        found = (path for path in (folder / part).rglob("[!.]*") if path.is_file())
        names = sorted(path.relative_to(folder).as_posix() for path in found)
        if extra := [name for name in names if name not in listed]:
            raise UserError(f"{folder}: its {CRATE} does not list {', '.join(extra[:_SHOWN])}; {_REMEDY}")
    return len(listed)


def crate_files(folder: Path) -> Iterator[tuple[str, int, str]]:
    """Yield name, size in bytes and SHA-256 of each file that a crate lists with both.

    Raises:
        UserError: the metadata cannot be read.
    """
    path = folder / CRATE
    try:
        rows: Any = strict_json(read_bounded(path, _MOST))["@graph"]
        for row in rows:
            kinds = row.get("@type", "")
            if "File" in (kinds if isinstance(kinds, list) else [kinds]) and "sha256" in row:
                yield str(row["@id"]).removeprefix("./"), int(row["contentSize"]), str(row["sha256"])
    except (BadJsonError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{path}: no metadata of an RO-Crate ({error}); bring the archive again") from None
