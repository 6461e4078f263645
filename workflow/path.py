"""The longest chain of jobs that wait for each other: no number of nodes makes a study end sooner."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from workflow.jobs import Job

__all__ = ["critical_hours", "critical_path"]


def critical_path(jobs: Iterable[Job], hours: Mapping[str, float]) -> list[Job]:
    """Return the jobs of the longest chain, first to last; none for no jobs.

    Args:
        jobs: jobs, each after those it waits for; needs among other jobs count as done.
        hours: how long each takes, by marker.
    """
    ends: dict[str, float] = {}
    before: dict[str, str | None] = {}
    by_marker = {job.marker: job for job in jobs}
    for marker, job in by_marker.items():
        last = max((need for need in job.needs if need in ends), key=ends.__getitem__, default=None)
        before[marker] = last
        ends[marker] = hours[marker] + (ends[last] if last is not None else 0.0)
    chain: list[Job] = []
    marker_: str | None = max(ends, key=ends.__getitem__, default=None)
    while marker_ is not None:
        chain.append(by_marker[marker_])
        marker_ = before[marker_]
    return chain[::-1]


def critical_hours(jobs: Iterable[Job], hours: Mapping[str, float]) -> float:
    """Return the hours of the longest chain."""
    return sum(hours[job.marker] for job in critical_path(list(jobs), hours))
