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
        """Return the path of the first of some programs that is there, or None."""
        found = (
            shutil.which(program, path=self.environ.get("PATH")) for program in programs
        )
        return next(filter(None, found), None)

    def output(self, command: Sequence[str], seconds: float = 30) -> tuple[int, str]:
        """Return a command's exit code and what it printed; 127 when it cannot be run, `HANGS`."""
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
        return answer.returncode, text or (
            f"no answer within {seconds:.0f} s" if answer.returncode == HANGS else ""
        )

    def gpus(self) -> int:
        """Return how many GPUs this machine shows, by their devices or by what nvidia-smi lists."""
        devices = list(self.path("/dev").glob("nvidia[0-9]*"))
        if self.path(
            "/dev/kfd"
        ).exists():  # AMD's; a console's graphics chip has such a device, too
            devices += self.path("/dev/dri").glob("renderD*")
        listed = (
            self.output(["nvidia-smi", "-L"])[1] if self.which("nvidia-smi") else ""
        )
        return max(len(devices), listed.count("GPU "))

    def free_gb(self, folder: Path) -> float:
        """Return the gigabytes a user can still write in a folder."""
        found = os.statvfs(folder)
        return found.f_bavail * found.f_frsize / 1e9

    def write_problem(self, folder: Path) -> str | None:
        """Return why a file of 64 KiB cannot be written into a folder, or None."""
        try:
            with tempfile.NamedTemporaryFile(dir=folder, prefix=".clm-or-mlm-") as file:
                file.write(b"\0" * 65_536)
                file.flush()
                # Network file systems may report a full quota only on fsync.
                os.fsync(file.fileno())
        except OSError as error:
            return os.strerror(error.errno or 0).lower()
        return None
