"""Runs a workflow in a folder by Snakemake, here or on a cluster; the same call resumes where one stopped.

The call holds a lease on the folder, which keeps a second call out on every node. Snakemake ends with the call; jobs
on Slurm do not: the next call waits for those that are queued or running, and submits the others.

Snakemake looks at markers (`done/<kind>/<name>.json`), which follow what is on disk, never the other way round:
`reconcile` first removes those whose artefact is gone and writes those whose artefact is complete, so that a deleted
run is done again and nothing else is, and a store that was copied here counts.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from common.errors import UserError
from common.locks import try_lease
from common.processes import end_with_parent
from common.provenance import ROOT
from container.site import Site
from workflow.jobs import Job, Workflow, refuse_other_settings, save, write_marker
from workflow.slurm.live_jobs import forget_ended, live_jobs, queued, read_live, write_live

__all__ = ["LEASE", "PROFILES", "prefix_of", "reconcile", "run_workflow"]

log = logging.getLogger(__name__)

LEASE = ".lease"
"""File in a workflow's folder that names the call that works there."""

_ROUNDS = 3
"""How often one call starts Snakemake: again when it was killed, or when jobs of an earlier call were lost."""

PROFILES = ("local", "slurm")
"""Where jobs run; each is a folder of Snakemake settings in `workflow/profiles/`."""


def run_workflow(
    workflow: Workflow,
    folder: Path,
    *,
    profile: str = "local",
    words: Sequence[str] = (),
    announce: Callable[[list[Job]], None] | None = None,
    dry_run: bool = False,
    retry_failed: bool = False,
) -> bool:
    """Do what is missing of a workflow, and return whether all of it is done.

    Args:
        workflow: the jobs.
        folder: where they work and what they make is.
        profile: one of `PROFILES`.
        words: more words for snakemake.
        announce: called with the jobs to do, before any starts.
        dry_run: stop after `announce`.
        retry_failed: start cells with runs that are recorded as failed again; their commands try those.

    Raises:
        UserError: another call works in the folder, what is done there was made from other settings, it cannot be
            written any more, or Slurm does not answer.
    """
    again = {name for name, job in workflow.jobs.items() if retry_failed and job.has_failures(folder)}
    announce = announce or (lambda _: None)
    if dry_run:
        refuse_other_settings(workflow, folder)
        announce(reconcile(workflow, folder, change=False, again=again))
        return True
    folder.mkdir(parents=True, exist_ok=True)
    lost = threading.Event()
    with try_lease(folder / LEASE, lost.set) as holder:
        if holder is not None:
            raise UserError(
                f"another call works in {folder} ({holder}); wait for it or choose another folder"
            )
        for number in range(_ROUNDS):
            live = live_jobs(workflow.jobs, folder, prefix_of(folder)) if profile == "slurm" else {}
            if number == 0:
                refuse_other_settings(workflow, folder, live)
            todo = reconcile(workflow, folder, again=again)
            if number == 0:
                announce(todo)
                for marker, job in workflow.jobs.items():
                    if marker not in live:  # what a user's mistake stopped is tried again by a new call
                        (folder / job.refused).unlink(missing_ok=True)
                save(workflow, folder)
            # Markers are written last, so none is ever incomplete. With such a note of Snakemake's for a marker that
            # `reconcile` accepts, it does that job alone, and then reports that all is done.
            shutil.rmtree(folder / ".snakemake" / "incomplete", ignore_errors=True)
            write_live(folder, live)
            if live:
                numbers = " ".join(job.number for job in live.values())
                text = "%d jobs of an earlier call are queued or running and are waited for: %s"
                log.info(text, len(live), numbers)
            code = _snakemake(workflow, folder, profile, words, lost)
            if code and (problem := Site().write_problem(folder)):
                raise UserError(
                    f"{folder} cannot be written: {problem}; make room, then the same call does what is missing"
                )
            if code == 0 or (code > 0 and not live):
                break
            # Those that were tried again and failed again have their markers.
            again = {marker for marker in again if not (folder / marker).is_file()}
            log.warning("snakemake ended with code %d; looking for what is left", code)
        return code == 0


def prefix_of(folder: Path) -> str:
    """Return what the names of the folder's Slurm jobs start with: its own name and a number that follows from it."""
    name = re.sub(r"[^A-Za-z0-9_-]", "-", folder.name)[:24]
    return f"{name}-{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}"


def reconcile(
    workflow: Workflow, folder: Path, *, change: bool = True, again: Collection[str] = ()
) -> list[Job]:
    """Make the markers say what is on disk; return the jobs to do.

    Tables and models are what a study is for. A stage is needless when everything that would leave from it exists
    already: deleting old trunks to save space must not train them again. Without `change` the markers stay as they are.
    Jobs whose markers are in `again` are done again though they are complete.
    """
    complete = {
        marker: marker not in again and job.is_complete(folder) for marker, job in workflow.jobs.items()
    }
    for marker, job in workflow.jobs.items():
        # Tables follow from cells: those made before one of them was lost are made again.
        complete[marker] = complete[marker] and not (
            job.kind.follows and any(not complete[need] for need in job.needs)
        )
    todo: list[Job] = []
    wanted = {marker for marker, job in workflow.jobs.items() if job.kind.goal}
    for marker, job in reversed(workflow.jobs.items()):
        if marker in wanted and (job.kind.follows or not complete[marker]):
            # Tables follow from the cells whether or not they were made before.
            wanted.update(job.needs)
    for marker, job in workflow.jobs.items():
        path = folder / marker
        if complete[marker]:
            if change and not path.is_file() and not job.kind.follows:
                log.info("%s %s: complete already", job.kind.name, job.name)
                write_marker(job, folder)
        else:
            if change and path.is_file():
                why = "some of its runs failed" if marker in again else "what it made is gone"
                log.info("%s %s: %s, it is done again", job.kind.name, job.name, why)
                path.unlink()
            if marker in wanted:
                todo.append(job)
    return todo


def _snakemake(
    workflow: Workflow, folder: Path, profile: str, words: Sequence[str], lost: threading.Event
) -> int:
    """Run Snakemake to its end and return its exit code; interrupted, this ends it and leaves jobs on Slurm alone."""
    here = ROOT / "workflow"
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(here / "Snakefile")]
    command += ["--workflow-profile", str(here / "profiles" / profile), "--directory", str(folder)]
    slurm = profile == "slurm"
    if slurm:
        # Those that are waited for are processes here that sleep.
        command += ["--slurm-jobname-prefix", prefix_of(folder), "--local-cores", str(len(workflow.jobs))]
        if not any("slurm_account" in queue for queue in workflow.queues.values()):
            command.append("--slurm-no-account")
        if shutil.which("sacct"):
            # Jobs on GPUs leave most cores idle: no warning for each.
            command += ["--slurm-efficiency-report", "--slurm-efficiency-report-path", "logs"]
            command += ["--slurm-efficiency-threshold", "0.01"]
    elif gpus := max((job.gpus for job in workflow.jobs.values()), default=0):
        command += ["--resources", f"gpus_here={gpus}"]
    environ = dict(os.environ) | {"PYTHONPATH": str(ROOT), "PYTHONNOUSERSITE": "1"}
    # Snakemake keeps copies of rule files there; a home that cannot be written must not stop a study.
    environ.setdefault("XDG_CACHE_HOME", str(folder / ".cache"))
    # Killed, this process leaves nothing behind that the next call would meet. On Slurm Snakemake is in a session of
    # its own: a Ctrl-C that reached it would cancel every job.
    with_us = functools.partial(end_with_parent, os.getpid())
    process = subprocess.Popen(
        [*command, *words], env=environ, cwd=folder, preexec_fn=with_us, start_new_session=slurm
    )
    with _ending(process, slurm), _watching(folder, process, lost):
        code = process.wait()
    if lost.is_set():
        raise UserError(f"another call took over {folder} while this one did not answer; this one ends")
    return code


@contextlib.contextmanager
def _ending(process: subprocess.Popen[bytes], slurm: bool) -> Iterator[None]:
    """End the process when this one is asked to end; on Slurm say that jobs keep running."""

    def end(number: int, _: object) -> None:
        # Not waited for here: this may run in the middle of the other wait, which holds a lock.
        process.kill() if slurm else process.terminate()
        if slurm:
            sys.stderr.write(
                "\nstopped. Jobs that are queued or running keep running, and the same call resumes with them; "
                "`python -m workflow status` shows them, `python -m workflow cancel` ends them\n"
            )
        sys.exit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        process.wait()


@contextlib.contextmanager
def _watching(folder: Path, process: subprocess.Popen[bytes], lost: threading.Event) -> Iterator[None]:
    """Say which jobs of an earlier call are gone, and end the process without its lease, while the block runs."""
    done = threading.Event()
    waited = bool(read_live(folder))

    def watch() -> None:
        while not done.wait(5):
            if lost.is_set():
                process.kill()
            if waited:
                with contextlib.suppress(UserError):  # Slurm does not answer now
                    forget_ended(folder, queued(prefix_of(folder)))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
