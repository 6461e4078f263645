"""One job of the workflow, on the machine that it was given; `python -m workflow.step MARKER` in a Slurm job.

It runs the job's commands in the image, or in this environment, training by torchrun on all GPUs; lets training save
itself before the time limit; starts again what died without a sentence, in place, or by putting the Slurm job back into
the queue; prints the last lines of what failed; and writes the job's marker only when what it should make is there.
What a user's mistake ended is not started again.

In the order of what happens: `main` (of a Slurm job), `run_job` (until it is done), `do` (once), `run_until` (a
command).
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import platform
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template

from common.cli import run
from common.errors import UserError
from common.files import sha256_file, share_with_group, write_text, written
from common.locks import holder_of, try_lease
from common.processes import AGAIN, end_with_parent, ignore_stop_signal, on_stop_signal
from common.provenance import IMAGE_SHA256, ROOT
from container.machine import Machine
from container.start import GPU_COUNT
from workflow.attempts import (
    attempts_in,
    progress_of_job,
    run_attempt,
    tries_without_progress,
)
from workflow.jobs import Command, Job, Workflow, load_workflow, write_marker
from workflow.slurm_queue import allocation_seconds

MISTAKE = 2
"""Exit code of every command for what the user has to correct; the same job would end with it again."""

STOPPED = 128 + signal.SIGTERM
"""Exit code of a job that somebody ended: it is not started again."""

NO_TIME = 124
"""Exit code of a job that was not started, since the allocation ends soon."""

_SAVING_SECONDS = 120
"""Seconds that torchrun lets its processes save themselves after a signal; a checkpoint of 1B has 17 GB."""

_ENDED = tuple(
    code
    for number in (signal.SIGTERM, signal.SIGINT)
    for code in (-number, 128 + number)
)
"""Exit codes of a command that was ended from outside: a job that somebody cancels must not come back."""

_LEASE_SECONDS = 150
"""How long a job waits for another process that works on the same."""

_PREEMPTION_SECONDS = 300
"""Longest time that Slurm gives a job between its signal and its end."""

_REQUEUE_TRIES = 5
_REQUEUE_PAUSE = 30
"""Seconds between two of them: together less than what a job leaves for saving."""

_HUNG = re.compile(rb"(?m)^ *exitcode +: %d " % AGAIN)
"""How torchrun, which ends with 1, reports a process that ended so: the watchdog's, where another one hung."""

log = logging.getLogger(__name__)


def main(argv: Sequence[str]) -> int:
    """Do the job of the current folder's workflow that has the marker `argv[0]`, in the Slurm job submitted for it."""
    (marker,) = argv or [""]
    folder = Path.cwd()
    share_with_group(folder)
    workflow = load_workflow(folder)
    if marker not in workflow.jobs:
        raise UserError(f"{marker!r} is not a job of {workflow.target}")
    job = workflow.jobs[marker]
    # Slurm counts a dependency as met once it has forgotten that job, however the job ended.
    for need in job.needs:
        if not workflow.jobs[need].is_complete(folder):
            raise UserError(
                f"{marker} needs {need}, which is not done; rerun the study's command"
            )
    code = run_job(job, workflow, folder, os.environ.get("SLURM_JOB_ID", ""))
    if code == STOPPED:
        # After preemption Slurm puts a job back into the queue only if the job has not ended by itself: wait for that.
        time.sleep(_PREEMPTION_SECONDS)
    return code


def run_job(job: Job, workflow: Workflow, folder: Path, number: str = "") -> int:
    """Run a job until it is done or cannot be; return the exit code of its last attempt.

    What died without a sentence, or was stopped by the clock, is started again: `restarts` times, counted
    anew whenever it has come further.

    Args:
        job: the job.
        workflow: the workflow that the job belongs to.
        folder: where it works.
        number: of the Slurm job that the study submitted for it, which is put back into the queue instead; empty: here.
    """
    what = f"{job.kind.name} {job.name}"
    before = len(attempts_in(folder / job.attempts))
    while number or seconds_left(job, time.monotonic(), os.environ) > 0:
        code = _attempt(job, workflow, folder, submitted=bool(number))
        if code in (0, MISTAKE, STOPPED):
            return code
        attempts = attempts_in(folder / job.attempts)
        own = attempts[before:]
        # A requeued job is a new process: all attempts of its number count.
        if number:
            own = [attempt for attempt in attempts if attempt.slurm == number]
        if tries_without_progress(job, folder, own) > workflow.restarts:
            return code
        log.info("%s: restarting", what)
        if number:
            requeue(number)
            return code
    log.warning("%s: not started, because the allocation ends soon", what)
    return NO_TIME


def _attempt(job: Job, workflow: Workflow, folder: Path, *, submitted: bool) -> int:
    """Run a job once; refuse it as a user's mistake while another process, on any node, works on it."""
    lease = folder / job.lease
    # When a node died and its job runs again elsewhere, the dead process's lease becomes free after two minutes.
    deadline = time.monotonic() + _LEASE_SECONDS
    while holder_of(lease) and time.monotonic() < deadline:
        time.sleep(1)
    try:
        with try_lease(lease, lambda: os.kill(os.getpid(), signal.SIGTERM)) as holder:
            if holder is not None:
                raise UserError(
                    f"{job.kind.name} {job.name}: another process works on it ({holder})"
                )
            _refuse_other_image(workflow)
            return run_attempt(
                job,
                workflow,
                folder,
                lambda: do(job, workflow, folder),
                submitted=submitted,
            )
    except UserError as error:
        write_text(folder / job.refused, f"{error}\n")
        sys.stderr.write(f"error: {error}\n")
        return MISTAKE


def _refuse_other_image(workflow: Workflow) -> None:
    """Raise a `UserError` where the image is another one now."""
    image = Path(workflow.image)
    if not workflow.image_sha256 or not image.is_file():
        return
    # The study's start hashed the image of 4 GB: jobs hash it again only if size or time of the file have changed.
    is_untouched = written(image) == workflow.image_written
    if not is_untouched and sha256_file(image) != workflow.image_sha256:
        raise UserError(
            f"{image} has changed since this study was started; rerun the study's command"
        )


def do(job: Job, workflow: Workflow, folder: Path) -> int:
    """Run a job's commands and write its marker.

    Returns:
        0; `AGAIN` when the clock stopped it; `STOPPED` when somebody did; or the exit code of what failed.

    Raises:
        UserError: the commands ended well, but not all that they should make is there.
    """
    what = f"{job.kind.name} {job.name}"
    started = time.monotonic()
    progress_before = progress_of_job(job, folder)
    environ = _environment(job, workflow)

    for words in job.commands:
        seconds = seconds_left(job, started, environ)
        code = _run_command(words, job, workflow, folder, environ, seconds)
        if code in (AGAIN, STOPPED):
            then = "the next job resumes it"
            if progress_of_job(job, folder) == progress_before:
                then = "nothing was saved since it started, so the next job repeats it"
            log.info("%s: stopped; %s", what, then)
            return code
        if code not in job.kind.accepted:
            _report_failure(job, folder, code)
            return code

    if not job.is_complete(folder):
        raise UserError(
            f"{what}: the commands succeeded, but some of their output is missing"
        )
    shortage = job.shortage(folder)
    if shortage:
        raise UserError(shortage)
    write_marker(job, folder)
    return 0


def _environment(job: Job, workflow: Workflow) -> dict[str, str]:
    """Return the environment of a job's commands: this one's, the site's variables, and what follows from its size."""
    # PYTHONSAFEPATH: a file of the study's folder must not be imported in place of a module.
    environ = dict(os.environ) | {"PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1"}
    environ |= site_environment(workflow, environ)
    environ[IMAGE_SHA256] = workflow.image_sha256
    if not job.network:
        environ.setdefault("HF_HUB_OFFLINE", "1")
    if not job.gpus:
        environ["OMP_NUM_THREADS"] = str(job.cpus)
        return environ
    if environ.get("CLM_OR_MLM_GPU") != "none":
        environ[GPU_COUNT] = str(job.gpus)
    environ.setdefault("OMP_NUM_THREADS", str(max(1, job.cpus // job.gpus)))
    return environ


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
            wrong = str(error).lower()
            if isinstance(error, KeyError):
                wrong = f"{error} is not set on this node"
            raise UserError(
                f"the site sets {key} to {value!r}, but {wrong}; correct the site's file"
            ) from None
    return expanded


def _run_command(
    words: Command,
    job: Job,
    workflow: Workflow,
    folder: Path,
    environ: Mapping[str, str],
    seconds: float,
) -> int:
    """Run one command of a job, its output to the job's log; return its exit code as `run_until` does."""
    command: list[str] = []
    if workflow.modules:
        load_words = f"module load {shlex.join(workflow.modules)}"
        command += ["bash", "-c", f'{load_words} || exit 1; exec "$@"', "-"]
    stop: signal.Signals | Path = signal.SIGINT
    on_nodes: list[str] = []
    ranks: list[str] = []
    if job.checkpoints:
        stop = folder / job.stop
        on_nodes, ranks = launcher_of(
            job, environ, workflow.gres, workflow.numa_binding
        )
    command += on_nodes + start_words(workflow, folder, environ) + ranks + [*words]

    log_file = folder / job.log
    # Earlier attempts wrote to the same log.
    log_start = log_file.stat().st_size if log_file.is_file() else 0
    code = run_until(command, log_file, seconds, environ, stop, folder)
    if code and _HUNG.search(log_file.read_bytes()[log_start:]):
        return AGAIN
    return code


def launcher_of(
    job: Job, environ: Mapping[str, str], gres: str = "gpu", numa: str = ""
) -> tuple[list[str], list[str]]:
    """Return what starts one process a GPU: words before the image's, one a node, and torchrun inside of it.

    Args:
        job: the job.
        environ: the job's environment; Slurm's variables name its nodes.
        gres: Slurm's word for a GPU.
        numa: how torchrun binds processes to cores; empty: not at all.

    Raises:
        UserError: a job of several nodes outside Slurm.
    """
    if job.nodes * job.gpus <= 1:
        return [], []
    torchrun = ["torch.distributed.run", f"--nproc-per-node={job.gpus}"]
    torchrun.append(f"--shutdown-timeout={_SAVING_SECONDS}")
    if numa:
        torchrun.append(f"--numa-binding={numa}")
    if job.nodes == 1:
        return [], [*torchrun, "--standalone", "-m", "clm_or_mlm"]
    if "SLURM_JOB_ID" not in environ:
        raise UserError(
            f"{job.name} needs {job.nodes} nodes, which only Slurm provides; set nodes = 1"
        )
    number = int(environ["SLURM_JOB_ID"])
    # This process runs on the first of the job's nodes, where the others are to meet.
    host = environ.get("SLURMD_NODENAME") or platform.node()
    # Below the range of ports that Linux hands out to others (32768 and up); two jobs on a node never meet.
    port = 12_000 + number % 20_000
    torchrun += [f"--nnodes={job.nodes}", "--rdzv-backend=c10d"]
    torchrun += [f"--rdzv-endpoint={host}:{port}", f"--rdzv-id={number}"]
    # Nodes that read an image and import torch from a cold file system differ by minutes; torchrun's default is one.
    torchrun += ["--rdzv-conf=timeout=900,read_timeout=600", "-m", "clm_or_mlm"]
    srun = ["srun", f"--nodes={job.nodes}", f"--ntasks={job.nodes}"]
    srun += ["--ntasks-per-node=1", f"--cpus-per-task={job.cpus}"]
    # Without kill-on-bad-exit the other nodes would wait for a node that has failed.
    srun += [f"--gres={gres}:{job.gpus}", "--kill-on-bad-exit=1"]
    return srun, torchrun


def start_words(
    workflow: Workflow, folder: Path, environ: Mapping[str, str] | None = None
) -> list[str]:
    """Return the words before a command of `clm-or-mlm`: the image's command line, or this Python."""
    if not workflow.image:
        return [sys.executable, "-m", "container.start"]
    words = [sys.executable, "-m", "clm_or_mlm", "container", "run"]
    for place in workflow.places(folder, environ or {}):
        words += ["--bind", place]
    return [*words, workflow.image]


def _report_failure(job: Job, folder: Path, code: int) -> None:
    """Print the last lines of a job that failed; write down the last one where a user's mistake ended it."""
    log_file = folder / job.log
    lines = log_file.read_text("utf-8", errors="replace").splitlines()
    what = f"{job.kind.name} {job.name}"
    sys.stderr.write(f"{what} exited with code {code}; last lines of {log_file}:\n")
    for line in lines[-15:]:
        sys.stderr.write(f"    {line}\n")
    if code == MISTAKE:
        last = lines[-1] if lines else ""
        write_text(folder / job.refused, f"{last}\n")


def run_until(
    command: Sequence[str],
    log_file: Path,
    seconds: float,
    environ: Mapping[str, str],
    stop: signal.Signals | Path,
    folder: Path | None = None,
) -> int:
    """Run a command, its output to the log; return its exit code.

    That is `AGAIN` when the clock asked it to stop before its end, `STOPPED` when somebody did.

    Args:
        command: the command.
        log_file: appended to.
        seconds: after so many it is asked to save and stop. SIGUSR1 (Slurm's warning before the time limit) and
            SIGTERM to this process do so at once.
        environ: the command's environment.
        stop: how it is asked: a signal to its process group, or a file that is made.
        folder: where it works; the current folder without.
    """
    log_file.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(stop, Path):
        stop.unlink(missing_ok=True)
    deadline = time.monotonic() + seconds
    received: list[signal.Signals] = []
    asked = False
    with log_file.open("ab") as sink, on_stop_signal(received.append):
        # Start the command in its own process group: a signal to this process reaches it only as a request to save.
        process = subprocess.Popen(
            command,
            stdout=sink,
            stderr=sink,
            env=dict(environ),
            cwd=folder,
            start_new_session=True,
            preexec_fn=functools.partial(_in_the_child, os.getpid()),
        )
        try:
            # Wait until the command ends; ask it once to save and stop.
            while process.poll() is None:
                if not asked and (received or time.monotonic() > deadline):
                    asked = True
                    who = "by the clock"
                    if received:
                        who = f"{received[0].name} from the scheduler"
                    log.info(
                        "the time limit is near (%s): asking the command to save", who
                    )
                    if isinstance(stop, Path):
                        stop.touch()
                    else:
                        _signal(process.pid, stop)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=0.2)
            # The group holds what the command has started as well, which may still save.
            while asked and _signal(process.pid, 0):
                time.sleep(0.2)
        except BaseException:
            _signal(process.pid, signal.SIGKILL)
            raise
        finally:
            if isinstance(stop, Path):
                stop.unlink(missing_ok=True)

    code = process.returncode
    if code == 0:
        return 0
    # Whoever cancels a job sends SIGTERM to all its processes, so the command may have ended before it was asked.
    if asked and signal.SIGTERM not in received:
        return AGAIN
    return STOPPED if received or code in _ENDED else code


def _in_the_child(parent: int) -> None:
    # Slurm's warning reaches launchers and shells in between as well.
    ignore_stop_signal()
    # If the parent is killed, the command ends too: the next call must not meet it.
    end_with_parent(parent)


def _signal(group: int, number: int) -> bool:
    """Signal a whole group, since launchers in between forward nothing; return whether it is there (for 0 as well)."""
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
    left, length = allocation_seconds(environ)
    # In a short allocation, a tenth of it is kept for saving, not the whole margin.
    margin = min(job.margin_seconds, 0.1 * length)
    worked = time.monotonic() - started
    return min(60.0 * job.minutes - worked, left) - margin


def requeue(number: str) -> None:
    """Put a Slurm job, this one, back into the queue, and wait until Slurm ends it, where that is allowed."""
    for _ in range(_REQUEUE_TRIES):
        code, text = Machine().output(["scontrol", "requeue", number], seconds=300)
        if code == 0:
            time.sleep(120)
            return
        # If the job ended now, Slurm would cancel the jobs that wait for it; a busy controller answers later.
        log.warning("the job cannot be requeued: %s", text)
        time.sleep(_REQUEUE_PAUSE)


if __name__ == "__main__":
    run(main)
