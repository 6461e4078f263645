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
from workflow.slurm.live_jobs import LiveJob, live_jobs

__all__ = ["StudyStatus", "critical_hours", "pace", "share", "status_text", "study_status"]


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

    @property
    def code(self) -> int:
        """0 when all is done, 3 when jobs failed and nobody works on them, 4 when some are left."""
        return 0 if not self.todo else 3 if self.failed and not self.caller else 4


def study_status(folder: Path) -> StudyStatus:
    """Return how far a study is.

    Raises:
        UserError: no call has ever started in the folder.
    """
    if not (folder / WORKFLOW).is_file():
        raise UserError(f"{folder} holds no study; name its folder: --dir DIR")
    workflow = load(folder)
    todo = reconcile(workflow, folder, change=False)
    live = live_jobs(workflow.jobs, folder, prefix_of(folder)) if shutil.which("squeue") else {}
    ended = (job for job in todo if job.marker not in live and (folder / job.refused).is_file())
    return StudyStatus(
        workflow=workflow,
        folder=folder,
        caller=holder_of(folder / LEASE) or "",
        todo=tuple(todo),
        live=live,
        failed={
            job.marker: (folder / job.refused).read_text("utf-8").strip() or "no sentence" for job in ended
        },
    )


def hours_used(jobs: Iterable[Job], folder: Path) -> float:
    """Return the hours of GPUs (of nodes, for jobs without any) that the jobs' attempts took."""
    hours = 0.0
    for path in (folder / job.attempts for job in jobs):
        for line in path.read_text("utf-8").splitlines() if path.is_file() else ():
            try:
                row = json.loads(line)
            except ValueError:  # a line that a full disk cut short
                continue
            hours += row["seconds"] / 3600 * max(1, row["gpus"])
    return hours


def pace(workflow: Workflow, folder: Path, todo: Iterable[Job] = ()) -> dict[str, float]:
    """Return by kind of job how much longer its finished jobs took than estimated; kinds with none are left out."""
    left = {job.marker for job in todo}
    found = {}
    for kind in workflow.kinds:
        mine = [job for job in workflow.of_kind(kind.name) if job.marker not in left]
        mine = [job for job in mine if (folder / job.attempts).is_file()]
        if planned := sum(job.gpu_hours for job in mine):
            found[kind.name] = hours_used(mine, folder) / planned
    return found


def share(job: Job, folder: Path) -> float:
    """Return the share of what a job makes that is missing; all of it for training, whose steps are not counted."""
    if job.checkpoints or not job.makes:
        return 1.0
    return sum(not (folder / path).is_file() for path in job.makes) / len(job.makes)


def critical_hours(jobs: Iterable[Job], hours: Mapping[str, float]) -> float:
    """Return the hours of the longest chain of jobs that wait for each other: no number of nodes ends a study sooner.

    Args:
        jobs: jobs, each after those it waits for; needs among other jobs count as done.
        hours: how long each takes, by marker.
    """
    ends: dict[str, float] = {}
    for job in jobs:
        ends[job.marker] = hours[job.marker] + max((ends.get(need, 0.0) for need in job.needs), default=0.0)
    return max(ends.values(), default=0.0)


def status_text(status: StudyStatus) -> str:
    """Return a study's state as text: a table by kind, the jobs in the queue, failures, hours used and left."""
    rows = [["", "jobs", "done", "running", "queued", "failed", "left"]]
    states = {marker: job.state in ("RUNNING", "COMPLETING") for marker, job in status.live.items()}
    left = {job.marker for job in status.todo}
    groups = [(kind.title, status.workflow.of_kind(kind.name)) for kind in status.workflow.kinds]
    for title, jobs in (*groups, ("all", list(status.workflow.jobs.values()))):
        todo = [job.marker for job in jobs if job.marker in left]
        counts = [sum(states.get(name) is running for name in todo) for running in (True, False)]
        counts.append(sum(name in status.failed for name in todo))
        numbers = [len(jobs), len(jobs) - len(todo), *counts, len(todo) - sum(counts)]
        rows.append([title, *map(str, numbers)])
    lines = [f"{status.workflow.target} in {status.folder}", *plain_table(rows, numbers=range(1, 7))]
    for marker, live in sorted(status.live.items(), key=lambda item: not states[item[0]]):
        job = status.workflow.jobs[marker]
        why = f" for {live.minutes:.0f} min of {job.minutes}" if states[marker] else f", {live.reason}"
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
