"""How far a study is: jobs done, running, waiting and failed, hours used, time left; read next to a call that works.

Nothing is changed and nothing is locked. What runs and waits on Slurm comes from Slurm, the rest from the folder.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from common.errors import UserError
from common.locks import holder_of
from common.tables import plain_table
from workflow.engine import LEASE, prefix_of, reconcile
from workflow.jobs import WORKFLOW, Job, Workflow, load
from workflow.path import critical_hours
from workflow.slurm.live_jobs import LiveJob, live_jobs

__all__ = ["StudyStatus", "hours_used", "pace", "share", "status_code", "status_text", "study_status"]


@dataclass(frozen=True, kw_only=True)
class StudyStatus:
    """A study's jobs by how far they are."""

    workflow: Workflow
    """All jobs."""
    folder: Path
    """Where it is."""
    caller: str
    """Who works in the folder, `process 12 on host x`; empty when nobody does."""
    todo: tuple[Job, ...]
    """Jobs that are not done."""
    live: Mapping[str, LiveJob]
    """Those in Slurm's queue, by marker."""
    failed: Mapping[str, str]
    """Why others ended, by marker, for those that a mistake ended."""

    def of(self, *states: str) -> list[Job]:
        """Return the jobs whose Slurm job is in one of these states."""
        return [job for job in self.todo if job.marker in self.live and self.live[job.marker].state in states]


def study_status(folder: Path) -> StudyStatus:
    """Return how far a study is.

    Raises:
        UserError: no call has ever started in the folder.
    """
    if not (folder / WORKFLOW).is_file():
        raise UserError(f"{folder} holds no study; name its folder: --dir DIR")
    workflow = load(folder)
    todo = reconcile(workflow, folder, change=False)
    slurm = shutil.which("squeue") is not None
    live = live_jobs(workflow.jobs, folder, prefix_of(folder)) if slurm else {}
    failed = {}
    for job in todo:
        path = folder / job.refused
        if job.marker not in live and path.is_file():
            failed[job.marker] = path.read_text("utf-8").strip() or "no sentence"
    return StudyStatus(
        workflow=workflow,
        folder=folder,
        caller=holder_of(folder / LEASE) or "",
        todo=tuple(todo),
        live=live,
        failed=failed,
    )


def _attempts(jobs: Iterable[Job], folder: Path) -> list[tuple[Job, dict[str, float]]]:
    found = []
    for job in jobs:
        path = folder / job.attempts
        if path.is_file():
            for line in path.read_text("utf-8").splitlines():
                try:
                    found.append((job, json.loads(line)))
                except ValueError:  # a line that a full disk cut short
                    continue
    return found


def hours_used(jobs: Iterable[Job], folder: Path) -> float:
    """Return the hours of GPUs (of nodes, for jobs without any) that the jobs' attempts took."""
    return sum(row["seconds"] / 3600 * max(1, row["gpus"]) for _, row in _attempts(jobs, folder))


def pace(workflow: Workflow, folder: Path, todo: Iterable[Job] = ()) -> dict[str, float]:
    """Return by kind of job how much longer its finished jobs took than estimated; kinds with none are left out."""
    left = {job.marker for job in todo}
    done = [job for job in workflow.jobs.values() if job.marker not in left]
    timed = [job for job in done if (folder / job.attempts).is_file()]
    found = {}
    for kind in workflow.kinds:
        mine = [job for job in timed if job.kind is kind]
        planned = sum(job.gpu_hours for job in mine)
        if planned > 0:
            found[kind.name] = hours_used(mine, folder) / planned
    return found


def status_code(status: StudyStatus) -> int:
    """Return 0 when all is done, 3 when jobs failed and nobody works on them, 4 when some are left."""
    if not status.todo:
        return 0
    return 3 if status.failed and not status.caller else 4


def status_text(status: StudyStatus) -> str:
    """Return a study's state as text: a table by kind, the jobs in the queue, failures, hours used and left."""
    rows = [["", "jobs", "done", "running", "queued", "failed", "left"]]
    running, queue = status.of("RUNNING", "COMPLETING"), status.of("PENDING", "REQUEUED", "CONFIGURING")
    groups = [(kind.title, status.workflow.of_kind(kind.name)) for kind in status.workflow.kinds]
    for title, jobs in (*groups, ("all", list(status.workflow.jobs.values()))):
        todo = [job for job in jobs if job in status.todo]
        counts = [len(jobs), len(jobs) - len(todo)]
        counts += [sum(job in part for job in jobs) for part in (running, queue)]
        counts += [sum(job.marker in status.failed for job in jobs)]
        rows.append([title, *map(str, counts), str(len(todo) - sum(counts[2:]))])
    lines = [f"{status.workflow.target} in {status.folder}", *plain_table(rows, numbers=range(1, 7))]
    for job in (*running, *queue):
        live = status.live[job.marker]
        why = (
            f", {live.reason}" if live.state == "PENDING" else f" for {live.minutes:.0f} min of {job.minutes}"
        )
        lines.append(f"{live.state.lower():10} {live.number:>8}  {job.kind.name} {job.name}{why}")
    lines += [f"failed      {marker}: {why.splitlines()[-1]}" for marker, why in status.failed.items()]
    lines.append(_hours(status))
    lines.append(
        f"{status.caller} works here" if status.caller else "nobody works here: the same call resumes it"
    )
    return "\n".join(lines) + "\n"


def _hours(status: StudyStatus) -> str:
    jobs, paces = list(status.workflow.jobs.values()), pace(status.workflow, status.folder, status.todo)
    left = {
        job.marker: job.hours * paces.get(job.kind.name, 1.0) * share(job, status.folder)
        for job in status.todo
    }
    work = sum(left[job.marker] * max(1, job.nodes * job.gpus) for job in status.todo)
    unit = "GPU hours" if any(job.gpus for job in jobs) else "hours of jobs"
    measured = ", at the pace so far" if paces else ", as planned"
    least = critical_hours(status.todo, left)
    used = f"{hours_used(jobs, status.folder):,.1f} {unit} used"
    return f"{used}, about {work:,.1f} left{measured}; at least {least:,.1f} h until the last job ends"


def share(job: Job, folder: Path) -> float:
    """Return the share of what a job makes that is missing; all of it for training, whose steps are not counted."""
    if job.checkpoints or not job.makes:
        return 1.0
    return sum(not (folder / path).is_file() for path in job.makes) / len(job.makes)
