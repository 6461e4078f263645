"""Where an artefact comes from: command, code, locks, machine, times; in a file of its own next to the artefact.

Results hold nothing of this, so that they have the same bytes when they are made again.
"""

from __future__ import annotations

import functools
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from common.files import sha256_file
from common.manifest import FILES, DamagedError, read_manifest, write_manifest
from common.plain_text import redacted

__all__ = [
    "FILES", "OF_A_CALL", "PROVENANCE", "ROOT", "git_commit", "lock_hash", "provenance", "provenance_path",
    "read_provenance", "versions", "write_provenance",
]  # fmt: skip

PROVENANCE = "provenance.json"
"""Name of the file in the folder of a run or a model; of a single file such as `table10.md` it is
`table10.provenance.json` next to it."""
OF_A_CALL = ("command", "platform")
"""What `provenance` says that another call on another machine says otherwise."""
ROOT = Path(__file__).resolve().parent.parent
"""The repository, or the folder the package is installed in."""


@functools.cache
def git_commit() -> str:
    """Return the commit of the code, with `-dirty` when tracked files were changed, else `unknown`.

    CLM_OR_MLM_COMMIT in the environment wins: an image holds no git folder.
    """
    if given := os.environ.get("CLM_OR_MLM_COMMIT"):
        return given
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return answer.stdout.strip() or "unknown"


@functools.cache
def lock_hash(environment: str) -> str:
    """Return the SHA-256 of `requirements/<environment>.txt` (`analysis` or `full`), else `unknown`."""
    path = ROOT / "requirements" / f"{environment}.txt"
    return sha256_file(path) if path.is_file() else "unknown"


def versions(packages: tuple[str, ...]) -> dict[str, str]:
    """Return the installed version of each of `packages`; those that are absent are left out."""
    found = {}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def provenance(environment: str, packages: tuple[str, ...] = ()) -> dict[str, object]:
    """Return what an artefact's side file records: commit, lock, Python, package versions, command."""
    return {
        "commit": git_commit(),
        "lock": {"name": f"requirements/{environment}.txt", "sha256": lock_hash(environment)},
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "versions": versions(packages),
        "command": [*_program(), *map(redacted, sys.argv[1:])],
    }


def provenance_path(artefact: Path, *, folder: bool = False) -> Path:
    """Return where the provenance of an artefact is: in it, when it is a folder, else next to it.

    Files that differ in their ending alone, such as the pictures of a figure, share one.
    """
    return artefact / PROVENANCE if folder else artefact.with_name(f"{artefact.stem}.{PROVENANCE}")


def write_provenance(path: Path, record: Mapping[str, Any], files: Mapping[str, str]) -> None:
    """Write a provenance, sealed.

    Args:
        path: as `provenance_path` returns it.
        record: what is known: `provenance(...)`, and times and machine where they matter.
        files: the SHA-256 of each file that it is about, by its name next to `path`; `common.manifest.check_files`
            compares them.
    """
    write_manifest(path, record, files)


def read_provenance(path: Path) -> dict[str, Any]:
    """Return what a provenance holds; empty when there is none.

    Raises:
        UserError: it is no provenance, or was changed since it was written.
    """
    try:
        record = read_manifest(path, "make what it is about again, or delete it with its provenance")
    except FileNotFoundError:
        return {}
    if FILES not in record:
        raise DamagedError(f"{path}: is no provenance: it names no files")
    return record


def _program() -> list[str]:
    """Return how the running program is called: `python -m <room>` for a room."""
    path = Path(sys.argv[0])
    return ["python", "-m", path.parent.name] if path.name == "__main__.py" else [path.name]
