"""What a study's workflow would do: jobs by kind, hours, disk, files, the longest chain; printed before it starts.

What is done is subtracted, also single runs of a cell; hours follow what this study's own jobs took so far.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from workflow.jobs import Job, Workflow
from workflow.reports.study_status import critical_hours, pace, share
from workflow.settings import Settings

__all__ = ["summary", "warnings"]


def summary(workflow: Workflow, todo: Sequence[Job], settings: Settings, folder: Path, models: int) -> str:
    """Return jobs, hours, disk and files by kind as text, and what does not suffice.

    Args:
        workflow: a study's jobs.
        todo: those that are not done.
        settings: of the study.
        folder: where it is.
        models: number of models that the target is about.
    """
    paces = pace(workflow, folder, todo)
    left = {job.marker: share(job, folder) * paces.get(job.kind.name, 1.0) for job in todo}
    unit = f"{settings.device} hours" if settings.gpus_per_node else "CPU-job hours"
    lines = [f"{workflow.target}: {models} models in {folder}"]
    lines.append(f"{'':26}{'jobs':>7}{'to do':>7}{unit:>15}{'node hours':>12}{'disk, GB':>10}{'files':>9}")
    rows = [(kind.title, workflow.of_kind(kind.name), [job for job in todo if job.kind is kind])
            for kind in workflow.kinds]  # fmt: skip
    for title, jobs, mine in (*rows, ("all", list(workflow.jobs.values()), list(todo))):
        # Hours of jobs without a GPU count only where there are none.
        counted = [job for job in mine if job.gpus or not settings.gpus_per_node]
        hours = sum(job.gpu_hours * left[job.marker] for job in counted)
        nodes = sum(job.nodes * job.hours * left[job.marker] for job in mine)
        disk = sum(job.disk_bytes * share(job, folder) for job in mine) / 1e9
        files = sum(job.files for job in mine)
        lines.append(
            f"{title:26}{len(jobs):>7,}{len(mine):>7,}{hours:>15,.1f}{nodes:>12,.1f}{disk:>10,.1f}{files:>9,}"
        )
    parts = [job for job in todo if job.parts > 1]
    if parts:
        most = max(parts, key=lambda job: job.parts)
        lines.append(
            f"{len(parts)} jobs outlast the limit of {most.limit_hours:g} h and resume in the next: "
            f"{most.name} takes {most.hours:.0f} h in {most.parts} parts"
        )
    if todo:
        least = critical_hours(todo, {job.marker: job.hours * left[job.marker] for job in todo})
        lines.append(f"longest chain of jobs: {least:,.1f} h with no waiting in the queue")
    if settings.gpus_per_node:
        measured = f"; {', '.join(paces)} follow what finished jobs took" if paces else ""
        lines.append(
            f"hours are estimates for stages on {settings.nodes} x {settings.gpus_per_node} {settings.device} at "
            f"{settings.mfu:.0%} of their peak rate; --settings FILE says what your site has{measured}"
        )
    return "\n".join([*lines, *(f"warning: {line}" for line in warnings(todo, folder))]) + "\n"


def warnings(todo: Sequence[Job], folder: Path) -> list[str]:
    """Return what does not suffice for the jobs to do: space, files, a time limit."""
    lines = []
    place = next(path for path in (folder, *folder.parents) if path.is_dir())
    found = os.statvfs(place)
    free = found.f_bavail * found.f_frsize / 1e9
    needed = sum(job.disk_bytes * share(job, folder) for job in todo) / 1e9
    if needed > free:
        lines.append(f"{place} has {free:,.0f} GB free and the study leaves {needed:,.0f} GB")
    # Some file systems do not count files: they say 0 of 0.
    files = sum(job.files for job in todo)
    if found.f_files and files > found.f_favail:
        lines.append(f"{place} takes {found.f_favail:,} files more and the study makes {files:,}")
    stuck = [job for job in todo if job.parts > 1 and not job.checkpoints and job.kind.part != "fine-tuning"]
    for job in stuck:
        lines.append(
            f"{job.kind.name} {job.name} takes about {job.hours:.1f} h and cannot resume, the limit is "
            f"{job.limit_hours:g} h: raise limit_hours, or cpus"
        )
    return lines
