"""What a job writes down each time that it runs: when, where, by which code and image, what it took, how it ended.

JSON lines in `Job.attempts`, one as the job starts and one with the same start as it ends: they stay true in a copy of
the folder and by another checkout.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from common.files import append_line
from common.provenance import git_commit
from common.reading import read_bounded, strict_json
from workflow.jobs import Job, Workflow

_KILLED = 137
"""Exit code of an attempt that somebody knows to be over."""


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One time that a job ran."""

    seconds: float = 0.0
    """Wall time."""
    gpus: int = 0
    """All that it held."""
    code: int = 0
    """Exit code."""
    start: str = ""
    """UTC, ISO 8601."""
    end: str = ""
    """The same; empty while it runs, and for ever when it was killed."""
    node: str = ""
    """Where its commands were started."""
    slurm: str = ""
    """Number of the Slurm job that it ran in."""
    submitted: bool = False
    """Whether the study submitted that Slurm job."""
    progress: str = ""
    """How far the job was at the start (`progress_of_job`)."""
    commit: str = "unknown"
    """Of the code that ran: the image's, where there is one."""
    image_sha256: str = ""
    """The image's; empty without one."""


def run_attempt(
    job: Job,
    workflow: Workflow,
    folder: Path,
    work: Callable[[], int],
    *,
    submitted: bool = False,
) -> int:
    """Call `work` and return its exit code; an error of it counts as a user's mistake, 2.

    A line is appended before and one after, whatever happens in between short of a kill.
    """
    code = 2
    began = time.monotonic()
    attempt = Attempt(
        gpus=job.nodes * job.gpus,
        start=_now(),
        node=platform.node(),
        slurm=os.environ.get("SLURM_JOB_ID", ""),
        submitted=submitted,
        progress=progress_of_job(job, folder),
        commit=workflow.image_commit or git_commit(),
        image_sha256=workflow.image_sha256,
    )
    _append(job, folder, attempt)
    try:
        code = work()
    finally:
        seconds = round(time.monotonic() - began, 1)
        ended = dataclasses.replace(attempt, end=_now(), code=code, seconds=seconds)
        _append(job, folder, ended)
    return code


def end_attempt(job: Job, folder: Path, attempt: Attempt) -> None:
    """Write down that an attempt without an end was killed."""
    _append(job, folder, dataclasses.replace(attempt, end=_now(), code=_KILLED))


def progress_of_job(job: Job, folder: Path) -> str:
    """Return what changes when a job comes further: its last checkpoint, or how much of what it makes is there."""
    if job.checkpoints:
        steps = [path.parent.name for path in folder.glob(job.checkpoints)]
        return max(steps, default="")
    return str(sum((folder / path).is_file() for path in job.makes))


def tries_without_progress(job: Job, folder: Path, attempts: Sequence[Attempt]) -> int:
    """Return how many of some attempts, from the last one back, began where the job is now."""
    here = progress_of_job(job, folder)
    count = 0
    for attempt in reversed(attempts):
        if attempt.progress != here:
            break
        count += 1
    return count


def _append(job: Job, folder: Path, attempt: Attempt) -> None:
    append_line(folder / job.attempts, json.dumps(dataclasses.asdict(attempt)))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def attempts_in(path: Path) -> list[Attempt]:
    """Return a job's attempts; a line that a full disk cut short is left out.

    Raises:
        UserError: something else than a file is there.
    """
    try:
        lines = read_bounded(path).splitlines()
    except FileNotFoundError:
        return []
    # Each value is converted to its field's type, since the file may hold another.
    kinds = {name: type(value) for name, value in vars(Attempt()).items()}
    attempts: dict[tuple[str, str, str], Attempt] = {}
    for line in lines:
        with contextlib.suppress(AttributeError, TypeError, ValueError, OverflowError):
            row = strict_json(line)
            known = row.keys() & kinds.keys()
            attempt = Attempt(**{name: kinds[name](row[name]) for name in known})
            # The row of an attempt's end replaces the row of its start.
            attempts[attempt.start, attempt.node, attempt.slurm] = attempt
    return list(attempts.values())
