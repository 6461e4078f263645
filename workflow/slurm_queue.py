"""Which jobs of a study are queued or running on Slurm, by an id that is written in the study's folder.

A study's jobs on Slurm have this id as their name, and as their comment the marker of the study's job that they run
(`done/<kind>/<name>.json`). So they are found by any path of the folder, and by any user.
"""

from __future__ import annotations

import math
import os
import re
import secrets
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from common.errors import UserError
from common.files import write_text
from common.reading import read_bounded
from container.machine import Machine
from workflow.attempts import Attempt, attempts_in
from workflow.jobs import Job

ENDS = "CLM_OR_MLM_ENDS"
"""Variable with the end, in seconds since 1970, of the allocation that this process runs in, for other schedulers than
Slurm."""

SUBMITS = "submits"
"""Comment of the Slurm job that submits the jobs for which Slurm's queue had no room."""

_ID = "slurm.id"
"""File with the id, in the study's folder."""

_ENDED = {
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "LAUNCH_FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
    "PREEMPTED", "RECONFIG_FAIL", "REVOKED", "TIMEOUT",
}  # fmt: skip
"""States of Slurm's jobs that have ended."""


class SlurmJob(NamedTuple):
    """A job that Slurm knows."""

    number: str
    """Slurm's number."""
    state: str
    """`RUNNING`, `PENDING`, `COMPLETING` ..."""
    reason: str = ""
    """Why it waits; the word `None` when it does not."""
    minutes: float = 0.0
    """How long it has run."""
    user: str = ""
    """The user who submitted it."""
    comment: str = ""
    """The marker of the study's job that it runs, or `SUBMITS`."""


@dataclass(frozen=True, kw_only=True)
class Queue:
    """The jobs of a study that Slurm's queue shows."""

    live: Mapping[str, SlurmJob] = field(default_factory=dict)
    """Jobs that are queued or running, by the marker of the study's job."""
    submitter: SlurmJob | None = None
    """The queued or running job that submits more jobs of the study."""
    strange: Sequence[SlurmJob] = ()
    """Queued or running jobs of the same folder that belong to another target than the study's."""
    ended: Collection[str] = ()
    """Numbers of jobs that ended minutes ago."""

    @property
    def jobs(self) -> list[SlurmJob]:
        """All jobs that are queued or running, first the job that submits more."""
        submitters = [self.submitter] if self.submitter else []
        return [*submitters, *self.live.values(), *self.strange]


def study_id(folder: Path) -> str:
    """Return the id of the study in a folder; empty where nothing was ever submitted."""
    path = folder / _ID
    return read_bounded(path).decode(errors="replace").strip() if path.is_file() else ""


def make_id(folder: Path) -> str:
    """Return the id of the study in a folder; where it has none, a new one is written there first."""
    if not study_id(folder):
        # The folder's name makes the id easy to recognise. squeue reads a comma as the end of a name, so only plain
        # characters stay.
        name = re.sub(r"[^A-Za-z0-9_-]", "-", folder.name)[:24]
        write_text(folder / _ID, f"{name}-{secrets.token_hex(4)}\n")
    return study_id(folder)


def read_queue(jobs: Mapping[str, Job], folder: Path) -> Queue:
    """Return the jobs of a study that Slurm's queue shows; where nothing was ever submitted, Slurm is not asked.

    Args:
        jobs: the study's jobs by marker.
        folder: the study's folder.

    Raises:
        UserError: Slurm does not answer.
    """
    name = study_id(folder)
    rows = _slurm_jobs(name) if name else []
    live: dict[str, SlurmJob] = {}
    strange: list[SlurmJob] = []
    submitter: SlurmJob | None = None
    for job in rows:
        if job.state in _ENDED:
            continue
        if job.comment == SUBMITS:
            submitter = job
        elif job.comment in jobs:
            live[job.comment] = job
        else:
            strange.append(job)

    ended = {job.number for job in rows if job.state in _ENDED}
    return Queue(live=live, submitter=submitter, strange=strange, ended=ended)


def _slurm_jobs(name: str) -> list[SlurmJob]:
    """Return the jobs with a name in Slurm's queue, of every user, including jobs that ended minutes ago."""
    machine = Machine()
    if machine.which("squeue") is None:
        raise UserError(
            "Slurm's queue cannot be seen from here (no squeue); use a login node of the cluster"
        )

    # The user is not named: a colleague may have started the study, by another path of its folder.
    command = ["squeue", "--noheader", "--states=all", f"--name={name}"]
    code, text = machine.output([*command, "--format=%i|%T|%r|%M|%u|%k"])
    lines = text.splitlines()
    if code:
        last = lines[-1] if lines else "no message"
        raise UserError(
            f"squeue does not answer ({last}): without it, live jobs cannot be distinguished from lost ones"
        )

    jobs = []
    for line in lines:
        # A site's own lines have no such columns; the comment comes last, since it may contain a `|`.
        if line.count("|") >= 5:
            number, state, reason, used, user, comment = line.split("|", 5)
            minutes = minutes_of(used)
            jobs.append(SlurmJob(number, state, reason, minutes, user, comment))

    return jobs


def unseen_attempts(
    jobs: Mapping[str, Job], folder: Path, queue: Queue
) -> list[tuple[Job, Attempt]]:
    """Return attempts in Slurm jobs of which neither the study's folder nor Slurm says whether they have ended.

    Such an attempt has written its start and no end, and squeue does not show its Slurm job. Either the job was killed,
    and Slurm has forgotten it, or the queue that squeue shows is not complete and the job still runs.

    Args:
        jobs: the study's jobs by marker.
        folder: the study's folder.
        queue: the jobs that Slurm's queue shows.

    Returns:
        The study's job and its last attempt, for each of them.
    """
    unended = []
    for marker, job in jobs.items():
        # Of a job that the queue shows, it is known that it runs or waits; a complete one has nothing left to do.
        if marker in queue.live or job.is_complete(folder):
            continue
        # The last attempt, if there is any.
        for attempt in attempts_in(folder / job.attempts)[-1:]:
            is_open = attempt.submitted and not attempt.end
            if is_open and attempt.slurm not in queue.ended:
                unended.append((job, attempt))

    if not unended:
        return []
    ended = _accounted([attempt.slurm for _, attempt in unended])
    return [(job, attempt) for job, attempt in unended if attempt.slurm not in ended]


def unseen_words(job: Job, attempt: Attempt) -> str:
    """Return the words of messages on one of the `unseen_attempts`."""
    return f"Slurm job {attempt.slurm} ({job.name}) has no end, but squeue does not show it"


def _accounted(numbers: Collection[str]) -> set[str]:
    """Return those of some job numbers that have ended by Slurm's accounting; none where a site has no accounting."""
    # The queue forgets a job minutes after its end (MinJobAge); accounting keeps it.
    machine = Machine()
    if machine.which("sacct") is None:
        return set()
    command = ["sacct", "--allocations", "--noheader", "--parsable2"]
    command += ["--format=JobIDRaw,State", f"--jobs={','.join(numbers)}"]
    code, text = machine.output(command)
    if code:
        return set()
    # Lines such as `4711|COMPLETED`. Words may follow the state: `4711|CANCELLED by 1000`.
    states = re.findall(r"^(\d+)\|([A-Z_]+)", text, re.MULTILINE)
    return {number for number, state in states if state in _ENDED}


def refuse_start(jobs: Mapping[str, Job], folder: Path, queue: Queue) -> None:
    """Refuse to start where jobs of another user or target are in the queue, or some of the study's may run unseen.

    Args:
        jobs: the study's jobs by marker.
        folder: the study's folder.
        queue: the jobs that Slurm's queue shows.

    Raises:
        UserError: there are such jobs; the sentence names them, and of jobs that may run unseen the first.
    """
    own = own_name()
    others = [job for job in queue.jobs if job.user != own]
    if others:
        user = others[0].user
        numbers = " ".join(job.number for job in others)
        advice = f"wait for them, or ask {user} to end them (clm-or-mlm cancel)"
        raise UserError(f"jobs of {user} work in {folder} ({numbers}); {advice}")

    if queue.strange:
        numbers = " ".join(job.number for job in queue.strange)
        fault = f"jobs of another target in {folder} are still queued or running"
        advice = f"wait for them, or cancel them: scancel {numbers}"
        raise UserError(f"{fault} ({numbers}); {advice}")

    # The loop ends with its first turn: one such attempt is enough to refuse the start.
    for job, attempt in unseen_attempts(jobs, folder, queue):
        advice = f"if it does not run any more, enter clm-or-mlm cancel --dir {folder}, then repeat this command"
        raise UserError(f"{unseen_words(job, attempt)}; {advice}")


def own_name() -> str:
    """Return this user's name as Slurm shows it."""
    import pwd  # not on every system that can show a study's progress

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def allocation_seconds(environ: Mapping[str, str]) -> tuple[float, float]:
    """Return the seconds left of the allocation that this process runs in, and the seconds of its whole length.

    Each is infinity where it is not known, or where there is no allocation or limit. The end is that of the variable
    `CLM_OR_MLM_ENDS`, which a user sets under any scheduler; without it, Slurm's.

    Args:
        environ: the process's environment variables.
    """
    now = time.time()
    ends = environ.get(ENDS, "")
    if ends.isdecimal():
        return int(ends) - now, math.inf
    start = environ.get("SLURM_JOB_START_TIME", "")
    end = environ.get("SLURM_JOB_END_TIME", "")

    # An end in the past was written before the job's time limit was raised.
    if end.isdecimal() and int(end) > now:
        length = int(end) - int(start) if start.isdecimal() else math.inf
        return int(end) - now, length

    number = environ.get("SLURM_JOB_ID")
    if number:  # Slurm 22 sets no variable for the end, so the queue is asked
        command = ["squeue", "--noheader", f"--jobs={number}", "--format=%L %l"]
        code, text = Machine().output(command)
        # The answer is the time left (%L) and the limit (%l), `1-02:00:00 2-00:00:00`. A job without a limit has words
        # here, such as UNLIMITED; a site may print lines of its own around the times.
        times = re.search(r"^([\d:-]+) ([\d:-]+)$", text, re.MULTILINE)
        if not code and times:
            return 60 * minutes_of(times[1]), 60 * minutes_of(times[2])

    return math.inf, math.inf


def minutes_of(text: str) -> float:
    """Return the minutes of a duration as Slurm prints it, `[days-][hours:]minutes:seconds`; 0 for words."""
    days, _, clock = text.rpartition("-")
    parts = [float(part) for part in clock.split(":") if part.isdecimal()]
    # The last part is seconds (60 to the power 0), the one before it minutes (60 to the power 1), then hours.
    seconds = sum(value * 60.0**power for power, value in enumerate(reversed(parts)))
    day_minutes = float(days) * 1440 if days.isdecimal() else 0.0
    return day_minutes + float(seconds) / 60
