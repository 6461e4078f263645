"""The record of each time that a job ran: when, where, with which code and image, for how long, and how it ended.

An attempt is one run of a job. The file `Job.attempts` has two JSON lines for each: one is written as the attempt
starts, and one as it ends, which repeats the first with the end filled in. They hold no paths, so that they stay true
in a copy of the folder and for another checkout.
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
"""Exit code that is written for an attempt that ended without writing its end: 128 and SIGKILL's number."""


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One time that a job ran."""

    seconds: float = 0.0
    """Wall time."""
    gpus: int = 0
    """GPUs of all nodes that it had."""
    code: int = 0
    """Exit code; 0 as long as it has no end."""
    start: str = ""
    """When it started: UTC, ISO 8601."""
    end: str = ""
    """When it ended; empty while it runs, and after it was killed."""
    node: str = ""
    """The node that its commands were started on."""
    slurm: str = ""
    """Number of the Slurm job that it ran in; empty outside Slurm."""
    submitted: bool = False
    """Whether the study submitted that Slurm job."""
    progress: str = ""
    """How far the job was at the start (`progress_of_job`)."""
    commit: str = "unknown"
    """Commit of the code that ran: the image's, where there is one."""
    image_sha256: str = ""
    """SHA-256 of the image; empty without one."""


def run_attempt(
    job: Job,
    workflow: Workflow,
    folder: Path,
    work: Callable[[], int],
    *,
    submitted: bool = False,
) -> int:
    """Call `work`, which runs the job's commands, and return its exit code.

    A line is appended to the job's attempts before, and one after, unless this process is killed meanwhile.

    Args:
        job: the job.
        workflow: has the image.
        folder: where the job works.
        work: returns an exit code.
        submitted: whether the study submitted the Slurm job that this runs in.
    """
    # Written where `work` raises an error instead of returning a code: the code of a user's mistake.
    code = 2
    began = time.monotonic()
    attempt = Attempt(
        gpus=job.nodes * job.gpus,
        start=_now(),
        node=platform.node(),
        slurm=os.environ.get("SLURM_JOB_ID", ""),
        submitted=submitted,
        progress=progress_of_job(job, folder),
        # Without an image, or where nobody could ask the image for its commit, `image_commit` is empty.
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
    """Return a text that changes when a job comes further: its last checkpoint, or how many of its files are there."""
    if job.checkpoints:
        # Checkpoints are folders such as step-00001000: by their zeros the greatest name is the last step.
        steps = [path.parent.name for path in folder.glob(job.checkpoints)]
        return max(steps, default="")
    return str(sum((folder / path).is_file() for path in job.makes))


def tries_without_progress(job: Job, folder: Path, attempts: Sequence[Attempt]) -> int:
    """Return how many attempts in a row, the last ones, began where the job is now, and so came no further.

    Args:
        job: the job.
        folder: where the job works.
        attempts: the attempts to count, in the order of their starts.
    """
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
    """Return the attempts of a job in the order of their starts; a line that a full disk cut short is left out.

    Args:
        path: the file `Job.attempts` of the job; without one there are no attempts.

    Raises:
        UserError: something else than a file is there.
    """
    try:
        lines = read_bounded(path).splitlines()
    except FileNotFoundError:
        return []

    # Each value is converted to the type of its field's default, since the file may hold another type.
    types = {name: type(value) for name, value in vars(Attempt()).items()}
    # In the order of the starts: an entry that is replaced below keeps its place.
    attempts: dict[tuple[str, str, str], Attempt] = {}
    for line in lines:
        # A damaged line is none: not JSON, no object, or a value that its field's type does not take.
        with contextlib.suppress(AttributeError, TypeError, ValueError, OverflowError):
            row = strict_json(line)
            # Names that another version of this package wrote may be missing here, or unknown.
            known = row.keys() & types.keys()
            attempt = Attempt(**{name: types[name](row[name]) for name in known})
            # The line of an attempt's end replaces the line of its start, which has the same three values.
            attempts[attempt.start, attempt.node, attempt.slurm] = attempt

    return list(attempts.values())
