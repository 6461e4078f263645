"""Ways to start a call that survives logout: systemd-run, tmux, a Slurm job of its own, nohup."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from common.errors import UserError
from common.provenance import ROOT
from common.registry import Registry
from container.site import Site

__all__ = ["WAYS", "Way", "start_detached"]


@dataclass(frozen=True, kw_only=True)
class Way:
    """A way to start a process that this login does not end."""

    name: str
    """What users call it."""
    program: str
    """What it needs on PATH."""
    line: Callable[[str, str], list[str]]
    """Its command, from a shell command and a name."""
    shown: str
    """What to say when it works."""
    problem: Callable[[], str | None] | None = None
    """Returns why it would not survive logout here, or None; None where it always does."""
    usual: bool = True
    """Whether it is tried when none is named."""


def _systemd(shell: str, name: str) -> list[str]:
    return ["systemd-run", "--user", f"--unit={name}", "--collect", "bash", "-c", shell]


def _lingering() -> str | None:
    """Return why a user's services end with the login, or None."""
    code, text = Site().output(["loginctl", "show-user", "--property=Linger"])
    if code == 127:
        return "no loginctl here"
    return None if "Linger=yes" in text else "lingering is off for this user (loginctl enable-linger)"


def _tmux(shell: str, name: str) -> list[str]:
    return ["tmux", "new-session", "-d", "-s", name, shell]


def _job(shell: str, name: str) -> list[str]:
    words = ["sbatch", "--parsable", "--ntasks=1", "--cpus-per-task=1", "--mem=4G", "--requeue"]
    return [*words, f"--job-name=controller-{name}", "--output=/dev/null", f"--wrap={shell}"]


def _nohup(shell: str, name: str) -> list[str]:
    return ["bash", "-c", f"setsid nohup bash -c {shlex.quote(shell)} > /dev/null 2>&1 &"]


WAYS: Registry[Way] = Registry(
    "way to detach",
    [
        Way(
            name="systemd", program="systemd-run", line=_systemd, shown="runs as the user service {name}",
            problem=_lingering,
        ),
        Way(name="tmux", program="tmux", line=_tmux, shown="runs in tmux: tmux attach -t {name}"),
        Way(name="nohup", program="setsid", line=_nohup, shown="runs in the background"),
        Way(name="job", program="sbatch", line=_job, shown="runs as Slurm job {answer}", usual=False),
    ],
)  # fmt: skip
"""All ways, in the order in which they are tried."""


def start_detached(command: Sequence[str], name: str, log: Path, by: str = "") -> str:
    """Start a command so that it outlives this login, its output to a log; return how, in a sentence.

    Args:
        command: the command.
        name: of the service, session or job.
        log: appended to.
        by: a name of `WAYS`; empty: the first that works. Lingering must be on for a user's services to survive logout.

    Raises:
        UserError: an unknown way, or none works.
    """
    shell = f"cd {shlex.quote(str(ROOT))} && exec {shlex.join(command)} >> {shlex.quote(str(log))} 2>&1 < /dev/null"
    problems = []
    for way in [WAYS[by]] if by else [way for way in WAYS.values() if way.usual]:
        missing = shutil.which(way.program) is None
        problem = f"no {way.program} here" if missing else way.problem and way.problem()
        if problem is None:
            answer = subprocess.run(way.line(shell, name), capture_output=True, text=True)
            last = (answer.stdout.strip() or answer.stderr.strip()).splitlines()[-1:] or ["no message"]
            if answer.returncode == 0:
                return way.shown.format(name=name, answer=last[0])
            problem = last[0]
        problems.append(f"{way.name}: {problem}")
    raise UserError(f"nothing could be started: {'; '.join(problems)}")
