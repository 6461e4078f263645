"""`python -m workflow.step MARKER`: one job of the workflow, on the machine that the scheduler gave it.

It runs the job's commands in the image, or in this environment, training by torchrun on all GPUs; lets training save
itself before the time limit, and then puts the Slurm job that the study submitted for it back into the queue, or, in an
allocation of the user's, starts it again in place; prints the last lines of what failed; and writes the job's marker
only when what it should make is there. On Slurm, what died without a sentence is
started again by Snakemake (`--retries`), what a user's mistake ended is not. `--finished MARKER` writes the marker of
a job that is complete already.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import platform
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template

from common.cli import run
from common.errors import UserError
from common.files import sha256_file, write_text, written
from common.processes import AGAIN, end_with_parent, ignore_stop_signal, on_stop_signal
from common.provenance import IMAGE_SHA256, ROOT
from container.machine import Machine
from container.start import GPU_COUNT
from workflow.attempts import run_attempt
from workflow.jobs import Job, Workflow, load, write_marker
from workflow.slurm_jobs import PROFILE, allocation_seconds, refuse_cancelled

MISTAKE = 2
"""Exit code of every command for what the user has to correct; the same job would end with it again."""

RESUME = -1
"""What `do` returns when the time limit stopped a job that had come further: it continues in the next."""

_SAVING_SECONDS = 120
"""Seconds that torchrun lets its processes save themselves after a signal; a checkpoint of 1B has 17 GB."""

_NEAR = 90.0
"""Seconds from the end of a job's time at which a stop was for the time limit, not somebody's wish: Slurm's own
warning comes up to a minute early."""

_ENDED = tuple(
    code
    for number in (signal.SIGTERM, signal.SIGINT)
    for code in (-number, 128 + number)
)
"""Exit codes of a command that was ended from outside: a job that somebody cancels must not come back."""

_HUNG = re.compile(rb"(?m)^ *exitcode +: %d " % AGAIN)
"""How torchrun, which ends with 1, reports a process that ended so: the watchdog's, where another one hung."""

log = logging.getLogger(__name__)


def site_environment(workflow: Workflow, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the site gives every job, with $NAME replaced by this job's own.

    Raises:
        UserError: one of them names a variable that is not set here.
    """
    expanded = {}
    for key, value in workflow.environ.items():
        try:
            expanded[key] = Template(value).substitute(environ)
        except (KeyError, ValueError) as error:
            wrong = (
                f"{error} is not set on this node"
                if isinstance(error, KeyError)
                else f"{error}".lower()
            )
            raise UserError(
                f"the site sets {key} to {value!r}, but {wrong}; correct the site's file"
            ) from None
    return expanded


def start_words(
    workflow: Workflow, folder: Path, environ: Mapping[str, str] | None = None
) -> list[str]:
    """Return the words before a command of `clm-or-mlm`: the image's command line, or this Python."""
    if not workflow.image:
        return [sys.executable, "-m", "container.start"]
    binds = [
        word
        for place in workflow.places(folder, environ or {})
        for word in ("--bind", place)
    ]
    return [
        sys.executable,
        "-m",
        "clm_or_mlm",
        "container",
        "run",
        *binds,
        workflow.image,
    ]


def launcher_of(
    job: Job, environ: Mapping[str, str], gres: str = "gpu", numa: str = ""
) -> tuple[list[str], list[str]]:
    """Return what starts one process a GPU: words before the image's, one a node, and torchrun inside of it.

    Args:
        job: the job.
        environ: its environment; Slurm's variables name its nodes.
        gres: what Slurm calls a GPU.
        numa: how torchrun binds processes to cores; empty: not at all.

    Raises:
        UserError: a job of several nodes outside Slurm.
    """
    if job.nodes * job.gpus <= 1:
        return [], []
    torchrun = [
        "torch.distributed.run",
        f"--nproc-per-node={job.gpus}",
        f"--shutdown-timeout={_SAVING_SECONDS}",
        *([f"--numa-binding={numa}"] if numa else []),
    ]
    if job.nodes == 1:
        return [], [*torchrun, "--standalone", "-m", "clm_or_mlm"]
    if "SLURM_JOB_ID" not in environ:
        raise UserError(
            f"{job.name} needs {job.nodes} nodes, which only Slurm provides; set nodes = 1"
        )
    number = int(environ["SLURM_JOB_ID"])
    # Below the range of ports that Linux hands out to others (32768 and up); two jobs on a node never meet.
    # Snakemake's job step drops the list of nodes; this runs on the first of them.
    meet = f"{environ.get('SLURMD_NODENAME') or platform.node()}:{12_000 + number % 20_000}"
    torchrun += [f"--nnodes={job.nodes}", "--rdzv-backend=c10d"]
    torchrun += [f"--rdzv-endpoint={meet}", f"--rdzv-id={number}"]
    # Nodes that read an image and import torch from a cold file system differ by minutes; torchrun's default is one.
    torchrun += ["--rdzv-conf=timeout=900,read_timeout=600"]
    words = [
        "srun",
        f"--nodes={job.nodes}",
        f"--ntasks={job.nodes}",
        "--ntasks-per-node=1",
    ]
    words += [
        f"--cpus-per-task={job.cpus}",
        f"--gres={gres}:{job.gpus}",
        "--kill-on-bad-exit=1",
    ]
    return words, [*torchrun, "-m", "clm_or_mlm"]


def run_until(
    command: Sequence[str],
    log_file: Path,
    seconds: float,
    environ: Mapping[str, str],
    stop: signal.Signals | Path,
) -> int:
    """Run a command, its output to the log; return its exit code, `AGAIN` when it was asked to stop before its end.

    Args:
        command: the command.
        log_file: appended to.
        seconds: after so many it is asked to save and stop. SIGUSR1 (Slurm's warning before the time limit) and
            SIGTERM to this process do so at once.
        environ: its environment.
        stop: how it is asked: a signal to its process group, or a file that is made.
    """
    log_file.parent.mkdir(parents=True, exist_ok=True)
    deadline, asked = time.monotonic() + seconds, False
    received: list[signal.Signals] = []
    if isinstance(stop, Path):
        stop.unlink(missing_ok=True)
    with log_file.open("ab") as sink, on_stop_signal(received.append):
        with_us = functools.partial(_in_the_child, os.getpid())
        process = subprocess.Popen(
            command,
            stdout=sink,
            stderr=sink,
            env=dict(environ),
            start_new_session=True,
            preexec_fn=with_us,
        )
        try:
            while process.poll() is None:
                if not asked and (received or time.monotonic() > deadline):
                    who = (
                        f"{received[0].name} from the scheduler"
                        if received
                        else "by the clock"
                    )
                    log.info(
                        "the time limit is near (%s): asking the command to save", who
                    )
                    asked = True
                    stop.touch() if isinstance(stop, Path) else _signal(
                        process.pid, stop
                    )
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=0.2)
            while asked and _signal(process.pid, 0):
                time.sleep(0.2)
        except BaseException:
            _signal(process.pid, signal.SIGKILL)
            raise
        finally:
            if isinstance(stop, Path):
                stop.unlink(missing_ok=True)
    code = process.returncode
    # Somebody who ends a job signals every process of it: the command may be gone before this one has asked it.
    ended = asked or bool(received) or code in _ENDED
    return AGAIN if ended and code != 0 else code


def _in_the_child(parent: int) -> None:
    # Slurm's warning reaches launchers and shells in between, too.
    ignore_stop_signal()
    # Killed, this process leaves nothing behind that the next call would meet.
    end_with_parent(parent)


def _signal(group: int, number: int) -> bool:
    """Signal a whole group, since launchers in between forward nothing; return whether it is there (for 0 too)."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def seconds_left(job: Job, started: float, environ: Mapping[str, str]) -> float:
    """Return the seconds a job may still work: to its margin before the limit, or before the end that Slurm names.

    Args:
        job: the job.
        started: when it started, by `time.monotonic`.
        environ: has Slurm's variables.
    """
    left, limit = allocation_seconds(environ)
    # In a short job of the user's own, a tenth of it is for saving.
    margin = min(job.margin_seconds, 0.1 * limit)
    return min(60.0 * job.minutes - (time.monotonic() - started), left) - margin


def do(job: Job, workflow: Workflow, folder: Path) -> int:
    """Run a job's commands and write its marker; return an exit code: 0, `AGAIN`, or that of what failed.

    Raises:
        UserError: the commands ended well, but not all that they should make is there.
    """
    log_file = folder / job.log
    what = f"{job.kind.name} {job.name}"
    environ = dict(os.environ) | {"PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1"}
    environ |= site_environment(workflow, environ) | {
        IMAGE_SHA256: workflow.image_sha256
    }
    if not job.network:
        environ.setdefault("HF_HUB_OFFLINE", "1")
    if job.gpus:
        if environ.get("CLM_OR_MLM_GPU") != "none":
            environ[GPU_COUNT] = str(job.gpus)
        environ.setdefault("OMP_NUM_THREADS", str(max(1, job.cpus // job.gpus)))
    else:
        environ["OMP_NUM_THREADS"] = str(job.cpus)
    started, saved_before = time.monotonic(), _checkpoints(job, folder)
    for words in job.commands:
        nodes, ranks = (
            launcher_of(job, environ, workflow.gres, workflow.numa_binding)
            if job.checkpoints
            else ([], [])
        )
        stop = folder / job.stop if job.checkpoints else signal.SIGINT
        command = [*nodes, *start_words(workflow, folder, environ), *ranks, *words]
        # This command's part of it
        log_start = log_file.stat().st_size if log_file.is_file() else 0
        code = run_until(
            command, log_file, seconds_left(job, started, environ), environ, stop
        )
        if ranks and code and _HUNG.search(log_file.read_bytes()[log_start:]):
            code = AGAIN
        if code == AGAIN:
            gained = _checkpoints(job, folder) != saved_before
            repeats = "nothing was saved since it started, so the next job repeats it"
            log.info(
                "%s: stopped; %s",
                what,
                "the next job resumes it" if gained else repeats,
            )
            return (
                RESUME
                if gained and seconds_left(job, started, os.environ) < _NEAR
                else AGAIN
            )
        if code not in job.kind.accepted:
            sys.stderr.write(
                f"{what} exited with code {code}; last lines of {log_file}:\n"
            )
            tail = log_file.read_text("utf-8", errors="replace").splitlines()[-15:]
            sys.stderr.write("".join(f"    {line}\n" for line in tail))
            if code == MISTAKE:
                write_text(
                    folder / job.refused, "".join(f"{line}\n" for line in tail[-1:])
                )
            return code
    if not job.is_complete(folder):
        raise UserError(
            f"{what}: the commands succeeded, but some of their output is missing"
        )
    if short := job.shortage(folder):
        raise UserError(short)
    write_marker(job, folder)
    return 0


def _checkpoints(job: Job, folder: Path) -> set[Path]:
    """Return what shows how far a job is: its checkpoints, or what it makes."""
    made = (folder / path for path in job.makes)
    return (
        set(folder.glob(job.checkpoints))
        if job.checkpoints
        else {path for path in made if path.is_file()}
    )


def _requeue() -> None:
    """Put this Slurm job back into the queue, and wait until Slurm ends it, where that is allowed."""
    code, text = Machine().output(
        ["scontrol", "requeue", os.environ["SLURM_JOB_ID"]], seconds=300
    )
    if code:
        log.warning("the job cannot be requeued: %s", text)
    else:
        time.sleep(120)


def main(argv: Sequence[str]) -> int:
    """Do the job of the current folder's workflow that has the marker `argv[-1]`; after `--finished` only write it."""
    *finished, marker = argv or [""]
    if finished not in ([], ["--finished"]):
        raise UserError(
            f"{' '.join(finished)!r}: before the job's marker comes nothing, or --finished"
        )
    folder = Path.cwd()
    # Only a job that the study submitted to Slurm is put back; in the user's own allocation it starts again in place.
    number = (
        os.environ.get("SLURM_JOB_ID", "") if os.environ.get(PROFILE) == "slurm" else ""
    )
    if not number:
        # Slurm ends what a killed job of ours started; here nobody else does.
        end_with_parent()
    workflow = load(folder)
    if marker not in workflow.jobs:
        raise UserError(f"{marker!r} is not a job of {workflow.target}")
    job = workflow.jobs[marker]
    if finished:
        return _finished(job, folder)
    if (folder / job.refused).is_file():
        why = (folder / job.refused).read_text("utf-8", errors="replace").strip()
        log.error(
            "%s %s: not retried, because it would fail again: %s",
            job.kind.name,
            job.name,
            why,
        )
        return MISTAKE
    try:
        _refuse_what_cannot_start(job, workflow, folder, number)
        while number or seconds_left(job, time.monotonic(), os.environ) > 0:
            code = run_attempt(job, workflow, folder, lambda: do(job, workflow, folder))
            if code != RESUME:
                return code
            if number:
                _requeue()
                return AGAIN
            log.info("%s %s: restarting", job.kind.name, job.name)
        log.warning(
            "%s %s: not started, because the Slurm job ends soon",
            job.kind.name,
            job.name,
        )
        return AGAIN
    except UserError as error:
        write_text(folder / job.refused, f"{error}\n")
        raise


def _refuse_what_cannot_start(
    job: Job, workflow: Workflow, folder: Path, number: str
) -> None:
    """Raise a `UserError` where the image is another one now, or where somebody has ended this job by scancel."""
    image = Path(workflow.image)
    changed = (
        workflow.image_sha256
        and image.is_file()
        and written(image) != workflow.image_written
    )
    if changed and sha256_file(image) != workflow.image_sha256:
        raise UserError(
            f"{image} has changed since this study was started; rerun the study's command"
        )
    if number:
        refuse_cancelled(job, folder, number)


def _finished(job: Job, folder: Path) -> int:
    """Write the marker of a job that another call's job completed; return 1 when it did not."""
    if not (folder / job.marker).is_file():
        if job.kind.follows or not job.is_complete(folder):
            return 1
        write_marker(job, folder)
    return 0


if __name__ == "__main__":
    run(main)
