"""What can be seen of a machine without changing it: its files, what its programs answer, what can be written."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

HANGS = 124
"""Exit code of a program that was ended because it did not answer in time."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """One machine, seen by one user."""

    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    """The user's environment."""
    root: Path = Path("/")
    """Where /proc, /dev and /sys are."""

    def path(self, name: str) -> Path:
        """Return an absolute path of the machine, such as `/dev/shm`."""
        return self.root / name.lstrip("/")

    def which(self, *programs: str) -> str | None:
        """Return the path of the first of these programs that is on PATH; None if none is."""
        for program in programs:
            path = shutil.which(program, path=self.environ.get("PATH"))
            if path:
                return path
        return None

    def output(self, command: Sequence[str], seconds: float = 30) -> tuple[int, str]:
        """Run a command and return its exit code and what it printed, standard error included.

        The exit code is 127 if the command cannot be run, and `HANGS` if it does not end within `seconds`.
        """
        # `timeout` ends the whole process group: a site's wrapper may hang in a program that it started.
        words = ["timeout", "--kill-after=5", str(seconds), *command]
        answer = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self.environ,
        )
        text = answer.stdout.decode("utf-8", "replace").strip()
        if not text and answer.returncode == HANGS:
            text = f"no answer within {seconds:.0f} s"
        return answer.returncode, text

    def gpus(self) -> int:
        """Return how many GPUs this machine shows, by their devices or by what nvidia-smi lists."""
        devices = list(self.path("/dev").glob("nvidia[0-9]*"))
        # Only AMD's driver for computing has /dev/kfd. Without it, a renderD device may be a console's graphics chip.
        if self.path("/dev/kfd").exists():
            devices += self.path("/dev/dri").glob("renderD*")
        listed = ""
        if self.which("nvidia-smi"):
            _, listed = self.output(["nvidia-smi", "-L"])
        # Such a list has a line `GPU 0: NVIDIA H100 ...` for each GPU. Devices and lines may be of the same GPUs, so
        # the two counts are not added.
        return max(len(devices), listed.count("GPU "))

    def free_gb(self, folder: Path) -> float:
        """Return how many gigabytes a user can still write into a folder."""
        status = os.statvfs(folder)
        return status.f_bavail * status.f_frsize / 1e9

    def write_problem(self, folder: Path) -> str | None:
        """Return why a file of 64 KiB cannot be written into a folder; None if it can. The file is removed again."""
        try:
            with tempfile.NamedTemporaryFile(dir=folder, prefix=".clm-or-mlm-") as file:
                file.write(b"\0" * 65_536)
                file.flush()
                # An empty file could be made on a full disk, hence some content; network file systems may
                # report a full quota only on fsync.
                os.fsync(file.fileno())
        except OSError as error:
            return os.strerror(error.errno or 0).lower()
        return None
