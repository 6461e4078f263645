"""How far a study is and what is left of it: jobs by kind, hours, disk, files; before it starts and while it runs.

Nothing is changed and nothing is locked. What runs and waits on Slurm comes from Slurm, the rest from the folder; hours
left are those planned.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from common.locks import holder_of
from common.reading import read_bounded
from common.tables import plain_table
from workflow.attempts import attempts_in
from workflow.engine import LEASE, reconcile
from workflow.jobs import Job, Workflow, load
from workflow.slurm_jobs import LiveJob, controller_of, died_early, live_jobs

_HEAD = (
    "jobs",
    "done",
    "running",
    "queued",
    "failed",
    "left",
    "GPU hours",
    "node hours",
    "disk, GB",
    "files",
)


@dataclass(frozen=True, kw_only=True)
class StudyProgress:
    """A study's jobs by how far they are."""

    workflow: Workflow
    """All jobs."""
    folder: Path
    """Where it is."""
    todo: tuple[Job, ...]
    """Jobs that are not done."""
    live: Mapping[str, LiveJob] = field(default_factory=dict)
    """Those in Slurm's queue, by marker."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Why others ended, by marker, for those that a mistake ended, or that died before their commands began."""
    caller: str = ""
    """Who works in the folder, `process 12 on host x`; empty when nobody does."""

    @property
    def code(self) -> int:
        """0 when all is done, 3 when jobs failed and nobody works on them, 4 when some are left."""
        return 0 if not self.todo else 3 if self.failed and not self.caller else 4

    def hours_used(self, job: Job) -> float:
        """Return the hours of GPUs (of nodes, for jobs without any) that a job's attempts took."""
        attempts = attempts_in(self.folder / job.attempts)
        return sum(
            attempt.seconds / 3600 * max(1, attempt.gpus) for attempt in attempts
        )

    def heartbeat(self, job: Job) -> str:
        """Return how long ago a job wrote to its log, or its training to its own: a job that hangs writes no more."""
        paths = [self.folder / job.log]
        paths += (
            Path(self.folder / job.checkpoints).parents[1].glob("*.jsonl")
            if job.checkpoints
            else ()
        )
        written = [path.stat().st_mtime for path in paths if path.is_file()]
        return (
            f", wrote {max(0.0, time.time() - max(written)) / 60:.0f} min ago"
            if written
            else ""
        )

    def share(self, job: Job) -> float:
        """Return the share of what a job makes that is missing; all of it for training, whose steps are not counted."""
        if job.checkpoints or not job.makes:
            return 1.0
        return sum(not (self.folder / path).is_file() for path in job.makes) / len(
            job.makes
        )

    def text(self) -> str:
        """Return a table by kind, the jobs in the queue, failures, hours used and left, and what does not suffice."""
        jobs = list(self.workflow.jobs.values())
        hours = {job.marker: job.hours * self.share(job) for job in self.todo}
        rows = [
            ["", *_HEAD],
            *(
                self._row(kind.title, self.workflow.of_kind(kind.name), hours)
                for kind in self.workflow.kinds
            ),
            self._row("all", jobs, hours),
        ]
        lines = [f"{self.workflow.target} in {self.folder}"]
        lines += plain_table(rows, numbers=range(1, len(_HEAD) + 1))
        for marker, live in sorted(
            self.live.items(), key=lambda item: not _runs(item[1])
        ):
            job = self.workflow.jobs[marker]
            why = (
                f" for {live.minutes:.0f} min of {job.minutes}"
                if _runs(live)
                else f", {live.reason}"
            )
            why += self.heartbeat(job) if _runs(live) else ""
            lines.append(
                f"{live.state.lower():10} {live.number:>8}  {job.kind.name} {job.name}{why}"
            )
        waiting = self.folder / "logs/slurm/waiting"
        # Workflow/profiles/slurm/bin/sbatch writes it
        if self.caller and waiting.is_file():
            why = read_bounded(waiting).decode(errors="replace").partition("\n")[0]
            lines.append(f"waiting     Slurm takes no more jobs now: {why}")
        lines += self.failures()
        if used := sum(map(self.hours_used, jobs)):
            lines.append(
                f"{used:,.1f} GPU hours used (node hours for jobs without GPUs)"
            )
        if parts := [job for job in self.todo if job.parts > 1]:
            most = max(parts, key=lambda job: job.parts)
            lines.append(
                f"{len(parts)} jobs exceed the limit of {most.limit_hours:g} h and resume in the next job; {most.name} "
                f"takes {most.hours:.0f} h in {most.parts} parts"
            )
        return (
            "\n".join([*lines, *(f"warning: {line}" for line in warnings(self))]) + "\n"
        )

    def failures(self) -> list[str]:
        """Return a line for each job that failed."""
        return [
            f"failed      {marker}: {why.splitlines()[-1]}"
            for marker, why in self.failed.items()
        ]

    def _row(
        self, title: str, jobs: list[Job], hours: Mapping[str, float]
    ) -> list[str]:
        """Return a row of the table; `hours` has those of each job that is not done, by its marker."""
        todo = [job for job in jobs if job.marker in hours]
        live = [self.live[job.marker] for job in todo if job.marker in self.live]
        running, failed = (
            sum(map(_runs, live)),
            sum(job.marker in self.failed for job in todo),
        )
        left = len(todo) - len(live) - failed
        counts = [
            len(jobs),
            len(jobs) - len(todo),
            running,
            len(live) - running,
            failed,
            left,
        ]
        amounts = [
            sum(hours[job.marker] * job.nodes * job.gpus for job in todo),
            sum(hours[job.marker] * job.nodes for job in todo),
            sum(job.disk_bytes * self.share(job) for job in todo) / 1e9,
        ]
        files = sum(job.files for job in todo)
        return [
            title,
            *map(str, counts),
            *(f"{amount:,.1f}" for amount in amounts),
            f"{files:,}",
        ]


def progress_of(folder: Path) -> StudyProgress:
    """Return how far the study in a folder is.

    Raises:
        UserError: no call has ever started there.
    """
    workflow = load(folder)
    todo = reconcile(workflow, folder, change=False)
    live = live_jobs(workflow.jobs, folder) if shutil.which("squeue") else {}
    refused = {
        job.marker: folder / job.refused for job in todo if job.marker not in live
    }
    return StudyProgress(
        workflow=workflow,
        folder=folder,
        todo=tuple(todo),
        live=live,
        failed=died_early([job for job in todo if job.marker not in live], folder)
        | {
            marker: read_bounded(path).decode(errors="replace").strip() or "no message"
            for marker, path in refused.items()
            if path.is_file()
        },
        caller=holder_of(folder / LEASE)
        or " ".join(
            f"Slurm job {number} ({state.lower()})"
            for number, state in controller_of(folder)
        ),
    )


def _runs(live: LiveJob) -> bool:
    return live.state in ("RUNNING", "COMPLETING")


def warnings(progress: StudyProgress) -> list[str]:
    """Return what does not suffice for the jobs to do: space, files, a time limit."""
    lines, todo = [], progress.todo
    # Before the start the folder is not there yet.
    place = next(
        path for path in (progress.folder, *progress.folder.parents) if path.is_dir()
    )
    status = os.statvfs(place)
    free = status.f_bavail * status.f_frsize / 1e9
    needed = sum(job.disk_bytes * progress.share(job) for job in todo) / 1e9
    if needed > free:
        digits = 0 if needed >= 10 else 3
        lines.append(
            f"{place} has {free:,.{digits}f} GB free, but the study needs {needed:,.{digits}f} GB"
        )
    # Some file systems do not count files: they say 0 of 0.
    files = sum(job.files for job in todo)
    if status.f_files and files > status.f_favail:
        lines.append(
            f"{place} has room for {status.f_favail:,} more files, but the study writes {files:,}"
        )
    stuck = [
        job
        for job in todo
        if job.parts > 1 and not job.checkpoints and job.kind.part != "fine-tuning"
    ]
    for job in stuck:
        lines.append(
            f"{job.kind.name} {job.name} takes about {job.hours:.1f} h and cannot resume, but the limit is "
            f"{job.limit_hours:g} h; raise limit_hours or cpus"
        )
    return lines
