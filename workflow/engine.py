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
import itertools
import logging
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from common.errors import UserError
from common.locks import holder_of, try_lease
from common.processes import end_with_parent
from common.provenance import ROOT
from container.machine import Machine
from workflow.jobs import Job, Workflow, refuse_other_settings, save, write_marker
from workflow.slurm_jobs import (
    PROFILE,
    cancelled_numbers,
    controller_name,
    controller_of,
    live_jobs,
    prefix_of,
    queued_jobs,
    settle,
    write_live,
)
from workflow.slurm_request import SUBMIT_LIMIT, request_of, sbatch_options

log = logging.getLogger(__name__)

LEASE = ".lease"
"""File in a workflow's folder that names the call that works there."""

CANCEL = ".cancel"
"""File there that asks this call to end."""

_ROUNDS = 3
"""How often one call starts Snakemake without progress in between: again when it was killed, or when jobs of an earlier
call were lost."""

_POLITE_SECONDS = 60
"""Between two questions to Slurm."""

Profile = Literal["local", "slurm"]
"""Where jobs run; each is a folder of Snakemake settings in `workflow/profiles/`."""


def run_workflow(
    workflow: Workflow,
    folder: Path,
    *,
    profile: Profile = "local",
    words: Sequence[str] = (),
    announce: Callable[[list[Job]], None] = lambda _: None,
    dry_run: bool = False,
    retry_failed: bool = False,
) -> bool:
    """Do what is missing of a workflow, and return whether all of it is done.

    Args:
        workflow: the jobs.
        folder: where they work and what they make is.
        profile: where jobs run.
        words: more words for snakemake.
        announce: called with the jobs to do, before any starts.
        dry_run: stop after `announce`.
        retry_failed: do runs again that are recorded as failed.

    Raises:
        UserError: another call works in the folder, what is done there was made from other settings, it cannot be
            written any more, or Slurm does not answer.
    """
    if dry_run:
        refuse_other_settings(workflow, folder)
        announce(reconcile(workflow, folder, change=False, retry_failed=retry_failed))
        return True
    folder.mkdir(parents=True, exist_ok=True)
    lost = threading.Event()
    with try_lease(folder / LEASE, lost.set) as holder:
        if holder is not None:
            raise UserError(
                f"another process is using {folder} ({holder}); wait for it or choose another folder"
            )
        (folder / CANCEL).unlink(missing_ok=True)
        ended = cancelled_numbers(folder) if profile == "slurm" else set()
        rounds, first = 0, True  # without progress
        while rounds < _ROUNDS:
            live = live_jobs(workflow.jobs, folder) if profile == "slurm" else {}
            if first:
                refuse_other_settings(workflow, folder, live)
                announce(reconcile(workflow, folder, retry_failed=retry_failed))
                for job in (
                    job for marker, job in workflow.jobs.items() if marker not in live
                ):
                    # A new call tries again what a user's mistake ended.
                    (folder / job.refused).unlink(missing_ok=True)
                save(workflow, folder)
            else:
                reconcile(workflow, folder)
            first, saved = False, _saved(workflow, folder)
            # Markers are written last, so none is ever incomplete. With such a note of Snakemake's for a marker that
            # `reconcile` accepts, it does that job alone, and then reports that all is done.
            shutil.rmtree(folder / ".snakemake" / "incomplete", ignore_errors=True)
            write_live(folder, live)
            if live:
                numbers = " ".join(job.number for job in live.values())
                text = "waiting for %d jobs of an earlier run that are still queued or running: %s"
                log.info(text, len(live), numbers)
            code = _snakemake(workflow, folder, profile, words, lost, ended)
            if code and (problem := Machine().write_problem(folder)):
                raise UserError(
                    f"cannot write to {folder}: {problem}; free some space, then rerun the command to finish"
                )
            # A training of weeks meets more lost nodes than Snakemake retries: those after progress do not count.
            gained = _saved(workflow, folder) - saved
            if code == 0 or (code > 0 and not live and not gained):
                break
            rounds += not gained
            log.warning(
                "snakemake exited with code %d; checking for remaining jobs", code
            )
        return code == 0


def _saved(workflow: Workflow, folder: Path) -> set[Path]:
    """Return the checkpoints of the jobs that are not done."""
    todo = (
        job
        for job in workflow.jobs.values()
        if job.checkpoints and not job.is_complete(folder)
    )
    return {path for job in todo for path in folder.glob(job.checkpoints)}


def reconcile(
    workflow: Workflow, folder: Path, *, change: bool = True, retry_failed: bool = False
) -> list[Job]:
    """Make the markers say what is on disk; return the jobs to do.

    Tables and models are what a study is for. A stage is needless when everything that would leave from it exists
    already: deleting old trunks to save space must not train them again. Without `change` the markers stay as they are.
    With `retry_failed` runs that are recorded as failed count as missing; their records are removed.
    """
    failures = {
        marker: job.failures(folder) if retry_failed else []
        for marker, job in workflow.jobs.items()
    }
    for path in itertools.chain(*failures.values() if change else ()):
        path.unlink()
    complete = {
        marker: not failures[marker] and job.is_complete(folder)
        for marker, job in workflow.jobs.items()
    }
    for marker, job in workflow.jobs.items():
        # Tables follow from cells: those made before one of them was lost are made again.
        complete[marker] &= not job.kind.follows or all(
            complete[need] for need in job.needs
        )
    wanted = _wanted(workflow, complete)
    todo: list[Job] = []
    for marker, job in workflow.jobs.items():
        path = folder / marker
        if complete[marker]:
            # Tables without a marker may be of other cells: Snakemake, which finds none, makes them again.
            if change and not path.is_file() and not job.kind.follows:
                log.info("%s %s: already complete", job.kind.name, job.name)
                write_marker(job, folder)
            continue
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


def _wanted(workflow: Workflow, complete: Mapping[str, bool]) -> set[str]:
    """Return the markers of the jobs that a study is for, and of all that one of them waits for."""
    wanted = {marker for marker, job in workflow.jobs.items() if job.kind.goal}
    # A job stands after those that it needs
    for marker, job in reversed(workflow.jobs.items()):
        if marker in wanted and (job.kind.follows or not complete[marker]):
            # Tables follow from the cells whether or not they were made before.
            wanted.update(job.needs)
    return wanted


def _snakemake(
    workflow: Workflow,
    folder: Path,
    profile: Profile,
    words: Sequence[str],
    lost: threading.Event,
    ended: Collection[str],
) -> int:
    """Run Snakemake to its end and return its exit code; interrupted, this ends it and leaves jobs on Slurm alone.

    Jobs that were cancelled before this call (`ended`) are done again.

    Raises:
        UserError: another process has taken over the folder, or `cancel` was called.
    """
    code_folder = ROOT / "workflow"
    command = [
        sys.executable,
        "-m",
        "snakemake",
        "--snakefile",
        str(code_folder / "Snakefile"),
    ]
    command += [
        "--workflow-profile",
        str(code_folder / "profiles" / profile),
        "--directory",
        str(folder),
    ]
    # For what a site or a network does. What a user's mistake ended is tried again as often, and ends at once.
    command += ["--retries", str(workflow.restarts)]
    slurm = profile == "slurm"
    if slurm:
        command += ["--jobs", str(workflow.max_jobs)]
        command += ["--max-jobs-per-timespan", f"{workflow.jobs_per_minute}/1m"]
        # An earlier call's jobs are waited for by processes here that sleep, one core each.
        command += [
            "--slurm-jobname-prefix",
            prefix_of(folder),
            "--local-cores",
            str(len(workflow.jobs)),
        ]
    elif gpus := max((job.gpus for job in workflow.jobs.values()), default=0):
        command += ["--resources", f"gpus_here={gpus}"]
    environ = dict(os.environ) | {
        "PYTHONPATH": str(ROOT),
        "PYTHONNOUSERSITE": "1",
        PROFILE: profile,
    }
    if slurm:
        # Our `sbatch`, which waits where Slurm takes no more jobs, calls the site's.
        ours = code_folder / "profiles" / "slurm" / "bin"
        environ |= {
            "CLM_OR_MLM_SBATCH": shutil.which("sbatch") or "",
            "PATH": f"{ours}:{environ['PATH']}",
        }
    # Snakemake keeps copies of rule files there; a home that cannot be written must not stop a study.
    environ.setdefault("XDG_CACHE_HOME", str(folder / ".snakemake" / "cache"))
    # Killed, this process leaves nothing behind that the next call would meet. On Slurm Snakemake is in a session of
    # its own: a Ctrl-C that reached it would cancel every job.
    with_us = functools.partial(end_with_parent, os.getpid())
    process = subprocess.Popen(
        [*command, *words],
        env=environ,
        cwd=folder,
        preexec_fn=with_us,
        start_new_session=slurm,
    )
    ask = functools.partial(settle, workflow.jobs, folder, ended)
    with (
        _ending(process, slurm),
        _watching(folder, process, lost, ask if slurm else None),
    ):
        code = process.wait()
    if lost.is_set():
        raise UserError(
            f"another process took over {folder} while this one was not responding, so this one is stopping"
        )
    if (folder / CANCEL).exists():
        raise UserError(
            f"`clm-or-mlm cancel` stopped the process that was using {folder}"
        )
    return code


@contextlib.contextmanager
def _ending(process: subprocess.Popen[bytes], slurm: bool) -> Iterator[None]:
    """While the block runs, end Snakemake when this process gets SIGTERM, SIGHUP or Ctrl-C; wait for it at the end.

    On Slurm, also report that jobs keep running.
    """

    def end(number: int, _: object) -> None:
        # Not waited for here: this may run in the middle of the other wait, which holds a lock.
        if slurm:
            # Snakemake would answer SIGTERM by cancelling every job.
            process.kill()
            sys.stderr.write(
                "\nstopped; queued and running jobs continue. Rerun the command to resume with them; "
                "`clm-or-mlm workflow status` shows them, `clm-or-mlm cancel` ends them\n"
            )
        else:
            process.terminate()
        sys.exit(128 + number)

    before = {
        number: signal.signal(number, end)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        process.wait()


@contextlib.contextmanager
def _watching(
    folder: Path,
    process: subprocess.Popen[bytes],
    lost: threading.Event,
    ask: Callable[[], None] | None,
) -> Iterator[None]:
    """Ask Slurm now and then, and end the process when this call has to, while the block runs."""
    done = threading.Event()

    def watch() -> None:
        for second in itertools.count(1):
            if done.wait(1):
                return
            if lost.is_set() or (folder / CANCEL).exists():
                process.kill()
            if ask and second % _POLITE_SECONDS == 0:
                with contextlib.suppress(UserError):  # Slurm does not answer now
                    ask()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def cancel(folder: Path) -> list[str]:
    """End the call that works in a folder, on whatever node, then its Slurm jobs; return their numbers.

    Raises:
        UserError: the call has not ended after two minutes, or Slurm does not answer.
    """
    request = folder / CANCEL
    deadline = time.monotonic() + 120
    try:
        while holder := holder_of(folder / LEASE):
            # It would submit them again.
            request.touch()
            if time.monotonic() > deadline:
                raise UserError(
                    f"the process using {folder} ({holder}) has not stopped; end it first"
                )
            time.sleep(0.5)
    finally:
        request.unlink(missing_ok=True)
    numbers = (
        [job.number for job in queued_jobs(folder)] if shutil.which("squeue") else []
    )
    numbers += [number for number, _ in controller_of(folder)]
    if numbers:
        subprocess.run(["scancel", *numbers], check=True)
    return numbers


# Jobs that the study submits must not inherit this job's variables. Bash takes the signal while it waits.
_CONTROLLER = """#!/bin/bash
number=$SLURM_JOB_ID
unset "${!SLURM_@}"
trap 'kill -TERM $controller; wait $controller; scontrol requeue $number; sleep 300; exit 1' USR1
%s &
controller=$!
wait $controller
"""


def detach(words: Sequence[str], folder: Path, workflow: Workflow, job: Job) -> str:
    """Submit a Slurm job that runs `clm-or-mlm workflow WORDS`, and again after its time limit; return a sentence.

    Args:
        words: of the command.
        folder: the study's.
        workflow: the study's jobs.
        job: what the Slurm job takes.

    Raises:
        UserError: a call works there already, or Slurm does not take the job.
    """
    if holder := holder_of(folder / LEASE) or " ".join(
        f"Slurm job {number}" for number, _ in controller_of(folder)
    ):
        raise UserError(f"another process is already using {folder} ({holder})")
    folder.mkdir(parents=True, exist_ok=True)
    output = folder / "controller.log"
    command = [sys.executable, "-m", "clm_or_mlm", "workflow", *words]
    # Slurm puts numbers in the place of %j and others
    escaped = str(output).replace("%", "%%")
    sbatch = ["sbatch", "--parsable", "--open-mode=append", f"--output={escaped}"]
    sbatch += [
        f"--job-name={controller_name(folder)}",
        f"--signal=B:USR1@{job.margin_seconds}",
    ]
    sbatch += sbatch_options(request_of(workflow, job))
    script, environ = (
        _CONTROLLER % shlex.join(command),
        os.environ | {"PYTHONPATH": str(ROOT)},
    )
    done = subprocess.run(
        sbatch, input=script, env=environ, capture_output=True, text=True
    )
    if done.returncode:
        full = (
            "; leave --detach out: the command waits for its turn"
            if SUBMIT_LIMIT.search(done.stderr)
            else ""
        )
        raise UserError(
            f"Slurm does not take the job that would run the study: {done.stderr.strip()}{full}"
        )
    return f"Slurm job {done.stdout.strip()} runs the study, again after its time limit; output: {output}"
