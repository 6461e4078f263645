"""What a workflow would do: jobs by kind, hours, disk; printed before anything is submitted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from workflow.jobs import Job, Workflow
from workflow.settings import Settings

__all__ = ["summary"]

_TITLES = {
    "data": "datasets, made up",
    "shards": "shards",
    "stage": "trunks and stages",
    "model": "decays and exports",
    "cell": "cells of fine-tunings",
    "analysis": "tables, claims, figures",
}


def summary(workflow: Workflow, todo: Sequence[Job], settings: Settings, folder: Path) -> str:
    """Return jobs, hours and disk by kind as text; hours are estimates of the plan for the settings' device."""
    unit = f"{settings.device} hours" if settings.gpus_per_node else "CPU-job hours"
    lines = [f"{workflow.target}: {len(workflow.models)} models in {folder}"]
    lines.append(f"{'':26}{'jobs':>7}{'to do':>7}{unit:>15}{'disk, GB':>10}")
    total_hours, total_disk = 0.0, 0.0
    for kind, title in _TITLES.items():
        jobs = workflow.of_kind(kind)
        if not jobs:
            continue
        mine = [job for job in todo if job.kind == kind]
        gpu = [job for job in mine if job.gpus or not settings.gpus_per_node]
        hours, disk = sum(job.gpu_hours for job in gpu), sum(job.disk_bytes for job in mine) / 1e9
        total_hours, total_disk = total_hours + hours, total_disk + disk
        lines.append(f"{title:26}{len(jobs):>7,}{len(mine):>7,}{hours:>15,.1f}{disk:>10,.1f}")
    lines.append(
        f"{'all':26}{len(workflow.jobs):>7,}{len(todo):>7,}{total_hours:>15,.1f}{total_disk:>10,.1f}"
    )
    parts = [job for job in todo if job.parts > 1]
    if parts:
        most = max(parts, key=lambda job: job.parts)
        lines.append(
            f"{len(parts)} jobs outlast the limit of {settings.limit_hours:g} h and go on in the next: "
            f"{most.name} takes {most.hours:.0f} h in {most.parts} parts"
        )
    if settings.gpus_per_node:
        lines.append(
            f"hours are estimates for stages on {settings.nodes} x {settings.gpus_per_node} {settings.device} at "
            f"{settings.mfu:.0%} of their peak rate; --settings FILE says what your site has"
        )
    return "\n".join(lines) + "\n"
