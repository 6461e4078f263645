"""Which jobs of a workflow are queued or running on Slurm, and which somebody cancelled.

Snakemake's executor submits jobs, and watches those that it submitted. What it cannot know are the jobs of a call that
was killed: it names jobs after its own run, and which job of the study each is stands in the job's comment.
"""

from __future__ import annotations

import hashlib
import math
import re
import shlex
import shutil
import sys
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from common.errors import UserError
from common.files import write_text
from common.reading import read_bounded
from container.machine import Machine
from workflow.attempts import attempts_in
from workflow.jobs import Job

PROFILE = "CLM_OR_MLM_PROFILE"
"""Variable that says where the study's call runs its jobs; those that it submits to Slurm inherit it."""

_LIVE = "live"
_ENDED = {
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "LAUNCH_FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "RECONFIG_FAIL",
    "REVOKED",
    "TIMEOUT",
}


class LiveJob(NamedTuple):
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
    name: str = ""
    """The study's (`prefix_of`) with the number of Snakemake's run."""


def prefix_of(folder: Path) -> str:
    """Return what the names of the folder's Slurm jobs start with: its own name and a number that follows from it."""
    name = re.sub(r"[^A-Za-z0-9_-]", "-", folder.name)[:24]
    return f"{name}-{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}"


def _slurm_jobs(folder: Path) -> list[LiveJob]:
    """Return this user's jobs of a study's folder that Slurm knows, those that ended minutes ago as well.

    Raises:
        UserError: Slurm does not answer.
    """
    command = [
        "squeue",
        "--me",
        "--noheader",
        "--states=all",
        "--format=%i|%T|%r|%M|%j|%k",
    ]
    code, text = Machine().output(command)
    if code:
        last = text.splitlines()[-1:] or ["no message"]
        raise UserError(
            f"squeue does not answer ({last[0]}): without it, live jobs cannot be distinguished from lost ones"
        )
    rows = [line.split("|", 5) for line in text.splitlines() if line.count("|") >= 5]
    return [
        LiveJob(
            number=number,
            state=state,
            reason=reason,
            minutes=minutes_of(used),
            comment=comment,
            name=name,
        )
        for number, state, reason, used, name, comment in rows
        if name.startswith(prefix_of(folder))
    ]


def queued_jobs(folder: Path) -> list[LiveJob]:
    """Return this user's jobs in Slurm's queue that belong to a study's folder; `UserError` when it does not answer."""
    return [job for job in _slurm_jobs(folder) if job.state not in _ENDED]


def controller_name(folder: Path) -> str:
    """Return the name of the Slurm job that runs a folder's study, if one does."""
    return f"controller-{prefix_of(folder)}"


def controller_of(folder: Path) -> list[tuple[str, str]]:
    """Return the number and the state of the Slurm job that runs a folder's study; none where there is none."""
    words = [
        "squeue",
        "--me",
        "--noheader",
        "--format=%i %T",
        f"--name={controller_name(folder)}",
    ]
    code, text = Machine().output(words) if shutil.which("squeue") else (1, "")
    rows = [line.split() for line in text.splitlines()] if code == 0 else []
    return [(number, state) for number, state in rows]


def allocation_seconds(environ: Mapping[str, str]) -> tuple[float, float]:
    """Return the seconds left of the Slurm job that this runs in and its time limit; infinity where nobody says it."""
    start, end = (
        environ.get(f"SLURM_JOB_{name}_TIME", "") for name in ("START", "END")
    )
    now = time.time()
    # An end that has passed is that of a job before its limit was raised.
    if end.isdecimal() and int(end) > now:
        return int(end) - now, int(end) - int(start) if start.isdecimal() else math.inf
    if number := environ.get("SLURM_JOB_ID"):  # Slurm 22 sets no such variables
        code, text = Machine().output(
            ["squeue", "--noheader", f"--jobs={number}", "--format=%L %l"]
        )
        # Words where there is no limit
        times = re.fullmatch(r"([\d:-]+) ([\d:-]+)", text.strip())
        if not code and times:
            return 60 * minutes_of(times[1]), 60 * minutes_of(times[2])
    return math.inf, math.inf


def minutes_of(text: str) -> float:
    """Return the minutes of Slurm's `[days-][hours:]minutes:seconds`."""
    days, _, clock = text.rpartition("-")
    parts = [float(part) for part in clock.split(":") if part.isdecimal()]
    seconds = sum(value * 60.0**power for power, value in enumerate(reversed(parts)))
    return (float(days) * 1440 if days.isdecimal() else 0.0) + float(seconds) / 60


def comment_of(job: Job) -> str:
    """Return what Snakemake's Slurm executor writes as the comment of a job."""
    return f"rule_{job.kind.name}_wildcards_{job.name.replace('/', '_')}"


def died_early(jobs: Collection[Job], folder: Path) -> dict[str, str]:
    """Return by marker what ended those of some jobs that died before their commands began, or were killed."""
    slurm_jobs = _slurm_jobs(folder) if shutil.which("squeue") else []
    ended = {job.comment: job for job in slurm_jobs if job.state in _ENDED}
    reasons = {}
    for job in jobs:
        logs = (
            folder / "logs/slurm" / f"rule_{job.kind.name}" / job.name.replace("/", "_")
        )
        # The executor removes those of jobs that ended well.
        numbers = {path.stem for path in logs.glob("*.log")}
        last = ended.get(comment_of(job))
        numbers |= (
            {last.number}
            if last and last.state not in ("COMPLETED", "CANCELLED")
            else set()
        )
        number = max(
            numbers, key=lambda text: text.isdecimal() and int(text), default=""
        )
        # One that is among the attempts has come to its commands.
        if number and number not in {
            attempt.slurm for attempt in attempts_in(folder / job.attempts)
        }:
            path = logs / f"{number}.log"
            words = _last_words(path) if path.is_file() else ""
            state = (
                f"Slurm says {last.state}, {last.reason}"
                if last and last.number == number
                else "no message"
            )
            reasons[job.marker] = (
                f"Slurm job {number}: {f'{words} ({path})' if words else state}"
            )
    return reasons


def _last_words(path: Path) -> str:
    """Return what a job printed last, from its Slurm log: between what Snakemake writes at its start and its end."""
    text = read_bounded(path).decode(errors="replace")
    before = re.split(
        r"^(?:\w*(?:Exception|Error)|Error in .*):$",
        text,
        maxsplit=1,
        flags=re.MULTILINE,
    )[0]
    own = before.rpartition("\nReason: ")[2].partition("\n")[2]
    lines = [
        line.strip() for line in (own.strip() or text).splitlines() if line.strip()
    ][-3:]
    return " | ".join(
        [
            *lines,
            *re.findall(r"^slurmstepd: error: .*", text[len(before) :], re.MULTILINE)[
                -1:
            ],
        ]
    )


def live_jobs(jobs: Mapping[str, Job], folder: Path) -> dict[str, LiveJob]:
    """Return the study's jobs in Slurm's queue by marker.

    Args:
        jobs: the study's jobs by marker.
        folder: the study's folder.

    Raises:
        UserError: Slurm does not answer, or has jobs of this folder that are not of this target.
    """
    by_comment = {comment_of(job): marker for marker, job in jobs.items()}
    queued = queued_jobs(folder)
    if strange := " ".join(
        job.number for job in queued if job.comment not in by_comment
    ):
        raise UserError(
            f"jobs of another target in {folder} are still queued or running ({strange}); wait for them, or cancel "
            f"them: scancel {strange}"
        )
    return {by_comment[job.comment]: job for job in queued}


def write_live(folder: Path, live: Mapping[str, LiveJob]) -> None:
    """Write a file for each live job, with its marker; it goes once the job is gone."""
    shutil.rmtree(folder / _LIVE, ignore_errors=True)
    for marker, job in live.items():
        write_text(folder / _LIVE / job.number, marker)


def read_live(folder: Path) -> dict[str, str]:
    """Return the numbers of live jobs by marker, as `write_live` wrote them."""
    return {path.read_text("utf-8"): path.name for path in (folder / _LIVE).glob("*")}


def cancelled_numbers(folder: Path) -> set[str]:
    """Return the numbers of the study's jobs that somebody ended minutes ago; `UserError` as `queued_jobs`."""
    return {job.number for job in _slurm_jobs(folder) if job.state == "CANCELLED"}


def settle(jobs: Mapping[str, Job], folder: Path, before: Collection[str] = ()) -> None:
    """Ask Slurm once about all jobs: forget those that are gone, and refuse those that somebody cancelled.

    Args:
        jobs: the study's jobs by marker.
        folder: the study's folder.
        before: numbers of jobs that were cancelled before this call.

    Raises:
        UserError: Slurm does not answer.
    """
    by_comment, slurm_jobs = (
        {comment_of(job): job for job in jobs.values()},
        _slurm_jobs(folder),
    )
    for slurm_job in slurm_jobs:
        job, number = by_comment.get(slurm_job.comment), slurm_job.number
        if (
            job
            and slurm_job.state == "CANCELLED"
            and number not in before
            and not job.is_complete(folder)
        ):
            write_text(folder / job.refused, f"{_sentence(number, job)}\n")
    numbers = {
        slurm_job.number for slurm_job in slurm_jobs if slurm_job.state not in _ENDED
    }
    for path in (folder / _LIVE).glob("*"):
        if path.name not in numbers:
            path.unlink(missing_ok=True)


def refuse_cancelled(job: Job, folder: Path, number: str) -> None:
    """Raise a `UserError` in a Slurm job when somebody cancelled an earlier one that Snakemake submitted for it."""
    try:
        slurm_jobs = _slurm_jobs(folder)
    except UserError:  # nodes that may not ask
        return
    name = next(
        (slurm_job.name for slurm_job in slurm_jobs if slurm_job.number == number), ""
    )
    cancelled = (name, comment_of(job), "CANCELLED")
    for other in slurm_jobs:
        # Put back into the queue, a job keeps its number; submitted again, it has another, and the same name.
        if (
            other.number != number
            and (other.name, other.comment, other.state) == cancelled
        ):
            raise UserError(_sentence(other.number, job))


def _sentence(number: str, job: Job) -> str:
    return f"Slurm job {number} was cancelled; the next run starts {job.name} again"


def wait_command(number: str, marker: str) -> str:
    """Return the shell command that waits for a live job, and succeeds when it left its work complete."""
    check = f"exec {shlex.quote(sys.executable)} -m workflow.step --finished {shlex.quote(marker)}"
    return f"while [ -e {_LIVE}/{number} ] && kill -0 $PPID 2>/dev/null; do sleep 2; done; {check}"
