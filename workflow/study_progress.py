"""How far a study is, before it starts and while it runs: its jobs by kind, and the hours, disk and files still needed.

Nothing is changed and nothing is locked. Slurm says which jobs run and wait there; all else is read from the study's
folder. Hours that are still needed are estimates from the study's plan.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from common.errors import UserError
from common.files import nearest_existing
from common.locks import holder_of
from common.processes import AGAIN
from common.reading import read_bounded
from common.tables import plain_table
from workflow.attempts import attempts_in
from workflow.engine import reconcile
from workflow.jobs import LEASE, Job, Workflow, load_workflow
from workflow.slurm_queue import (
    Queue,
    SlurmJob,
    read_queue,
    unseen_attempts,
    unseen_words,
)
from workflow.slurm_submit import read_left
from workflow.step import STOPPED

_FOR_EVER = re.compile(
    r"(QOS|Assoc)Max\w*PerJob\w*|(QOS|Assoc)MaxWall\w*|(QOS|Assoc)Grp\w*Minutes\w*|PartitionNodeLimit|PartitionTimeLimit"
    r"|BadConstraints|AccountNotAllowed|QOSNotAllowed|InvalidAccount|InvalidQOS|DependencyNeverSatisfied|JobHeld\w*"
)
"""Reasons, as squeue prints them, for which a job waits until somebody changes something.

It may ask for more than a limit (`QOSMaxWallDurationPerJobLimit`) or for a partition or account that cannot be, need a
job that failed, or be held. Other reasons, `Priority` or `Resources`, pass by themselves.
"""

_HEAD = (
    "jobs", "done", "running", "queued", "failed", "left", "GPU hours", "node hours", "disk, GB", "files",
)  # fmt: skip
"""The columns of the table of jobs, after the kind of job."""


@dataclass(frozen=True, kw_only=True)
class StudyProgress:
    """A study's jobs, and how far each is. A job is named by its marker, `done/<kind>/<name>.json`."""

    workflow: Workflow
    """All jobs."""
    folder: Path
    """The study's folder."""
    todo: tuple[Job, ...]
    """Jobs that are not done."""
    live: Mapping[str, SlurmJob] = field(default_factory=dict)
    """Jobs of `todo` that are queued or running, by marker."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Why other jobs of `todo` failed, by marker."""
    unseen: str = ""
    """Why it is not known which jobs are queued or running; empty where it is known."""
    waiting: str = ""
    """A line on jobs that have no place in Slurm's queue; empty without such jobs."""
    caller: str = ""
    """The process that works in the folder, `process 12 on host x`; empty when none does."""

    @property
    def code(self) -> int:
        """Exit code of `status`: 0 all jobs are done, 3 some failed and nothing runs or waits, 4 some are left."""
        if not self.todo:
            return 0
        is_at_work = bool(self.caller or self.live)
        return 3 if self.failed and not is_at_work else 4

    def hours_used(self, job: Job) -> float:
        """Return the hours of GPUs (of nodes, for jobs without any) that a job's attempts took."""
        attempts = attempts_in(self.folder / job.attempts)
        seconds = sum(attempt.seconds * max(1, attempt.gpus) for attempt in attempts)
        return seconds / 3600

    def heartbeat(self, job: Job) -> str:
        """Return words on how long ago a job wrote to one of its logs; empty where it has none.

        They show a job that hangs, which no longer writes.
        """
        paths = [self.folder / job.log]
        if job.checkpoints:
            # Checkpoints are STAGE/step-*/state.json; training's own logs are STAGE/*.jsonl.
            stage_folder = (self.folder / job.checkpoints).parents[1]
            paths += stage_folder.glob("*.jsonl")
        times = [path.stat().st_mtime for path in paths if path.is_file()]
        if not times:
            return ""
        seconds = max(0.0, time.time() - max(times))
        return f", wrote {seconds / 60:.0f} min ago"

    def share(self, job: Job) -> float:
        """Return the share of a job's files that is missing; 1 for training, whose finished steps are not counted."""
        if job.checkpoints or not job.makes:
            return 1.0
        missing = [path for path in job.makes if not (self.folder / path).is_file()]
        return len(missing) / len(job.makes)

    def text(self) -> str:
        """Return the progress as lines of text.

        They are a table of jobs by kind, the jobs that run or wait, failures, hours used, and how many jobs exceed the
        site's time limit.
        """
        lines = [f"{self.workflow.target} in {self.folder}", *self._table()]
        # Jobs that run stand before jobs that wait.
        for marker, live in sorted(self.live.items(), key=_waits):
            lines.append(self._live_line(self.workflow.jobs[marker], live))
        if self.waiting:
            lines.append(self.waiting)
        if self.unseen:
            lines.append(f"unknown     what runs or waits: {self.unseen}")
        lines += self.failures()
        used = sum(map(self.hours_used, self.workflow.jobs.values()))
        if used:
            lines.append(
                f"{used:,.1f} GPU hours used (node hours for jobs without GPUs)"
            )

        in_parts = [job for job in self.todo if job.parts > 1]
        if in_parts:
            longest = max(in_parts, key=lambda job: job.parts)
            lines.append(
                f"{len(in_parts)} jobs exceed the limit of {longest.limit_hours:g} h and resume in the next job; "
                f"{longest.name} takes {longest.hours:.0f} h in {longest.parts} parts"
            )

        return "".join(f"{line}\n" for line in lines)

    def _table(self) -> list[str]:
        """Return the lines of the table of jobs by kind."""
        groups = {
            kind.title: self.workflow.of_kind(kind.name) for kind in self.workflow.kinds
        }
        groups["all"] = list(self.workflow.jobs.values())
        shares = {job.marker: self.share(job) for job in self.todo}
        rows = [["", *_HEAD]]
        for title, jobs in groups.items():
            rows.append([title, *self._cells(jobs, shares)])
        # All columns but the first, the kind of job, are numbers.
        return plain_table(rows, numbers=range(1, len(_HEAD) + 1))

    def _live_line(self, job: Job, live: SlurmJob) -> str:
        """Return the line on a job that runs or waits, such as `running  4711  stage 610m-clm for 12 min of 90`."""
        if _runs(live):
            more = f" for {live.minutes:.0f} min of {job.minutes}{self.heartbeat(job)}"
        else:
            more = f", {live.reason}"
            if _FOR_EVER.fullmatch(live.reason):
                more += ", for which it waits until somebody changes that"
        state = live.state.lower()
        return f"{state:10} {live.number:>8}  {job.kind.name} {job.name}{more}"

    def failures(self) -> list[str]:
        """Return a line for each job that failed."""
        return [
            f"failed      {marker}: {why.splitlines()[-1]}"
            for marker, why in self.failed.items()
        ]

    def _cells(self, jobs: list[Job], shares: Mapping[str, float]) -> list[str]:
        """Return the cells of a row of the table, one for each column of `_HEAD`.

        Args:
            jobs: the row's jobs.
            shares: the `share` of each job that is not done, by marker.
        """
        todo = [job for job in jobs if job.marker in shares]
        # Slurm's jobs, for those of the study's jobs that are queued or running.
        live = [self.live[job.marker] for job in todo if job.marker in self.live]
        running = [slurm_job for slurm_job in live if _runs(slurm_job)]
        failed = [job for job in todo if job.marker in self.failed]

        # What the jobs still need, by the share of each that is missing. Only files are counted whole: all files of a
        # job that is not done.
        gpu_hours = node_hours = disk_bytes = 0.0
        files = 0
        for job in todo:
            share = shares[job.marker]
            # `hours` are the wall time of the job; each of its nodes is taken for so long.
            job_node_hours = job.hours * share * job.nodes
            node_hours += job_node_hours
            gpu_hours += job_node_hours * job.gpus
            disk_bytes += job.disk_bytes * share
            files += job.files

        # In the order of `_HEAD`.
        return [
            f"{len(jobs)}",
            f"{len(jobs) - len(todo)}",
            f"{len(running)}",
            f"{len(live) - len(running)}",
            f"{len(failed)}",
            f"{len(todo) - len(live) - len(failed)}",
            f"{gpu_hours:,.1f}",
            f"{node_hours:,.1f}",
            f"{disk_bytes / 1e9:,.1f}",
            f"{files:,}",
        ]


def progress_of(folder: Path) -> StudyProgress:
    """Return how far the study in a folder is.

    Raises:
        UserError: no call has ever started there.
    """
    workflow = load_workflow(folder)
    todo = reconcile(workflow, folder, change=False)
    caller = holder_of(folder / LEASE) or ""

    # Jobs that are queued or running, as far as the queue can be read.
    queue = Queue()
    unseen = ""
    try:
        queue = read_queue(workflow.jobs, folder)
        # Of the jobs of which Slurm does not say whether they run, one is enough to name: the last.
        for job, attempt in unseen_attempts(workflow.jobs, folder, queue):
            unseen = unseen_words(job, attempt)
    except UserError as error:
        unseen = str(error)

    live = dict(queue.live)
    if caller:
        live |= _here(todo, folder)

    waiting = ""
    left = read_left(folder)
    if left:
        who = "nothing submits them now"
        if queue.submitter:
            who = f"Slurm job {queue.submitter.number} submits them"
        waiting = f"waiting     {len(left)} jobs have no place in Slurm's queue; {who}"

    # Where the queue cannot be read, any job that is not done may be running: none counts as failed.
    failed = {}
    for job in todo:
        why = ""
        if not unseen and job.marker not in live:
            why = _why_failed(job, folder)
        if why:
            failed[job.marker] = why

    return StudyProgress(
        workflow=workflow,
        folder=folder,
        todo=tuple(todo),
        live=live,
        failed=failed,
        unseen=unseen,
        waiting=waiting,
        caller=caller,
    )


def _here(todo: list[Job], folder: Path) -> dict[str, SlurmJob]:
    """Return the job that the call in the folder runs itself, by marker, in the form of a job of Slurm's.

    It is the job whose last attempt has not ended and does not belong to a submitted Slurm job. An attempt that was
    killed has no end either, so that its job is returned as well until the call starts it again.
    """
    found = {}
    for job in todo:
        # The last attempt, if there is any.
        for attempt in attempts_in(folder / job.attempts)[-1:]:
            if attempt.end or attempt.submitted:
                continue
            age = datetime.now(UTC) - datetime.fromisoformat(attempt.start)
            minutes = age.total_seconds() / 60
            found[job.marker] = SlurmJob(number="", state="RUNNING", minutes=minutes)
    return found


def _why_failed(job: Job, folder: Path) -> str:
    """Return why a job failed that is neither done nor running; empty where it has not failed."""
    # A user's mistake: the file has its message.
    refused = folder / job.refused
    if refused.is_file():
        return _text_of(refused).strip() or "no message"

    # The last words of Slurm's log of the job: its last two lines with any text.
    lines = [line.strip() for line in _text_of(folder / job.slurm_log).split("\n")]
    printed = [line for line in lines if line]
    last_words = " | ".join(printed[-2:])
    attempts = attempts_in(folder / job.attempts)
    if not attempts:  # it ended before its commands began, if it ever began
        return last_words
    last = attempts[-1]
    if last.submitted:
        # Its Slurm job is no longer in the queue, and only a new call submits another one. An attempt without an end
        # was killed; one that ended with another code than 0 has failed or was stopped. All these count as failed.
        is_failed = not last.end or last.code != 0
    else:
        # It ran in the process of a call. If it was stopped, or killed together with this call, the study was
        # interrupted, and the next call resumes: that is no failure.
        is_failed = bool(last.end) and last.code not in (0, AGAIN, STOPPED)

    if not is_failed:
        return ""
    how = f"ended with exit code {last.code}" if last.end else "was killed"
    if last_words:
        how = f"{how}: {last_words}"
    return f"{how} ({folder / job.log})"


def _text_of(path: Path) -> str:
    return read_bounded(path).decode(errors="replace") if path.is_file() else ""


def _runs(live: SlurmJob) -> bool:
    return live.state in ("RUNNING", "COMPLETING")


def _waits(marked_job: tuple[str, SlurmJob]) -> bool:
    _, live = marked_job
    return not _runs(live)


def shortages(progress: StudyProgress) -> list[str]:
    """Return a sentence for each thing that the remaining jobs lack (space, files, time), with what to do.

    A job lacks time where it takes longer than the site allows, and cannot resume in a second job.
    """
    lines = []
    todo = progress.todo
    place = nearest_existing(progress.folder)
    status = os.statvfs(place)
    advice = "free some, or choose another folder"

    free = status.f_bavail * status.f_frsize / 1e9
    needed = sum(job.disk_bytes * progress.share(job) for job in todo) / 1e9
    if needed > free:
        # Below 10 GB with three digits after the point, so that the MB of a small study can be seen.
        digits = 0 if needed >= 10 else 3
        seen = f"{place} has {free:,.{digits}f} GB free"
        lines.append(f"{seen}, but the study needs {needed:,.{digits}f} GB; {advice}")

    # `f_files` is how many files the file system can have, `f_favail` how many more this user may make. Some file
    # systems do not count files: they report 0 free of 0.
    files = sum(job.files for job in todo)
    if status.f_files and files > status.f_favail:
        seen = f"{place} has room for {status.f_favail:,} more files"
        lines.append(f"{seen}, but the study writes {files:,}; {advice}")

    for job in todo:
        # Training resumes from its checkpoints, and fine-tuning after its finished runs.
        resumes = job.checkpoints or job.kind.name == "cell"
        if job.parts > 1 and not resumes:
            fault = f"{job.kind.name} {job.name} takes about {job.hours:.1f} h and cannot resume"
            limit = f"but the limit is {job.limit_hours:g} h"
            lines.append(f"{fault}, {limit}; raise limit_hours or cpus")

    return lines
