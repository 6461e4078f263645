"""What a job writes down each time that it runs: when, where, by which code and image, what it took, how it ended.

A JSON line in `Job.attempts`, appended as the job ends: it stays true in a copy of the folder and by another
checkout.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import platform
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from common.provenance import git_commit
from common.reading import read_bounded, strict_json
from workflow.jobs import Job, Workflow


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One time that a job ran and was not killed."""

    seconds: float = 0.0
    """Wall time."""
    cpu_seconds: float = 0.0
    """Of its commands."""
    gpus: int = 0
    """All that it held."""
    code: int = 0
    """Exit code."""
    start: str = ""
    """UTC, ISO 8601."""
    end: str = ""
    """The same."""
    node: str = ""
    """Where its commands were started."""
    slurm: str = ""
    """Slurm's number of it."""
    commit: str = "unknown"
    """Of the code that ran: the image's, where there is one."""
    image_sha256: str = ""
    """The image's; empty without one."""


def run_attempt(
    job: Job, workflow: Workflow, folder: Path, work: Callable[[], int]
) -> int:
    """Call `work`, append a line about it, and return its exit code; an error of it counts as a user's mistake, 2."""
    code = 2
    start, began, cpu_before = _now(), time.monotonic(), _cpu_seconds()
    try:
        code = work()
    finally:
        attempt = Attempt(
            seconds=round(time.monotonic() - began, 1),
            cpu_seconds=round(_cpu_seconds() - cpu_before, 2),
            gpus=job.nodes * job.gpus,
            code=code,
            start=start,
            end=_now(),
            node=platform.node(),
            slurm=os.environ.get("SLURM_JOB_ID", ""),
            commit=workflow.image_commit or git_commit(),
            image_sha256=workflow.image_sha256,
        )
        path = folder / job.attempts
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(dataclasses.asdict(attempt)) + "\n")
    return code


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def attempts_in(path: Path) -> Iterator[Attempt]:
    """Yield a job's attempts; a line that a full disk cut short is left out.

    Raises:
        UserError: something else than a file is there.
    """
    try:
        lines = read_bounded(path).splitlines()
    except FileNotFoundError:
        return
    kinds = {name: type(value) for name, value in dataclasses.asdict(Attempt()).items()}
    for line in lines:
        with contextlib.suppress(AttributeError, TypeError, ValueError, OverflowError):
            row = strict_json(line)
            yield Attempt(
                **{name: kind(row[name]) for name, kind in kinds.items() if name in row}
            )
