"""Where an artefact comes from: command, code, locks, machine."""

from __future__ import annotations

import functools
import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from common.files import sha256_file

__all__ = ["ROOT", "git_commit", "lock_hash", "provenance", "versions"]

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
        "command": [*_program(), *sys.argv[1:]],
    }


def _program() -> list[str]:
    """Return how the running program is called: `python -m <room>` for a room."""
    path = Path(sys.argv[0])
    return ["python", "-m", path.parent.name] if path.name == "__main__.py" else [path.name]
