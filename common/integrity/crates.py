"""A folder archived as an RO-Crate: its files against the hashes that `ro-crate-metadata.json` gives of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common.errors import UserError
from common.integrity.doors import BadJsonError, inside, read_bounded, strict_json
from common.integrity.verified_files import DamagedError, check_file
from common.progress import progress

__all__ = ["CRATE", "check_crate", "crate_files"]

CRATE = "ro-crate-metadata.json"
"""The file that makes a folder an RO-Crate; its name is the standard's."""

_MOST = 1 << 28
"""Bytes of the largest that is read: half a million files."""
_SHOWN = 5


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
    listed = {name: (size, digest) for name, size, digest in crate_files(folder) if name.startswith(part)}
    problems = []
    for name, (size, digest) in progress(listed.items(), f"checking {CRATE}", unit="file"):
        try:
            check_file(inside(folder, name), size, digest)
        except FileNotFoundError:
            problems.append(f"{name} is missing")
        except DamagedError as error:
            problems.append(f"{name}: {error}")
    if part:
        found = (path for path in (folder / part).rglob("[!.]*") if path.is_file())
        names = (path.relative_to(folder).as_posix() for path in found)
        problems += [f"{name} is not listed" for name in sorted(names) if name not in listed]
    if problems:
        more = f" and {len(problems) - _SHOWN:,} more" if len(problems) > _SHOWN else ""
        raise UserError(
            f"{folder} is not what its {CRATE} says: {'; '.join(problems[:_SHOWN])}{more}; bring the archive again, "
            "or, if it was changed on purpose, archive it again (python -m workflow archive) or delete that file"
        )
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
