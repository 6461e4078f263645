"""Does what is missing of a workflow, here or on Slurm; the same call resumes where one stopped.

A call holds a lease on the folder, which keeps a second one out on every node. On this machine it does the jobs one
after the other; to Slurm it submits them (`workflow.slurm_submit`), and ends.

Markers (`done/<kind>/<name>.json`) follow what is on disk, never the other way round: `reconcile` first removes those
whose artefact is gone and writes those whose artefact is complete, so that a deleted run is done again and nothing else
is, and a store that was copied here counts.
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
    """Do what is missing of a workflow.

    Args:
        workflow: the jobs.
        folder: where the jobs work and leave their files.
        profile: where jobs run.
        announce: called with the jobs to do and those on Slurm, before any starts.
        dry_run: stop after `announce`.
        retry_failed: do runs again that are recorded as failed.

    Returns:
        Whether all of it is done; on Slurm, while something is left, what was submitted.

    Raises:
        UserError: another call works in the folder, what is done there was made from other settings, it cannot be
            written any more, Slurm does not answer, or jobs of the study may run there already.
    """
    if dry_run:
        refuse_other_settings(workflow, folder)
        announce(
            reconcile(workflow, folder, change=False, retry_failed=retry_failed),
            Queue(),
        )
        return True
    folder.mkdir(parents=True, exist_ok=True)
    share_with_group(folder)
    with try_lease(folder / LEASE, _stop) as holder:
        if holder is not None:
            raise UserError(
                f"another process is using {folder} ({holder}); wait for it or choose another folder"
            )
        queue = _settled_queue(workflow, folder)
        # Before anything is changed: a second job would repeat what the first one does.
        refuse_start(workflow.jobs, folder, queue)
        if profile == "local" and queue.jobs:
            numbers = " ".join(job.number for job in queue.jobs)
            raise UserError(
                f"Slurm jobs of this study are queued or running ({numbers}); wait for them or cancel them"
            )
        refuse_other_settings(workflow, folder, queue.live)
        # The jobs are saved before any other file: from them the next call knows which files are the study's.
        save(workflow, folder)
        todo = reconcile(workflow, folder, retry_failed=retry_failed, live=queue.live)
        announce(todo, queue)
        for marker, job in workflow.jobs.items():
            if marker not in queue.live:
                # A job that a user's mistake ended is tried again by each new call.
                (folder / job.refused).unlink(missing_ok=True)
        if profile == "local":
            return _run_here(workflow, folder, todo)
        if not todo:
            return True
        return submit(workflow, folder, [job.marker for job in todo], queue)


def _settled_queue(workflow: Workflow, folder: Path) -> Queue:
    """Return what Slurm knows of a study once none of its jobs is ending: how a job ends decides what is left to do."""
    deadline = time.monotonic() + _ENDING_SECONDS
    while True:
        queue = read_queue(workflow.jobs, folder)
        ending = [job.number for job in queue.jobs if job.state == "COMPLETING"]
        if not ending or time.monotonic() > deadline:
            return queue
        log.info("waiting for Slurm jobs that are ending: %s", " ".join(ending))
        time.sleep(5)


def _stop() -> None:
    """End this process, whose lease another one took while it did not respond."""
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
    """Make the markers say what is on disk; return the jobs to do.

    Tables and models are what a study is for. A stage is needless when everything that would leave from it exists
    already: deleting old trunks to save space must not train them again.

    Args:
        workflow: the jobs.
        folder: where the jobs work.
        change: whether markers may be changed.
        retry_failed: whether runs that are recorded as failed count as missing; their records are removed.
        live: markers of jobs that are at work, whose files are left alone.
    """
    jobs = workflow.jobs
    complete: dict[str, bool] = {}
    for marker, job in jobs.items():
        failures: list[Path] = []
        if retry_failed and marker not in live:
            failures = job.failures(folder)
        if change:
            for path in failures:
                path.unlink()
        complete[marker] = not failures and job.is_complete(folder)

    # A complete job gets its marker: a store that was copied here has none.
    for marker, job in jobs.items():
        is_marked = (folder / marker).is_file()
        if complete[marker] and change and not is_marked and not job.kind.follows:
            log.info("%s %s: already complete", job.kind.name, job.name)
            write_marker(job, folder)

    # Tables follow from cells: tables older than a cell, or of cells that are not complete, are made again.
    for marker, job in jobs.items():
        if job.kind.follows and complete[marker]:
            are_complete = all(complete[need] for need in job.needs)
            complete[marker] = are_complete and _is_newest(job, folder)

    # A job that is not complete loses its marker, and is to be done if something waits for it.
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
        own = (folder / job.marker).stat().st_mtime_ns
        return all((folder / need).stat().st_mtime_ns <= own for need in job.needs)
    except FileNotFoundError:
        return False


def _wanted(workflow: Workflow, complete: Mapping[str, bool]) -> set[str]:
    """Return the markers of the jobs that a study is for, and of all that one of them waits for."""
    wanted = {marker for marker, job in workflow.jobs.items() if job.kind.goal}
    # In the workflow a job stands after those that it needs, so in reverse each is judged before its needs.
    for marker, job in reversed(workflow.jobs.items()):
        if marker in wanted and (job.kind.follows or not complete[marker]):
            # Tables need all cells, even if they are complete themselves: a missing cell changes them.
            wanted.update(job.needs)
    return wanted


def _run_here(workflow: Workflow, folder: Path, todo: list[Job]) -> bool:
    """Do jobs one after the other in this process; return whether all are done.

    Raises:
        UserError: nothing can be written any more.
    """
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
            code = STOPPED if received else run_job(job, workflow, folder)
            if code == 0:
                continue
            if code == STOPPED:
                sys.stderr.write("stopped; rerun the command to resume\n")
                sys.exit(STOPPED)
            # On a full disk every other job would fail as well.
            problem = Machine().write_problem(folder)
            if problem:
                raise UserError(
                    f"cannot write to {folder}: {problem}; free some space, then rerun the command to finish"
                )
            failed.add(job.marker)
            if code == NO_TIME:
                break
    return not failed


def cancel(folder: Path) -> list[str]:
    """End the call that works in a folder and the study's Slurm jobs; return their numbers.

    Jobs that have no end on disk and that Slurm does not show are ended as well, and count as ended afterwards.

    Raises:
        UserError: the call is on another machine or has not ended after two minutes, or Slurm does not answer or does
            not end them.
    """
    deadline = time.monotonic() + _CALL_SECONDS
    # A call that still runs would submit or start further jobs.
    while True:
        holder = holder_of(folder / LEASE)
        if not holder:
            break
        if not end_holder(folder / LEASE) or time.monotonic() > deadline:
            advice = (
                "run this command on that host as its user, or end its job (scancel)"
            )
            raise UserError(f"{holder} is using {folder}; {advice}")
        time.sleep(0.5)
    if not study_id(folder):
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
