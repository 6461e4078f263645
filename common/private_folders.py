"""Folders that one user writes and nobody else can: caches of what can be made again, on a node that others share."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from common.errors import UserError
from common.files import cache_folder

__all__ = ["SCRATCH_VARIABLES", "private_folder", "scratch_folder"]

SCRATCH_VARIABLES = ("CLM_OR_MLM_SCRATCH", "SLURM_TMPDIR")
"""Environment variables that name a place for large caches, the first one set counts."""


def scratch_folder(place: str = "", environ: Mapping[str, str] | None = None) -> Path:
    """Return this user's folder for large caches; it is not made.

    Args:
        place: the user's choice; without one $CLM_OR_MLM_SCRATCH, then $SLURM_TMPDIR, both of which users may share,
            so that the folder is `clm-or-mlm-<user id>` in them; then the user's own cache folder.
        environ: the environment; the process's when left out.
    """
    variables = os.environ if environ is None else environ
    for given in (place, *(variables.get(name, "") for name in SCRATCH_VARIABLES)):
        if given:
            return Path(given).expanduser() / f"clm-or-mlm-{os.getuid()}"
    return cache_folder()


def private_folder(path: Path) -> Path:
    """Make a folder that its user alone can read and write, if need be, and return it.

    Raises:
        UserError: a file, a link or a folder of someone else's is there.
        OSError: it cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise UserError(f"{path}: is no folder, so no cache can be there; remove it or choose another place")
    if found.st_uid != os.getuid():
        raise UserError(
            f"{path}: belongs to the user with number {found.st_uid}, so what it holds cannot be trusted; "
            f"choose another place for caches"
        )
    if stat.S_IMODE(found.st_mode) != 0o700:
        path.chmod(0o700)
    return path
