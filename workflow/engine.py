"""Runs the jobs of a workflow that are not done yet, here or on Slurm; the same call resumes a study that has stopped.

A call holds a lease on the study's folder, which keeps a second call out on every node. With the profile `local` it
runs the jobs on this machine, one after the other; with `slurm` it submits them (`workflow.slurm_submit`) and ends.

A job's marker, `done/<kind>/<name>.json`, says that the job is done. Markers follow the files on disk, never the other
way round: `reconcile` first removes the markers of jobs whose files are gone and writes those of jobs whose files are
complete. So a deleted run is done again, and nothing else is; and files that were copied here count as made.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Literal

from common.errors import UserError
from common.files import share_with_group
from common.locks import end_holder, holder_of, try_lease
from common.processes import on_stop_signal
from container.machine import Machine
from workflow.attempts import end_attempt
from workflow.jobs import (
    LEASE,
    Job,
    Workflow,
    load_workflow,
    refuse_other_settings,
    save,
    write_marker,
)
from workflow.slurm_queue import (
    Queue,
    read_queue,
    refuse_start,
    study_id,
    unseen_attempts,
)
from workflow.slurm_submit import Submission, submit, write_left
from workflow.step import NO_TIME, STOPPED, run_job

log = logging.getLogger(__name__)

_ENDING_SECONDS = 90
"""How long Slurm may take to end a job: 30 seconds to its kill (KillWait), then its node's own commands."""

_CALL_SECONDS = 120
"""How long a call that works in the folder may take to end."""

Profile = Literal["local", "slurm"]
"""Where jobs run."""


def run_workflow(
    workflow: Workflow,
    folder: Path,
    *,
    profile: Profile = "local",
    announce: Callable[[list[Job], Queue], None] = lambda *_: None,
    dry_run: bool = False,
    retry_failed: bool = False,
) -> Submission | bool:
    """Run the jobs of a workflow that are not done, or submit them to Slurm.

    Args:
        workflow: the jobs.
        folder: where the jobs work and leave their files.
        profile: where jobs run.
        announce: called with the jobs to do and with Slurm's queue, before any job starts.
        dry_run: stop after `announce`, and change nothing.
        retry_failed: also repeat runs that are recorded as failed.

    Returns:
        With the profile `slurm`, what was submitted, or True where no job is left. With `local`, whether all jobs are
        done. True of a dry run.

    Raises:
        UserError: another call works in the folder, files there were made from other settings, the folder cannot be
            written any more, Slurm does not answer, or jobs of the study may run on Slurm already.
    """
    # A dry run changes nothing, so it takes no lease and does not ask Slurm.
    if dry_run:
        refuse_other_settings(workflow, folder)
        announce(
            reconcile(workflow, folder, change=False, retry_failed=retry_failed),
            Queue(),
        )
        return True

    folder.mkdir(parents=True, exist_ok=True)
    # Where the folder's group may write, it may also write what this process and the jobs that it starts make, so that
    # another user of the group can go on with the study.
    share_with_group(folder)
    # `holder` is None where this call now holds the lease.
    with try_lease(folder / LEASE, _stop) as holder:
        if holder is not None:
            raise UserError(
                f"another process is using {folder} ({holder}); wait for it or choose another folder"
            )

        # May the study go on here?
        queue = _settled_queue(workflow, folder)
        # Before anything is changed, jobs that may still run are ruled out: a second job would repeat their work.
        refuse_start(workflow.jobs, folder, queue)
        if profile == "local" and queue.jobs:
            numbers = " ".join(job.number for job in queue.jobs)
            raise UserError(
                f"Slurm jobs of this study are queued or running ({numbers}); wait for them or cancel them"
            )

        refuse_other_settings(workflow, folder, queue.live)

        # What is to be done?
        # The jobs are saved before any other file: from them the next call knows which files are the study's.
        save(workflow, folder)
        todo = reconcile(workflow, folder, retry_failed=retry_failed, live=queue.live)
        announce(todo, queue)
        for marker, job in workflow.jobs.items():
            # A job that a user's mistake ended is tried again by each new call, so that the record of the mistake is
            # removed before any job starts. A job that is live may be writing this record now.
            if marker not in queue.live:
                (folder / job.refused).unlink(missing_ok=True)

        # Do it.
        if profile == "local":
            return _run_here(workflow, folder, todo)
        if not todo:
            return True
        return submit(workflow, folder, [job.marker for job in todo], queue)


def _settled_queue(workflow: Workflow, folder: Path) -> Queue:
    """Return Slurm's queue of a study, after waiting for jobs that are just ending.

    How such a job ends decides what is left to do.
    """
    deadline = time.monotonic() + _ENDING_SECONDS
    while True:
        queue = read_queue(workflow.jobs, folder)
        ending = [job.number for job in queue.jobs if job.state == "COMPLETING"]
        if not ending or time.monotonic() > deadline:
            return queue
        log.info("waiting for Slurm jobs that are ending: %s", " ".join(ending))
        time.sleep(5)


def _stop() -> None:
    """End this process: another process took its lease, since this one had not responded for a while."""
    log.error("another process took over the study's folder, so this one is stopping")
    os.kill(os.getpid(), signal.SIGTERM)


def reconcile(
    workflow: Workflow,
    folder: Path,
    *,
    change: bool = True,
    retry_failed: bool = False,
    live: Collection[str] = (),
) -> list[Job]:
    """Make the markers agree with the files on disk; return the jobs to do, each after those that it needs.

    A study is for its models and its tables. Another job is to be done only if one of these still waits for it: a
    pretraining stage that was deleted to save space is not trained again once the models that continue it exist.

    Args:
        workflow: the jobs.
        folder: where the jobs work.
        change: whether files may be changed; False only tells what is to be done.
        retry_failed: whether runs that are recorded as failed count as missing; their records are removed.
        live: markers of jobs that are queued or running on Slurm; records of their failed runs are left alone, since
            these jobs may be writing them.
    """
    jobs = workflow.jobs
    # By marker, whether a job's files are all there. A failed run counts as there, unless it is to be repeated.
    complete: dict[str, bool] = {}
    for marker, job in jobs.items():
        failures: list[Path] = []
        if retry_failed and marker not in live:
            failures = job.failures(folder)
        if change:
            for path in failures:
                path.unlink()
        complete[marker] = not failures and job.is_complete(folder)

    # A complete job gets its marker: files that were copied here have none. Tables get none here, since the time of
    # their marker says whether they are newer than the cells.
    for marker, job in jobs.items():
        is_marked = (folder / marker).is_file()
        if complete[marker] and change and not is_marked and not job.kind.follows:
            log.info("%s %s: already complete", job.kind.name, job.name)
            write_marker(job, folder)

    # Tables are made again if they are older than one of the cells, or if a cell is not complete.
    for marker, job in jobs.items():
        if job.kind.follows and complete[marker]:
            are_complete = all(complete[need] for need in job.needs)
            complete[marker] = are_complete and _is_newest(job, folder)

    # A job that is not complete loses its marker. It is to be done if the study is for it, or such a job waits for it.
    wanted = _wanted(workflow, complete)
    todo: list[Job] = []
    for marker, job in jobs.items():
        if complete[marker]:
            continue
        path = folder / marker
        if change and path.is_file():
            log.info(
                "%s %s: its output is missing or it failed; running it again",
                job.kind.name,
                job.name,
            )
            path.unlink()

        if marker in wanted:
            todo.append(job)

    return todo


def _is_newest(job: Job, folder: Path) -> bool:
    """Return whether a job's marker is there and was written after those of the jobs that it needs."""
    try:
        written = (folder / job.marker).stat().st_mtime_ns
        times = [(folder / need).stat().st_mtime_ns for need in job.needs]
        return all(time_ns <= written for time_ns in times)
    except FileNotFoundError:
        return False


def _wanted(workflow: Workflow, complete: Mapping[str, bool]) -> set[str]:
    """Return the markers of the jobs that a study is for, and of all jobs that one of these still waits for.

    Args:
        workflow: the jobs.
        complete: whether each job is complete, by marker.
    """
    wanted = {marker for marker, job in workflow.jobs.items() if job.kind.goal}
    # In the workflow a job stands after the jobs that it needs. In reverse, it is known whether a job is wanted before
    # the jobs that it needs are looked at.
    for marker, job in reversed(workflow.jobs.items()):
        # A complete model waits for nothing any more. Tables (`follows`) need every cell even when they are complete: a
        # cell that is made again changes them.
        still_needs = job.kind.follows or not complete[marker]
        if marker in wanted and still_needs:
            wanted.update(job.needs)
    return wanted


def _run_here(workflow: Workflow, folder: Path, todo: list[Job]) -> bool:
    """Run jobs one after the other from this process; return whether all are done.

    A signal to save and stop ends this process with the exit code `STOPPED`, after the running job has stopped.

    Raises:
        UserError: nothing can be written to the folder any more.
    """
    # Markers of jobs that failed, or were not started because a job that they need has failed.
    failed: set[str] = set()
    received: list[signal.Signals] = []
    with on_stop_signal(received.append):
        for number, job in enumerate(todo, 1):
            what = f"{job.kind.name} {job.name}"
            if failed.intersection(job.needs):
                log.warning("%s: not started, because what it needs has failed", what)
                failed.add(job.marker)
                continue

            log.info("%s (%d of %d)", what, number, len(todo))
            # After a signal between two jobs, the next one is not started.
            code = STOPPED if received else run_job(job, workflow, folder)
            if code == 0:
                continue
            if code == STOPPED:
                sys.stderr.write("stopped; rerun the command to resume\n")
                sys.exit(STOPPED)

            # On a full disk every other job would fail as well, so the call ends with a sentence.
            problem = Machine().write_problem(folder)
            if problem:
                raise UserError(
                    f"cannot write to {folder}: {problem}; free some space, then rerun the command to finish"
                )

            failed.add(job.marker)
            # The allocation ends soon: there is no time for the other jobs either.
            if code == NO_TIME:
                break

    return not failed


def cancel(folder: Path) -> list[str]:
    """End the call that works in a folder, and the study's Slurm jobs; return the numbers of these jobs.

    A job that has written its start but no end, and that Slurm's queue does not show, may still run. It is ended as
    well, and its end is written down.

    Raises:
        UserError: the call is on another machine or has not ended after two minutes, or Slurm does not answer or does
            not end them.
    """
    deadline = time.monotonic() + _CALL_SECONDS
    # The call ends first, since it would submit or start further jobs.
    while True:
        holder = holder_of(folder / LEASE)
        if not holder:
            break

        # A call on another machine, or of another user, cannot be asked to end from here.
        is_asked = end_holder(folder / LEASE)
        if not is_asked or time.monotonic() > deadline:
            advice = (
                "run this command on that host as its user, or end its job (scancel)"
            )
            raise UserError(f"{holder} is using {folder}; {advice}")

        time.sleep(0.5)

    if not study_id(folder):  # nothing was ever submitted to Slurm
        return []
    workflow = load_workflow(folder)

    # The job that submits what Slurm had no room for must not submit more.
    write_left(folder, ())
    queue = read_queue(workflow.jobs, folder)
    unseen = unseen_attempts(workflow.jobs, folder, queue)
    numbers = [job.number for job in queue.jobs]
    numbers += [attempt.slurm for _, attempt in unseen]
    if numbers:
        code, text = Machine().output(["scancel", *numbers])
        # scancel also fails for a job that has ended meanwhile, so the queue decides.
        if code and read_queue(workflow.jobs, folder).jobs:
            why = text.partition("\n")[0]
            raise UserError(f"scancel: {why}; repeat the command, or ask their user")

    for job, attempt in unseen:
        end_attempt(job, folder, attempt)
    return numbers
