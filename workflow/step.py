"""Runs one job of a workflow; in a Slurm job by `python -m workflow.step MARKER`.

The job's commands run in the study's image, or in this environment; training runs under torchrun on all GPUs, and is
asked to save a checkpoint before the time limit. A job that died without an error message is started again: in this
process, or by putting the Slurm job back into the queue. A job that ended with a user's mistake is not. The last lines
of a failed job's log are printed. The job's marker, the file that says that the job is done, is written only when all
files that the job makes are there.

In the order of what happens: `main` (of a Slurm job), `run_job` (until the job is done), `do` (one attempt),
`run_until` (one command).
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

# Exit codes of a job beside these: 0 of a job that is done, `AGAIN` (`common.processes`) of one that was asked to stop,
# has saved its work and is to be started again, and those with which its commands fail.

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
"""Exit codes of a command that was ended from outside: a job that somebody cancels must not be started again.

A process that a signal ends has the signal's negative number as its code; a shell above it reports 128 more than it.
"""

_LEASE_SECONDS = 150
"""How long a job waits for another process that works on the same job."""

_PREEMPTION_SECONDS = 300
"""Longest time that Slurm gives a job between its signal and its end."""

_REQUEUE_TRIES = 5
"""How often Slurm is asked to put a job back into the queue."""
_REQUEUE_PAUSE = 30
"""Seconds between two tries: all together less than what a job leaves for saving."""

_HUNG = re.compile(rb"(?m)^ *exitcode +: %d " % AGAIN)
"""Torchrun's report of a process that ended with the code `AGAIN`: `  exitcode  : 75 (pid: 12)`.

Training's watchdog ends a process so when another process hangs. Torchrun itself ends with 1, so the log is searched.
"""

log = logging.getLogger(__name__)


def main(argv: Sequence[str]) -> int:
    """Run the job with the marker `argv[0]`, of the current folder's workflow, in the Slurm job submitted for it."""
    (marker,) = argv or [""]  # no marker is refused below, as an unknown one
    folder = Path.cwd()
    # Another user of the folder's group may go on with the study: what this process and its children make gets the
    # group's permissions.
    share_with_group(folder)
    workflow = load_workflow(folder)
    if marker not in workflow.jobs:
        raise UserError(f"{marker!r} is not a job of {workflow.target}")
    job = workflow.jobs[marker]

    # Slurm starts a job after those that it needs. But it counts that as met as well once it has forgotten the other
    # job, however that one ended.
    for need in job.needs:
        if not workflow.jobs[need].is_complete(folder):
            raise UserError(
                f"{marker} needs {need}, which is not done; rerun the study's command"
            )

    code = run_job(job, workflow, folder, os.environ.get("SLURM_JOB_ID", ""))
    if code == STOPPED:
        # After preemption Slurm puts a job back into the queue only if the job has not ended by itself: so wait until
        # Slurm ends it.
        time.sleep(_PREEMPTION_SECONDS)

    return code


def run_job(job: Job, workflow: Workflow, folder: Path, number: str = "") -> int:
    """Run a job until it is done or given up; return the exit code of its last attempt.

    A job that died without an error message, or stopped for the time limit, is started again: as often as the
    workflow's `restarts` say, counted anew whenever the job has come further.

    Args:
        job: the job.
        workflow: the workflow that the job belongs to.
        folder: where the job works.
        number: number of the Slurm job that the study submitted for this job. That is put back into Slurm's queue to
            start the job again. Empty: no job was submitted, and the job is started again in this process.
    """
    what = f"{job.kind.name} {job.name}"
    # Attempts of earlier calls, which stand first in the file.
    before = len(attempts_in(folder / job.attempts))
    # In this process many jobs may follow each other, so each attempt needs time before the allocation's end. The Slurm
    # job of one job begins with its whole time, and makes one attempt.
    while number or seconds_left(job, time.monotonic(), os.environ) > 0:
        code = _attempt(job, workflow, folder, submitted=bool(number))
        # The job is done, would end with the same mistake again, or was ended by somebody. Every other code counts as a
        # death without an error message, except `AGAIN`, which is a stop for the time limit.
        if code in (0, MISTAKE, STOPPED):
            return code

        # How often has the job been started without coming further? In this process only attempts of this call count;
        # those before it are another call's.
        attempts = attempts_in(folder / job.attempts)
        own = attempts[before:]

        # A Slurm job that was put back is a new process with the same number: all attempts of that number count, also
        # those of earlier processes.
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
    """Run a job once and return its exit code; it is `MISTAKE` while another process, on any node, works on the job."""
    lease = folder / job.lease
    # A lease keeps other processes from the job. When a node died and its job runs again elsewhere, the lease of the
    # dead process becomes free after two minutes.
    deadline = time.monotonic() + _LEASE_SECONDS
    while holder_of(lease) and time.monotonic() < deadline:
        time.sleep(1)
    try:
        # This process ends itself if another one takes its lease over, as after it was suspended. `holder` is None
        # where the lease is this process's.
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
    """Raise a `UserError` where the image file is not the one that the study was started with."""
    image = Path(workflow.image)
    # A missing image file is refused where the command is started in it (`container run`).
    if not workflow.image_sha256 or not image.is_file():
        return
    # The study's start hashed the image of 4 GB: jobs hash it again only if size or time of the file have changed.
    is_untouched = written(image) == workflow.image_written
    if not is_untouched and sha256_file(image) != workflow.image_sha256:
        raise UserError(
            f"{image} has changed since this study was started; rerun the study's command"
        )


def do(job: Job, workflow: Workflow, folder: Path) -> int:
    """Run a job's commands once, and write its marker.

    Returns:
        0 for a job that is done; `AGAIN` where the time limit stopped a command; `STOPPED` where somebody stopped it;
        else the exit code of the command that failed.

    Raises:
        UserError: the commands succeeded, but not all files that they should make are there.
    """
    what = f"{job.kind.name} {job.name}"
    started = time.monotonic()
    progress_before = progress_of_job(job, folder)
    environ = _environment(job, workflow)

    for words in job.commands:
        seconds = seconds_left(job, started, environ)
        code = _run_command(words, job, workflow, folder, environ, seconds)
        # The job that the message calls the next one is the next attempt at this job.
        if code in (AGAIN, STOPPED):
            then = "the next job resumes it"
            if progress_of_job(job, folder) == progress_before:
                then = "nothing was saved since it started, so the next job repeats it"
            log.info("%s: stopped; %s", what, then)
            return code

        # `accepted` has 0, and for fine-tuning also 3: some runs failed, which their records say.
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
    """Return the environment of a job's commands: this process's, the site's variables, and some of the job's own."""
    # PYTHONSAFEPATH: a file of the study's folder must not be imported in place of a module.
    environ = dict(os.environ) | {"PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1"}
    environ |= site_environment(workflow, environ)
    # The results' records name the image by its hash.
    environ[IMAGE_SHA256] = workflow.image_sha256
    # Without `network` a job takes from its disk what hubs offer, unless a user or site has set the variable.
    if not job.network:
        environ.setdefault("HF_HUB_OFFLINE", "1")

    # Threads that libraries start by OMP_NUM_THREADS share the job's cores: all of them, or those of one GPU. With GPUs
    # a user's or site's own number stays; without, the job's number of cores always counts.
    if not job.gpus:
        environ["OMP_NUM_THREADS"] = str(job.cpus)
        return environ

    # The commands refuse to start on fewer GPUs, unless the site computes on CPUs (`runtime = "none"`).
    if environ.get("CLM_OR_MLM_GPU") != "none":
        environ[GPU_COUNT] = str(job.gpus)
    environ.setdefault("OMP_NUM_THREADS", str(max(1, job.cpus // job.gpus)))
    return environ


def site_environment(workflow: Workflow, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the site gives every job, with $NAME in their values expanded.

    Args:
        workflow: has the variables.
        environ: the job's environment, which has the values of $NAME.

    Raises:
        UserError: a value names a variable that is not set, or has a `$` before something else than a name.
    """
    expanded = {}
    for key, value in workflow.environ.items():
        try:
            expanded[key] = Template(value).substitute(environ)
        except (KeyError, ValueError) as error:
            # A KeyError is the variable's name; a ValueError is a sentence on a `$` that begins no name.
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
    """Run one command of a job and append its output to the job's log; return its exit code as `run_until` does."""
    command: list[str] = []
    if workflow.modules:
        # A shell loads the modules, then becomes the command: `$@` is what follows `-`, which stands for the script's
        # name.
        load_words = f"module load {shlex.join(workflow.modules)}"
        command += ["bash", "-c", f'{load_words} || exit 1; exec "$@"', "-"]

    # Training (a job with `checkpoints`) is asked by a file to save and stop, since a file reaches all its processes.
    # Other commands are asked by a signal.
    stop: signal.Signals | Path = signal.SIGINT
    srun: list[str] = []
    torchrun: list[str] = []
    if job.checkpoints:
        stop = folder / job.stop
        srun, torchrun = launcher_of(job, environ, workflow.gres, workflow.numa_binding)

    # `srun` starts the image once on each node, and torchrun inside of it a process for each GPU.
    command += [*srun, *start_words(workflow, folder, environ), *torchrun, *words]

    log_file = folder / job.log
    # Earlier attempts wrote to the same log, so this command's output begins at the log's end.
    log_start = log_file.stat().st_size if log_file.is_file() else 0
    code = run_until(command, log_file, seconds, environ, stop, folder)

    # Training in which a process hung is started again, though torchrun reports a failure.
    if code and _HUNG.search(log_file.read_bytes()[log_start:]):
        return AGAIN
    return code


def launcher_of(
    job: Job, environ: Mapping[str, str], gres: str = "gpu", numa: str = ""
) -> tuple[list[str], list[str]]:
    """Return the words by which a training starts one process for each GPU.

    Args:
        job: the job.
        environ: the job's environment; Slurm's variables have the job's number and this node's name.
        gres: Slurm's word for a GPU.
        numa: how torchrun binds processes to cores; empty: not at all.

    Returns:
        The words of srun, which stand before those that start the image and start it once on each node; and the words
        of torchrun, which run in the image. Without srun's words on one node; both are empty for a single process.

    Raises:
        UserError: a job of several nodes outside Slurm.
    """
    if job.nodes * job.gpus <= 1:
        return [], []
    # In the image, or with this Python, these words take the place of a command of `clm-or-mlm`, which then stands at
    # their end (`container.start`). On one node with two GPUs the whole line is, in short:
    # python -m container.start torch.distributed.run --nproc-per-node=2 ... --standalone -m clm_or_mlm train 610m-clm
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

    # Below the ports that Linux hands out to other programs (32768 and up). It follows from the job's number, so that
    # two jobs on a node have different ports.
    port = 12_000 + number % 20_000
    torchrun += [f"--nnodes={job.nodes}", "--rdzv-backend=c10d"]
    torchrun += [f"--rdzv-endpoint={host}:{port}", f"--rdzv-id={number}"]

    # Nodes that read an image and import torch from a cold file system are ready minutes apart; by default torchrun
    # waits for one minute only.
    torchrun += ["--rdzv-conf=timeout=900,read_timeout=600", "-m", "clm_or_mlm"]
    srun = ["srun", f"--nodes={job.nodes}", f"--ntasks={job.nodes}"]
    srun += ["--ntasks-per-node=1", f"--cpus-per-task={job.cpus}"]

    # Without kill-on-bad-exit the other nodes would wait for a node that has failed.
    srun += [f"--gres={gres}:{job.gpus}", "--kill-on-bad-exit=1"]
    return srun, torchrun


def start_words(
    workflow: Workflow, folder: Path, environ: Mapping[str, str] | None = None
) -> list[str]:
    """Return the words that start a command of `clm-or-mlm`, and stand before it: in the image, or with this Python.

    Args:
        workflow: has the image, and the folders outside the study's that the image shows.
        folder: the study's.
        environ: the job's environment, for variables in the names of these folders; None: no variables.
    """
    # `container.start` sets caches and libraries up for the command. An image starts it by itself.
    if not workflow.image:
        return [sys.executable, "-m", "container.start"]
    words = [sys.executable, "-m", "clm_or_mlm", "container", "run"]
    for place in workflow.places(folder, environ or {}):
        words += ["--bind", place]
    return [*words, workflow.image]


def _report_failure(job: Job, folder: Path, code: int) -> None:
    """Print the last lines of a failed job's log; after a user's mistake keep the last line, the error, in a file."""
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
    """Run a command, append its output to the log, and return its exit code.

    After some seconds the command is asked to save its work and stop. SIGUSR1 (Slurm's warning before the time limit)
    and SIGTERM to this process ask it at once.

    Args:
        command: the command.
        log_file: the log.
        seconds: how long the command runs before it is asked to stop.
        environ: the command's environment.
        stop: how the command is asked: a signal to its process group, or a file that is made.
        folder: where the command works; None: the current folder.

    Returns:
        The command's exit code. Instead of another code than 0, `AGAIN` where the command was asked to stop for the
        time limit, and `STOPPED` where somebody ended it or this process.
    """
    log_file.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(stop, Path):
        stop.unlink(missing_ok=True)
    deadline = time.monotonic() + seconds
    received: list[signal.Signals] = []
    is_asked = False
    with log_file.open("ab") as sink, on_stop_signal(received.append):
        # Start the command in its own process group: a signal to this process reaches it only as a request to save.
        # The group's number is the command's process id, since a new session begins a group with this number.
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
                if not is_asked and (received or time.monotonic() > deadline):
                    is_asked = True
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

            # Processes that the command has started may still be saving: wait until none of its group is left. Where
            # nothing was asked to save, there is nothing to wait for.
            while is_asked and _signal(process.pid, 0):
                time.sleep(0.2)
        except BaseException:
            _signal(process.pid, signal.SIGKILL)
            raise
        finally:
            if isinstance(stop, Path):
                stop.unlink(missing_ok=True)

    # What the command's end means. A command that was asked to stop may have finished all its work meanwhile: 0.
    code = process.returncode
    if code == 0:
        return 0

    # The clock or SIGUSR1 asked the command to stop.
    if is_asked and signal.SIGTERM not in received:
        return AGAIN

    # Whoever cancels a job sends SIGTERM to all its processes, so the command may end by it before it was asked.
    return STOPPED if received or code in _ENDED else code


def _in_the_child(parent: int) -> None:
    """Prepare the command's process, after it was forked and before the command begins."""
    # Slurm's warning reaches launchers and shells in between as well.
    ignore_stop_signal()
    # If the parent is killed, the command ends too: the next call must not meet it.
    end_with_parent(parent)


def _signal(group: int, number: int) -> bool:
    """Send a signal to a process group, and return whether the group still exists; 0 sends nothing and only asks.

    The whole group gets the signal, since launchers in between do not forward signals. A group of which this user may
    signal no process counts as gone: the system answers by a `PermissionError`.
    """
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def seconds_left(job: Job, started: float, environ: Mapping[str, str]) -> float:
    """Return the seconds that a job may still work before it has to save itself; negative where that is overdue.

    Args:
        job: the job.
        started: when the job started, by `time.monotonic`.
        environ: has the variables of the allocation that this process runs in.
    """
    allocation_left, length = allocation_seconds(environ)
    # Time for saving. In a short allocation it is a tenth of the allocation, not the job's whole margin.
    margin = min(job.margin_seconds, 0.1 * length)
    job_left = 60.0 * job.minutes - (time.monotonic() - started)
    return min(job_left, allocation_left) - margin


def requeue(number: str) -> None:
    """Put the Slurm job `number`, in which this process runs, back into the queue.

    Where Slurm does so, it ends this process. Where it does not after some tries, return.
    """
    for _ in range(_REQUEUE_TRIES):
        code, text = Machine().output(["scontrol", "requeue", number], seconds=300)
        if code == 0:
            time.sleep(120)  # Slurm ends this process meanwhile
            return
        # If this process ended now, Slurm would cancel the jobs that wait for this one. A busy controller may answer
        # the next try.
        log.warning("the job cannot be requeued: %s", text)
        time.sleep(_REQUEUE_PAUSE)


if __name__ == "__main__":
    run(main)
