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
    """Return the variable PATH by which Apptainer finds mounting programs that ignore both signals.

    For each mounting program of the machine, a script of its name is written that ignores the signals and then becomes
    the program. The folder of the scripts comes first in PATH.

    Args:
        machine: the machine, with its programs and its PATH.
        scratch: this user's folder, in which the folder of the scripts is made.

    Returns:
        PATH and its value; empty if programs may not run in `scratch`, as on a file system mounted with noexec.
    """
    folder = private_folder(scratch / "mount")
    for name in _PROGRAMS:
        program = machine.which(name)
        # Within a command that was started with such a PATH, the program that is found is the script itself.
        if program is None or Path(program).parent == folder:
            continue
        script = folder / name

        # Apptainer starts the script without PATH, hence the program's full path.
        write_text(
            script,
            f"#!/bin/sh\ntrap '' TERM USR1\nexec {shlex.quote(program)} \"$@\"\n",
        )
        script.chmod(0o700)
        if not os.access(script, os.X_OK):
            return {}

    return {"PATH": f"{folder}:{machine.environ.get('PATH', os.defpath)}"}
