"""How far a study is and what is left of it: jobs by kind, hours, disk, files; before it starts and while it runs.

Nothing is changed and nothing is locked. What runs and waits on Slurm comes from Slurm, the rest from the folder; hours
left are those planned.
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
"""Reasons of Slurm's for which a job waits until somebody changes something."""

_HEAD = (
    "jobs", "done", "running", "queued", "failed", "left", "GPU hours", "node hours", "disk, GB", "files",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class StudyProgress:
    """A study's jobs by how far they are."""

    workflow: Workflow
    """All jobs."""
    folder: Path
    """Where it is."""
    todo: tuple[Job, ...]
    """Jobs that are not done."""
    live: Mapping[str, SlurmJob] = field(default_factory=dict)
    """Those that are queued or running, by marker."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Why others ended, by marker."""
    unseen: str = ""
    """Why it is not known what is queued or running; empty where it is."""
    waiting: str = ""
    """What is said of jobs that have no place in Slurm's queue."""
    caller: str = ""
    """Who works in the folder, `process 12 on host x`; empty when nobody does."""

    @property
    def code(self) -> int:
        """0 when all is done, 3 when jobs failed and nobody works on any, 4 when some are left."""
        if not self.todo:
            return 0
        return 3 if self.failed and not self.caller and not self.live else 4

    def hours_used(self, job: Job) -> float:
        """Return the hours of GPUs (of nodes, for jobs without any) that a job's attempts took."""
        attempts = attempts_in(self.folder / job.attempts)
        seconds = sum(attempt.seconds * max(1, attempt.gpus) for attempt in attempts)
        return seconds / 3600

    def heartbeat(self, job: Job) -> str:
        """Return how long ago a job wrote to its log or its training's log: a job that hangs no longer writes."""
        paths = [self.folder / job.log]
        if job.checkpoints:
            paths += (self.folder / job.checkpoints).parents[1].glob("*.jsonl")
        times = [path.stat().st_mtime for path in paths if path.is_file()]
        if not times:
            return ""
        seconds = max(0.0, time.time() - max(times))
        return f", wrote {seconds / 60:.0f} min ago"

    def share(self, job: Job) -> float:
        """Return the share of what a job makes that is missing; all of it for training, whose steps are not counted."""
        if job.checkpoints or not job.makes:
            return 1.0
        missing = [path for path in job.makes if not (self.folder / path).is_file()]
        return len(missing) / len(job.makes)

    def text(self) -> str:
        """Return a table by kind, the jobs in the queue, failures, hours used, and how many jobs take several parts."""
        lines = [f"{self.workflow.target} in {self.folder}", *self._table()]
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
        several = [job for job in self.todo if job.parts > 1]
        if several:
            most = max(several, key=lambda job: job.parts)
            lines.append(
                f"{len(several)} jobs exceed the limit of {most.limit_hours:g} h and resume in the next job; "
                f"{most.name} takes {most.hours:.0f} h in {most.parts} parts"
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
        return plain_table(rows, numbers=range(1, len(_HEAD) + 1))

    def _live_line(self, job: Job, live: SlurmJob) -> str:
        """Return what is said of a job that runs or waits."""
        if _runs(live):
            why = f" for {live.minutes:.0f} min of {job.minutes}{self.heartbeat(job)}"
        else:
            why = f", {live.reason}"
            if _FOR_EVER.fullmatch(live.reason):
                why += ", for which it waits until somebody changes that"
        state = live.state.lower()
        return f"{state:10} {live.number:>8}  {job.kind.name} {job.name}{why}"

    def failures(self) -> list[str]:
        """Return a line for each job that failed."""
        return [
            f"failed      {marker}: {why.splitlines()[-1]}"
            for marker, why in self.failed.items()
        ]

    def _cells(self, jobs: list[Job], shares: Mapping[str, float]) -> list[str]:
        """Return a row of the table below `_HEAD`; `shares` has the `share` of each job that is not done."""
        todo = [job for job in jobs if job.marker in shares]
        live = [self.live[job.marker] for job in todo if job.marker in self.live]
        running = [job for job in live if _runs(job)]
        failed = [job for job in todo if job.marker in self.failed]

        gpu_hours = node_hours = disk_bytes = 0.0
        files = 0
        for job in todo:
            share = shares[job.marker]
            hours = job.hours * share * job.nodes
            node_hours += hours
            gpu_hours += hours * job.gpus
            disk_bytes += job.disk_bytes * share
            files += job.files

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
    """Return the job that a call on some machine is doing, by its marker."""
    found = {}
    for job in todo:
        for attempt in attempts_in(folder / job.attempts)[-1:]:
            if attempt.end or attempt.submitted:
                continue
            age = datetime.now(UTC) - datetime.fromisoformat(attempt.start)
            minutes = age.total_seconds() / 60
            found[job.marker] = SlurmJob(number="", state="RUNNING", minutes=minutes)
    return found


def _why_failed(job: Job, folder: Path) -> str:
    """Return why a job that is neither done nor running has ended; empty where it has not failed."""
    refused = folder / job.refused
    if refused.is_file():
        return _text_of(refused).strip() or "no message"
    lines = [line.strip() for line in _text_of(folder / job.slurm_log).split("\n")]
    last_words = " | ".join([line for line in lines if line][-2:])
    attempts = attempts_in(folder / job.attempts)
    if not attempts:  # it ended before its commands began, if it ever began
        return last_words
    last = attempts[-1]
    if last.submitted:
        is_failed = not last.end or last.code != 0
    else:
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


def _waits(item: tuple[str, SlurmJob]) -> bool:
    return not _runs(item[1])


def shortages(progress: StudyProgress) -> list[str]:
    """Return sentences on what the remaining jobs lack (space, files, time below a limit), with what to do."""
    lines = []
    todo = progress.todo
    place = nearest_existing(progress.folder)
    status = os.statvfs(place)
    advice = "free some, or choose another folder"

    free = status.f_bavail * status.f_frsize / 1e9
    needed = sum(job.disk_bytes * progress.share(job) for job in todo) / 1e9
    if needed > free:
        digits = 0 if needed >= 10 else 3
        seen = f"{place} has {free:,.{digits}f} GB free"
        lines.append(f"{seen}, but the study needs {needed:,.{digits}f} GB; {advice}")

    # Some file systems do not count files: they say 0 of 0.
    files = sum(job.files for job in todo)
    if status.f_files and files > status.f_favail:
        seen = f"{place} has room for {status.f_favail:,} more files"
        lines.append(f"{seen}, but the study writes {files:,}; {advice}")

    for job in todo:
        resumes = job.checkpoints or job.kind.name == "cell"
        if job.parts > 1 and not resumes:
            fault = f"{job.kind.name} {job.name} takes about {job.hours:.1f} h and cannot resume"
            limit = f"but the limit is {job.limit_hours:g} h"
            lines.append(f"{fault}, {limit}; raise limit_hours or cpus")
    return lines
