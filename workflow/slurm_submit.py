"""Submits a study's jobs to Slurm, each to start after the jobs that it needs; then Slurm runs the study by itself.

Where Slurm's queue has no room for all of them, one more job of one core, the submitting job, submits the others as
places become free: `python -m workflow.slurm_submit`, in the study's folder. Jobs are named by their markers,
`done/<kind>/<name>.json`.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from common.cli import run
from common.errors import UserError
from common.files import share_with_group, write_text
from common.locks import try_lease
from common.provenance import ROOT
from container.machine import Machine
from workflow.jobs import JOB_KINDS, LEASE, Job, Workflow, load_workflow
from workflow.slurm_queue import SUBMITS, Queue, SlurmJob, make_id, read_queue
from workflow.slurm_request import no_room, request_of, sbatch_words
from workflow.step import requeue, seconds_left

log = logging.getLogger(__name__)

_LEFT = "slurm.left"
"""File with the markers of jobs that wait for a place in Slurm's queue, one a line."""

_SECONDS = float(os.environ.get("CLM_OR_MLM_SUBMIT_SECONDS", "30"))
"""Seconds that the submitting job waits between two tries to submit more jobs."""

_FAILURES = 120
"""Tries in a row that may fail, which take an hour: a busy controller answers again, a wrong account stays wrong."""

_HERE = SlurmJob(number="", state="RUNNING", comment=SUBMITS)
"""The submitting job itself, for where Slurm's queue does not show it."""


class _NoRoomError(Exception):
    """Slurm takes no more jobs of this user now; the message is Slurm's."""


@dataclass(frozen=True, kw_only=True)
class Submission:
    """The result of a submission."""

    numbers: Mapping[str, str]
    """Slurm's numbers of the jobs that were submitted, by marker."""
    left: Sequence[str]
    """Markers of jobs that wait for a place in the queue."""


def submit(
    workflow: Workflow, folder: Path, todo: Sequence[str], queue: Queue
) -> Submission:
    """Submit jobs that are neither queued nor running, in order, each to start after the jobs that it needs.

    The submitting job is submitted first, and held, so that it has a place in the queue. At the end it is released if
    jobs are left for it, else cancelled.

    Args:
        workflow: the study's jobs.
        folder: where the jobs work.
        todo: markers of jobs that are not done, each after those that it needs.
        queue: the jobs of the study that Slurm's queue shows.

    Raises:
        UserError: Slurm does not take a job; or it has no place for any job, or for none beside the submitting job.
    """
    # Slurm's numbers of the jobs that are in its queue, by marker; each submission below adds one.
    numbers = {marker: job.number for marker, job in queue.live.items()}
    waiting = [marker for marker in todo if marker not in numbers]
    # At least two jobs at a time, since the submitting job takes a place itself.
    places = max(workflow.max_jobs, 2) - len(queue.jobs)

    # First the submitting job, unless one is in the queue. It is held there if an earlier call was killed before it
    # released the job. `held` is its number; empty where none is held. A single waiting job is submitted without it: if
    # there is no place for the job, the user is told to repeat the command.
    held = ""
    if queue.submitter is None and len(waiting) > 1:
        try:
            held = _sbatch(workflow, folder, _submitter(workflow), "--hold")
        except _NoRoomError as error:
            raise _no_place(str(error)) from None
        places -= 1
    elif queue.submitter is not None and queue.submitter.reason == "JobHeldUser":
        held = queue.submitter.number

    # Then as many jobs as there are places for. `limit` says what keeps the others out.
    limit = f"max_jobs is {workflow.max_jobs}"
    while waiting and places > 0:
        job = workflow.jobs[waiting[0]]
        missing = [
            need for need in job.needs if not workflow.jobs[need].is_complete(folder)
        ]

        # Needed jobs are submitted first, so one that is neither complete nor in the queue has failed.
        are_queued = numbers.keys() >= set(missing)
        if not are_queued:
            log.warning("%s is not submitted: what it needs has failed", job.marker)
            waiting.pop(0)
            continue

        options = []
        if missing:
            # `afterok`: Slurm starts the job once all these have ended with code 0.
            after = ":".join(numbers[need] for need in missing)
            options.append(f"--dependency=afterok:{after}")

        try:
            numbers[job.marker] = _sbatch(workflow, folder, job, *options)
        except _NoRoomError as error:
            limit = str(error)
            break

        waiting.pop(0)
        places -= 1

    # Last, jobs without a place are left to the submitting job. Where the queue has no submitting job, no job may be
    # left: nothing would submit it.
    if waiting and not held and queue.submitter is None:
        write_left(folder, ())
        raise _no_place(limit)

    # The submitting job took the only place, and no job of the study is in the queue, so it could never submit another.
    if held and waiting and not numbers:
        write_left(folder, ())
        _tell_slurm("scancel", held)
        advice = (
            "run the study as one job with --profile local (docs/hpc.md), or repeat the command when others of yours "
            "have ended"
        )
        raise UserError(f"Slurm takes one job of yours at a time ({limit}); {advice}")

    write_left(folder, waiting)
    if held and waiting:
        # `?` joins alternatives: the submitting job begins as soon as any of these jobs has ended.
        after = "?".join(f"afterany:{number}" for number in numbers.values())
        _tell_slurm("scontrol", "update", f"JobId={held}", f"Dependency={after}")
        _tell_slurm("scontrol", "release", held)
    elif held:
        _tell_slurm("scancel", held)

    new = {
        marker: number for marker, number in numbers.items() if marker not in queue.live
    }
    return Submission(numbers=new, left=waiting)


def _submitter(workflow: Workflow) -> Job:
    """Return the submitting job: one core, for as long as the site allows."""
    # The site's limits are read from the study's other jobs without GPUs. Where there are none, the defaults of `Job`
    # stand for them: 20 hours and 2 GB.
    small = [job for job in workflow.jobs.values() if job.queue == "cpu"]
    hours = max((job.limit_hours for job in small), default=20.0)
    # At most 2 GB; 0 where the site refuses --mem, and so all jobs have 0.
    memory_gb = min((min(2.0, job.memory_gb) for job in small), default=2.0)
    # Its kind says only where its log is. It asks for as many hours as the limit allows.
    kind = JOB_KINDS["analysis"]
    return Job(
        kind=kind, name=SUBMITS, limit_hours=hours, gpu_hours=hours, memory_gb=memory_gb
    )


def _sbatch(workflow: Workflow, folder: Path, job: Job, *options: str) -> str:
    """Submit a job and return Slurm's number of it.

    Args:
        workflow: the study's jobs, with what Slurm is asked for them.
        folder: where the job works.
        job: the job; the submitting job is known by its name, `SUBMITS`.
        options: more options of sbatch.

    Raises:
        _NoRoomError: Slurm takes no more jobs of this user now.
        UserError: Slurm does not take this job, or sbatch prints no number.
    """
    # What the Slurm job runs. It finds this package by PYTHONPATH; it is called in the study's folder. Packages that
    # the user has installed at home must not take the place of this environment's: PYTHONNOUSERSITE.
    comment = job.marker
    module = f"workflow.step {shlex.quote(job.marker)}"
    if job.name == SUBMITS:
        comment = SUBMITS
        module = "workflow.slurm_submit"

    script = (
        f"#!/bin/bash\nexport PYTHONPATH={shlex.quote(str(ROOT))} PYTHONNOUSERSITE=1\n"
        f"exec {shlex.quote(sys.executable)} -m {module}\n"
    )

    # The options of sbatch.
    output = folder / job.slurm_log
    output.parent.mkdir(parents=True, exist_ok=True)

    # Slurm replaces %j and the like in a path; %% stays a percent sign.
    escaped = str(output).replace("%", "%%")
    # `--requeue` allows to put the job back into the queue. Without `--kill-on-invalid-dep`, a job that waits for a
    # failed job would stay in the queue for ever.
    command = ["sbatch", "--parsable", "--requeue", "--kill-on-invalid-dep=yes"]
    command += [f"--job-name={make_id(folder)}", f"--comment={comment}"]

    # A job that was put back into the queue continues its log.
    command += [f"--chdir={folder}", f"--output={escaped}", "--open-mode=append"]
    command += [*options, *sbatch_words(request_of(workflow, job))]

    # Submit the job. If it is submitted from a Slurm job, it must not get the Slurm variables of that job's allocation.
    # SLURM_CONF belongs to the cluster: it names the file of its configuration.
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("SLURM_") or name == "SLURM_CONF"
    }
    answer = subprocess.run(
        command, input=script, env=environ, capture_output=True, text=True
    )
    if answer.returncode:
        why = answer.stderr.strip().replace("\n", "; ")
        why = why or f"sbatch exits with {answer.returncode}"
        if no_room(why):
            # The first line of Slurm's answer names the limit.
            raise _NoRoomError(why.partition(";")[0].removeprefix("sbatch: error: "))

        raise UserError(
            f"Slurm does not take {comment}: {why}; what was submitted stays in the queue"
        )

    # The job's number. sbatch prints `4711`, or with the cluster's name `4711;name`. Lines that a site prints may begin
    # with a number as well, so a line of only the job's number is sought first. The last such line counts.
    for pattern in (r"^(\d+)(?:;\S*)?$", r"^(\d+)"):
        numbers = re.findall(pattern, answer.stdout, re.MULTILINE)
        if numbers:
            return str(numbers[-1])

    raise UserError(
        f"sbatch names no number for {comment}; repeat the command, which finds the job by its name"
    )


def _tell_slurm(*words: str) -> None:
    """Run a command that changes a job in Slurm's queue.

    Raises:
        UserError: the command fails.
    """
    code, text = Machine().output(words)
    if code:
        why = text.replace("\n", "; ") or f"exit code {code}"
        raise UserError(f"{shlex.join(words)}: {why}; repeat the study's command")


def _no_place(why: str) -> UserError:
    advice = "repeat the command when some have ended"
    return UserError(f"Slurm takes no more jobs of yours now ({why}); {advice}")


def read_left(folder: Path) -> list[str]:
    """Return the markers of jobs that wait for a place in Slurm's queue."""
    path = folder / _LEFT
    return path.read_text("utf-8").splitlines() if path.is_file() else []


def write_left(folder: Path, markers: Sequence[str]) -> None:
    """Write down which jobs wait for a place in Slurm's queue."""
    if markers:
        write_text(folder / _LEFT, "".join(f"{marker}\n" for marker in markers))
    else:
        (folder / _LEFT).unlink(missing_ok=True)


def main(argv: Sequence[str]) -> int:
    """Submit the jobs that wait for a place in Slurm's queue, as places become free; run by the submitting job.

    The study's folder is the current one.
    """
    folder = Path.cwd()
    started = time.monotonic()
    # Another user of the folder's group may go on with the study: what this process and its children make gets the
    # group's permissions.
    share_with_group(folder)
    # Tries in a row that failed.
    failures = 0
    while read_left(folder):
        try:
            # While another call works in the folder (`holder` names it), nothing is submitted from here. That does not
            # count as a failure, and ends a row of failures: the next try comes later.
            with try_lease(folder / LEASE) as holder:
                if holder is None:
                    _submit_left(folder)
            failures = 0
        except UserError as error:
            failures += 1
            if failures == _FAILURES:
                raise
            log.warning("%s", error)

        # Near its own time limit the submitting job goes back into the queue, and starts again with its whole time. If
        # Slurm does not take it back, `requeue` returns, and the job goes on until Slurm ends it.
        if seconds_left(_submitter(load_workflow(folder)), started, os.environ) <= 0:
            requeue(os.environ["SLURM_JOB_ID"])
        # Where nothing is left any more, the loop ends without a wait.
        time.sleep(_SECONDS if read_left(folder) else 0)

    return 0


def _submit_left(folder: Path) -> None:
    """Submit as many of the jobs that wait as there are places for now.

    Raises:
        UserError: Slurm does not answer, or does not take a job.
    """
    workflow = load_workflow(folder)
    queue = read_queue(workflow.jobs, folder)
    todo = []
    for marker in read_left(folder):
        job = workflow.jobs.get(marker)
        # A job stays in the list when Slurm's answer to its submission came too late, though it may have run by now.
        # A marker that is not one of the workflow's jobs is left out as well.
        if job is not None and not job.is_complete(folder):
            todo.append(marker)
    # With a submitter in the queue, `submit` does not submit another. This process is the submitter, also where Slurm's
    # answer lacks it: then `_HERE` stands for it.
    queue = replace(queue, submitter=queue.submitter or _HERE)
    submit(workflow, folder, todo, queue)


if __name__ == "__main__":
    run(main)
