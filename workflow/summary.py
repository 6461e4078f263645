"""What a study's workflow would do: jobs by kind, hours, disk; printed before anything is submitted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from workflow.jobs import Job, Workflow
from workflow.settings import Settings

__all__ = ["summary"]


def summary(workflow: Workflow, todo: Sequence[Job], settings: Settings, folder: Path, models: int) -> str:
    """Return jobs, hours and disk by kind as text; hours are estimates of the plan for the settings' device.

    Args:
        workflow: a study's jobs.
        todo: those that are not done.
        settings: of the study.
        folder: where it is.
        models: number of models that the target is about.
    """
    unit = f"{settings.device} hours" if settings.gpus_per_node else "CPU-job hours"
    lines = [f"{workflow.target}: {models} models in {folder}"]
    lines.append(f"{'':26}{'jobs':>7}{'to do':>7}{unit:>15}{'disk, GB':>10}")
    rows = [(kind.title, workflow.of_kind(kind.name), [job for job in todo if job.kind is kind])
            for kind in workflow.kinds]  # fmt: skip
    for title, jobs, mine in (*rows, ("all", list(workflow.jobs.values()), list(todo))):
        # Hours of jobs without a GPU count only where there are none.
        hours = sum(job.gpu_hours for job in mine if job.gpus or not settings.gpus_per_node)
        disk = sum(job.disk_bytes for job in mine) / 1e9
        lines.append(f"{title:26}{len(jobs):>7,}{len(mine):>7,}{hours:>15,.1f}{disk:>10,.1f}")
    parts = [job for job in todo if job.parts > 1]
    if parts:
        most = max(parts, key=lambda job: job.parts)
        lines.append(
            f"{len(parts)} jobs outlast the limit of {settings.limit_hours:g} h and resume in the next: "
            f"{most.name} takes {most.hours:.0f} h in {most.parts} parts"
        )
    if settings.gpus_per_node:
        lines.append(
            f"hours are estimates for stages on {settings.nodes} x {settings.gpus_per_node} {settings.device} at "
            f"{settings.mfu:.0%} of their peak rate; --settings FILE says what your site has"
        )
    return "\n".join(lines) + "\n"
