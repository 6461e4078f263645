"""Slurm jobs of a study that are queued or running, also those of a call that was killed: found, written down, awaited.

Snakemake names its jobs after its own run; which job of the study each is stands in the job's comment.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from common.errors import UserError
from common.files import write_text
from workflow.jobs import Job

__all__ = [
    "LiveJob",
    "forget_ended",
    "live_jobs",
    "minutes_of",
    "queued",
    "read_live",
    "wait_command",
    "write_live",
]

_LIVE = "live"
_ENDED = {
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "TIMEOUT",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class LiveJob:
    """A job in Slurm's queue."""

    number: str
    """Slurm's number."""
    state: str
    """`RUNNING`, `PENDING`, `COMPLETING` ..."""
    reason: str
    """Why it waits; `None` when it does not."""
    comment: str
    """What Snakemake says it is."""
    minutes: float
    """How long it has run."""


def queued(prefix: str) -> list[LiveJob]:
    """Return this user's jobs in Slurm's queue whose name starts with a prefix.

    Raises:
        UserError: Slurm does not answer.
    """
    command = ["squeue", "--me", "--noheader", "--format=%i|%T|%r|%M|%j|%k"]
    answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode:
        last = answer.stderr.strip().splitlines()[-1:] or ["no message"]
        raise UserError(
            f"squeue does not answer ({last[0]}): without it live jobs cannot be distinguished from lost ones"
        )
    rows = [line.split("|", 5) for line in answer.stdout.splitlines()]
    return [
        LiveJob(number=number, state=state, reason=reason, minutes=minutes_of(used), comment=comment)
        for number, state, reason, used, name, comment in rows
        if name.startswith(prefix) and state not in _ENDED
    ]


def minutes_of(text: str) -> float:
    """Return the minutes of Slurm's `[days-][hours:]minutes:seconds`."""
    days, _, clock = text.rpartition("-")
    parts = [float(part) for part in clock.split(":") if part.isdecimal()]
    seconds = sum(value * 60.0**power for power, value in enumerate(reversed(parts)))
    return (float(days) * 1440 if days.isdecimal() else 0.0) + float(seconds) / 60


def comment_of(job: Job) -> str:
    """Return what Snakemake's Slurm executor writes as the comment of a job."""
    return f"rule_{job.kind.name}_wildcards_{job.name.replace('/', '_')}"


def live_jobs(jobs: Mapping[str, Job], folder: Path, prefix: str) -> dict[str, LiveJob]:
    """Return the study's jobs in Slurm's queue by marker.

    Args:
        jobs: the study's jobs by marker.
        folder: the study's folder.
        prefix: what the names of its Slurm jobs start with.

    Raises:
        UserError: Slurm does not answer, or has jobs of this folder that are not of this target.
    """
    by_comment = {comment_of(job): marker for marker, job in jobs.items()}
    found: dict[str, LiveJob] = {}
    strange = []
    for job in queued(prefix):
        if marker := by_comment.get(job.comment):
            found[marker] = job
        else:
            strange.append(job.number)
    if strange:
        raise UserError(
            f"jobs of another target of {folder} are still queued or running ({' '.join(strange)}): let them end, or "
            f"end them: scancel {' '.join(strange)}"
        )
    return found


def write_live(folder: Path, live: Mapping[str, LiveJob]) -> None:
    """Write a file for each live job, with its marker; it goes once the job is gone."""
    shutil.rmtree(folder / _LIVE, ignore_errors=True)
    for marker, job in live.items():
        write_text(folder / _LIVE / job.number, marker)


def read_live(folder: Path) -> dict[str, str]:
    """Return the numbers of live jobs by marker, as `write_live` wrote them."""
    return {path.read_text("utf-8"): path.name for path in (folder / _LIVE).glob("*")}


def forget_ended(folder: Path, still: Iterable[LiveJob]) -> None:
    """Remove the files of jobs that are no longer in Slurm's queue."""
    numbers = {job.number for job in still}
    for path in (folder / _LIVE).glob("*"):
        if path.name not in numbers:
            path.unlink(missing_ok=True)


def wait_command(number: str, marker: str) -> str:
    """Return the shell command that waits for a live job, and succeeds when it left its work complete."""
    check = f"exec {shlex.quote(sys.executable)} -m workflow.step --finished {shlex.quote(marker)}"
    return f"while [ -e {_LIVE}/{number} ] && kill -0 $PPID 2>/dev/null; do sleep 2; done; {check}"
