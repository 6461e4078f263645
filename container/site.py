"""What can be seen of a machine without changing it, and whether Apptainer can start there at all.

`container.doctor` judges it, tests replace it. Where no user namespace can be made (a chroot, a container, some sites)
Apptainer, or a site's wrapper around it, may wait for ever in place of failing: it is asked within a time limit before
anything depends on it.
"""

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

__all__ = ["SECONDS", "Site", "SiteError", "is_setuid", "namespace_problem", "program_of", "version_of"]

SECONDS = 300.0
"""Time that `apptainer --version` has to answer; a site's wrapper may set itself up at its first start."""


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
                    command, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT,
                    env=dict(self.environ), start_new_session=True,
                )  # fmt: skip
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


def program_of(site: Site) -> str | None:
    """Return the path of the Apptainer (or Singularity) command, or None."""
    return site.which("apptainer") or site.which("singularity")


def namespace_problem(site: Site) -> str | None:
    """Return why no user namespace can be made, or None; `unshare` is asked, since settings do not say all."""
    if site.text("/proc/sys/user/max_user_namespaces") == "0":
        return "user.max_user_namespaces is 0"
    if site.text("/proc/sys/kernel/unprivileged_userns_clone") == "0":
        return "kernel.unprivileged_userns_clone is 0"
    code, _ = site.output(["unshare", "--user", "true"])
    if code in (0, 127):
        # Without `unshare` (127) Apptainer's own start will show.
        return None
    restricted = site.text("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1"
    return "kept off by AppArmor" if restricted else "`unshare --user true` fails, as in a chroot"


def is_setuid(program: str) -> bool:
    """Return whether this Apptainer is installed setuid and so does without user namespaces."""
    starter = Path(program).resolve().parent.parent / "libexec" / "apptainer" / "bin" / "starter-suid"
    return starter.exists()


def version_of(site: Site, seconds: float = SECONDS) -> tuple[str, tuple[int, int]]:
    """Return the words of `apptainer --version` and the version in them.

    Raises:
        SiteError: Apptainer is not on PATH, cannot run here, does not answer in time, or fails.
    """
    program = program_of(site)
    if program is None:
        raise SiteError(
            "apptainer is not on PATH",
            "load your site's module (often `module load apptainer`) or install Apptainer 1.1 or later",
        )
    why = namespace_problem(site)
    # Root can do without, where Apptainer is a plain installation; whether it is, its answer shows.
    if why is not None and os.geteuid() and not is_setuid(program):
        raise SiteError(
            f"no user namespaces can be made here ({why}), so Apptainer cannot run",
            "ask for them or for a setuid Apptainer, or go to a machine that has either",
        )
    code, text = site.output([program, "--version"], seconds)
    last = text.splitlines()[-1] if text else "no message"
    if code == 124:
        also = f" (no user namespaces can be made here: {why})" if why else ""
        raise SiteError(
            f"`{program} --version` gave no answer within {seconds:.0f} s{also}, so nothing can run in an image here",
            "try it by hand, and show it to the site's support",
        )
    match = re.search(r"(\d+)\.(\d+)", text)
    if code or match is None:
        raise SiteError(f"`{program} --version` ended with code {code}: {last}", "ask the site's support")
    return last, (int(match[1]), int(match[2]))
