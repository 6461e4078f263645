"""Files on a hub: what a dataset asks for, and the lock of what it got.

Where a commit is not known, the first fetch takes the branch's and writes it with the files' hashes to
`hub.lock.json` next to the datasets; later fetches, also on other machines that are given that file, must find the
same. Standard library only.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from common.errors import UserError
from common.files import write_text
from common.reading import inside, read_json

__all__ = ["LOCK", "LockedFile", "Pin", "choose", "read_lock", "write_lock"]

LOCK = "hub.lock.json"
"""Name of the lock, next to the datasets."""

_MAIN = "main"
"""The branch of a pattern that names none."""


@dataclass(frozen=True, kw_only=True)
class Pin:
    """The files of one role in one repository."""

    role: str
    """What they are to the dataset: a role of `benchmarks.datasets.readers.reader.ROLES`."""
    repo: str
    """Repository, `owner/name`."""
    commit: str | None = None
    """Pinned commit; None: unknown, resolved by the first fetch and locked."""
    files: Sequence[str]
    """Patterns of paths, the first that matches anything counts; `refs/convert/parquet:` before one names that
    branch instead of `main`."""
    sha256: Mapping[str, str] = field(default_factory=dict)
    """Known hashes by path."""

    def branches(self) -> tuple[str, ...]:
        """Return the branches that `files` names, in their order."""
        return tuple(dict.fromkeys(_branch(pattern)[0] for pattern in self.files))

    def takes(self, file: LockedFile) -> bool:
        """Return whether a file is one of those that are meant, whatever the commit."""
        globs = (_branch(pattern)[1] for pattern in self.files)
        place = (file.role, file.repo) == (self.role, self.repo)
        return place and any(fnmatch.fnmatchcase(file.path, glob) for glob in globs)


@dataclass(frozen=True, kw_only=True)
class LockedFile:
    """A file that was fetched, or is to be."""

    role: str
    """What it is to the dataset."""
    repo: str
    """Repository, `owner/name`."""
    revision: str
    """Commit."""
    path: str
    """Path in the repository."""
    bytes: int
    """Size."""
    sha256: str | None
    """Hash of the content; None until it is known."""

    def __post_init__(self) -> None:
        """Refuse what leads out of the folder of downloads, or is no commit."""
        texts = (self.role, self.repo, self.revision, self.path)
        if not all(isinstance(text, str) for text in texts):
            raise UserError(f"{texts!r:.80} names no file of a hub")
        inside(Path(), f"{self.repo}/{self.revision}/{self.path}")
        if not re.fullmatch("[0-9a-f]{40}", self.revision) or not isinstance(self.bytes, int):
            raise UserError(f"{self.revision!r:.80} is no commit of a hub's file with its size")


def choose(pin: Pin, listings: Mapping[str, Iterable[str]]) -> tuple[str, list[str]]:
    """Return (branch, sorted paths) of the first pattern that matches.

    Args:
        pin: what is looked for.
        listings: paths by branch.

    Raises:
        UserError: nothing matches, or files of several folders; the message says what was looked for.
    """
    for pattern in pin.files:
        branch, glob = _branch(pattern)
        if found := sorted(fnmatch.filter(listings.get(branch, ()), glob)):
            folders = sorted({str(PurePosixPath(path).parent) for path in found})
            if len(folders) > 1:
                raise UserError(
                    f"{pin.repo} has {pin.role} files in several folders ({', '.join(folders)}) and nothing says which "
                    f"the paper used; choose them and use `clm-or-mlm import`"
                )
            return branch, found
    raise UserError(
        f"{pin.repo} has no {pin.role} file like {' or '.join(pin.files)}; get the original files and use "
        f"`clm-or-mlm import`"
    )


def _branch(pattern: str) -> tuple[str, str]:
    branch, colon, glob = pattern.partition(":")
    return (branch, glob) if colon else (_MAIN, pattern)


def read_lock(path: Path) -> dict[str, list[LockedFile]]:
    """Return the locked files by dataset; empty when there is no lock.

    Raises:
        UserError: it is no lock, or names a file that a lock cannot name.
    """
    remedy = "remove it, and the next fetch writes it again"
    try:
        content = read_json(path, remedy)
        return {name: [LockedFile(**file) for file in files] for name, files in content["datasets"].items()}
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path} is no lock file ({str(error)[:200]}); {remedy}") from None


def write_lock(path: Path, locked: Mapping[str, Sequence[LockedFile]]) -> None:
    """Write the lock atomically, sorted, the same bytes for the same content."""
    content = {name: [dataclasses.asdict(file) for file in locked[name]] for name in sorted(locked)}
    write_text(path, json.dumps({"datasets": content}, indent=2) + "\n")
