"""What can be seen of a machine without changing it; `container.doctor` judges it, tests replace it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from common.errors import UserError

__all__ = ["Site", "SiteError"]


class SiteError(UserError):
    """What is wrong with a site: what was seen, and what to do about it."""

    def __init__(self, seen: str, advice: str) -> None:
        super().__init__(f"{seen}; {advice}")
        self.seen, self.advice = seen, advice


@dataclass(frozen=True, kw_only=True)
class Site:
    """One machine, seen from one folder."""

    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    """The user's environment."""
    root: Path = Path("/")
    """Where /proc, /dev, /etc and /tmp are."""
    study: Path = Path()
    """The folder a study will be in."""

    def path(self, name: str) -> Path:
        """Return an absolute path of the machine, such as `/dev/shm`."""
        return self.root / name.lstrip("/")

    def text(self, name: str) -> str:
        """Return the content of a file such as `/proc/sys/user/max_user_namespaces`; empty when unreadable."""
        try:
            return self.path(name).read_text("utf-8", errors="replace").strip()
        except OSError:
            return ""

    def which(self, program: str) -> str | None:
        """Return the path of a program, or None."""
        return shutil.which(program, path=self.environ.get("PATH"))

    def output(self, command: Sequence[str], seconds: float = 30) -> tuple[int, str]:
        """Return a command's exit code and what it printed; 127 when it cannot be run, 124 when it hangs."""
        with tempfile.TemporaryFile() as sink:
            try:
                # A session of its own, so that what a hanging wrapper started ends with it.
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=sink,
                    stderr=subprocess.STDOUT,
                    env=dict(self.environ),
                    start_new_session=True,
                )
            except OSError as error:
                return 127, str(error)
            try:
                code = process.wait(seconds)
            except subprocess.TimeoutExpired:
                code = 124
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            sink.seek(0)
            text = sink.read().decode("utf-8", "replace").strip()
        return code, f"no answer within {seconds:.0f} s" if code == 124 else text

    def free_bytes(self, folder: Path) -> int:
        """Return the bytes a user can still write in a folder."""
        found = os.statvfs(folder)
        return found.f_bavail * found.f_frsize

    def write_problem(self, folder: Path) -> str | None:
        """Return why a file of 64 KiB cannot be written into a folder, or None."""
        try:
            with tempfile.NamedTemporaryFile(dir=folder, prefix=".clm-or-mlm-") as file:
                file.write(b"\0" * 65_536)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            return os.strerror(error.errno or 0).lower()
        return None

    def clock_skew(self, folder: Path) -> float:
        """Return by how many seconds the clock of the folder's file server is ahead of this machine's."""
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".clm-or-mlm-") as file:
            before = time.time()
            os.utime(file.name)
            after = time.time()
            stamp = Path(file.name).stat().st_mtime
        # Local file systems stamp with the kernel's tick, some milliseconds old.
        return max(stamp - after, 0.0) or min(stamp - before, 0.0)

    def stale_shared_memory(self) -> list[Path]:
        """Return shared memory of mosaicml-streaming that no living process of this user maps."""
        pattern = re.compile(
            r"\d{6}_(locals|barrier|next_epoch|cache_usage|shard_states|shard_access_times|resume|epoch_shape"
            r"|epoch_data)"
        )
        folder = self.path("/dev/shm")
        try:
            names = sorted(path.name for path in folder.iterdir() if pattern.fullmatch(path.name))
        except OSError:
            return []
        if not names:
            return []
        used: set[str] = set()
        for process in self.path("/proc").glob("[0-9]*"):
            try:
                maps = (process / "maps").read_text("utf-8", errors="replace")
            except OSError:
                continue
            used.update(name for name in names if f"/dev/shm/{name}" in maps)
        return [folder / name for name in names if name not in used]
