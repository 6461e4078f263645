"""The process that mounts a .sif file without root, kept alive when a scheduler signals every process of a job.

Slurm sends SIGTERM before preemption, and SIGUSR1 where a job asks for a warning, to all of a job's processes.
Apptainer mounts by `squashfuse_ll`, which ends at either, and whatever runs in the image then dies of SIGBUS (tried
with 1.4.5). Apptainer finds that program on PATH, and neither signal ends what ignores it from its start.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from common.files import private_folder, write_text
from container.machine import Machine

_PROGRAMS = ("squashfuse_ll", "squashfuse")


def path_with_lasting_mount(machine: Machine, scratch: Path) -> dict[str, str]:
    """Return PATH with a folder before it that has the mounting programs, started so that they ignore both signals.

    Args:
        machine: whose programs they are.
        scratch: this user's folder, where that folder is made; nothing is returned where programs may not run there.
    """
    folder = private_folder(scratch / "mount")
    for name in _PROGRAMS:
        if (program := machine.which(name)) is None or Path(program).parent == folder:
            continue
        # Apptainer starts the program without PATH, hence its full path.
        write_text(
            folder / name,
            f"#!/bin/sh\ntrap '' TERM USR1\nexec {shlex.quote(program)} \"$@\"\n",
        )
        (folder / name).chmod(0o700)
        if not os.access(folder / name, os.X_OK):
            return {}
    return {"PATH": f"{folder}:{machine.environ.get('PATH', os.defpath)}"}
