"""`python -m workflow.step MARKER`: one job of the workflow, on the machine that the scheduler gave it.

It runs the job's commands in the image, or in this environment, on as many processes as there are GPUs; lets training
save itself before the time limit and ends with 75 then, so that the next job resumes; prints the last lines of what
failed; and writes the job's marker only when what it should make is there.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from common.cli import run
from common.errors import UserError, nearest
from common.files import write_text
from common.processes import AGAIN, end_with_parent, ignore_stop_signal, on_stop_signal
from common.provenance import ROOT
from workflow.jobs import Job, Workflow, load, write_marker

__all__ = ["MISTAKE", "do", "prefix_of", "processes_of", "run_until", "seconds_left"]

MISTAKE = 2
"""Exit code of every room for what the user has to correct; the same job would end with it again."""

log = logging.getLogger(__name__)


def prefix_of(workflow: Workflow, folder: Path) -> list[str]:
    """Return the words before a room's name: the image's command line, or this Python."""
    if not workflow.image:
        return [sys.executable, "-m", "container.start"]
    outside = [place for place in workflow.binds if not Path(place).is_relative_to(folder)]
    binds = [word for place in outside for word in ("--bind", place)]
    return [sys.executable, "-m", "container", "run", *binds, workflow.image]


def processes_of(job: Job, environ: Mapping[str, str]) -> list[str]:
    """Return what starts one process a GPU: nothing, `torchrun`, or `srun` with rendezvous variables set by rank."""
    if job.nodes * job.gpus <= 1:
        return []
    if "SLURM_JOB_ID" in environ:
        words = ["srun", f"--nodes={job.nodes}", f"--ntasks={job.nodes * job.gpus}"]
        words += [f"--ntasks-per-node={job.gpus}", f"--gpus-per-node={job.gpus}", "--kill-on-bad-exit=1"]
        return [*words, sys.executable, "-m", "workflow.rank"]
    if job.nodes > 1:
        raise UserError(f"{job.name} takes {job.nodes} nodes, which only Slurm gives; set nodes = 1 here")
    return [sys.executable, "-m", "workflow.local_ranks", str(job.gpus)]


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
        process = subprocess.Popen(
            command,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env=dict(environ),
            start_new_session=True,
            preexec_fn=_in_the_child,
        )
        try:
            while process.poll() is None:
                if not asked and (received or time.monotonic() > deadline):
                    who = f"the scheduler says so by {received[0].name}" if received else "by the clock"
                    log.info("the time limit is near (%s): asking it to save", who)
                    asked = True
                    _ask(process.pid, stop)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=0.2)
            while asked and _alive(process.pid):
                time.sleep(0.2)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
        finally:
            if isinstance(stop, Path):
                stop.unlink(missing_ok=True)
    code = process.returncode
    return AGAIN if asked and code != 0 else code


def _in_the_child() -> None:
    # Slurm's warning reaches launchers and shells in between, too.
    ignore_stop_signal()
    # Killed, this process leaves nothing behind that the next call would meet.
    end_with_parent()


def _ask(group: int, stop: signal.Signals | Path) -> None:
    if isinstance(stop, Path):
        stop.touch()
        return
    # The whole group: launchers in between forward nothing.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, stop)


def seconds_left(job: Job, started: float, environ: Mapping[str, str]) -> float:
    """Return the seconds a job may still work: to its margin before the limit, or before the end that Slurm names.

    Args:
        job: the job.
        started: when it started, by `time.monotonic`.
        environ: has SLURM_JOB_END_TIME (Unix seconds) where Slurm says it.
    """
    left = 60.0 * job.minutes - (time.monotonic() - started)
    end = environ.get("SLURM_JOB_END_TIME", "")
    if end.isdecimal() and int(end) > time.time():
        left = min(left, int(end) - time.time())
    return left - job.margin_seconds


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def do(job: Job, workflow: Workflow, folder: Path) -> int:
    """Run a job's commands and write its marker; return an exit code: 0, `AGAIN`, or that of what failed.

    Raises:
        UserError: the commands ended well, but not all that they should make is there.
    """
    log_file = folder / job.log
    what = f"{job.kind.name} {job.name}"
    environ = dict(os.environ) | {"PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1"} | workflow.environ
    if not job.network:
        environ.setdefault("HF_HUB_OFFLINE", "1")
    if job.cpus and not job.gpus:
        environ["OMP_NUM_THREADS"] = str(job.cpus)
    started, before = time.monotonic(), _checkpoints(job, folder)
    for words in job.commands:
        parallel = processes_of(job, environ) if job.checkpoints else []
        stop = folder / job.stop if job.checkpoints else signal.SIGINT
        command = [*parallel, *prefix_of(workflow, folder), *words]
        code = run_until(command, log_file, seconds_left(job, started, environ), environ, stop)
        if code == AGAIN:
            further = _checkpoints(job, folder) != before
            repeats = "no checkpoint since its start; the next job repeats it"
            log.info("%s: stopped; %s", what, "the next job resumes" if further else repeats)
            if further:
                _append(folder / job.saved, os.environ.get("SLURM_JOB_ID", "here"))
            return AGAIN
        if code not in job.kind.accepted:
            sys.stderr.write(f"{what} ended with code {code}; the end of {log_file}:\n")
            tail = log_file.read_text("utf-8", errors="replace").splitlines()[-15:]
            sys.stderr.write("".join(f"    {line}\n" for line in tail))
            if code == MISTAKE:
                write_text(folder / job.refused, "".join(f"{line}\n" for line in tail[-1:]))
            return code
    if not job.is_complete(folder):
        raise UserError(f"{what}: the commands ended well but not all that they should make is there")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = round(used.ru_utime + used.ru_stime, 2)
    timing = {"kind": job.kind.name, "name": job.name, "cpu_seconds": seconds}
    _append(folder / job.timings, json.dumps(timing))
    write_marker(job, folder)
    return 0


def _append(path: Path, line: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def _checkpoints(job: Job, folder: Path) -> set[Path]:
    return set(folder.glob(job.checkpoints)) if job.checkpoints else set()


def main(argv: Sequence[str]) -> int:
    """Do the job of the current folder's workflow that has the marker `argv[0]`."""
    if len(argv) != 1:
        raise UserError("workflow.step takes the job's marker: done/KIND/NAME.json")
    folder = Path.cwd()
    if "SLURM_JOB_ID" not in os.environ:
        # Slurm ends what a killed job started; here nobody else does.
        end_with_parent()
    workflow = load(folder)
    if argv[0] not in workflow.jobs:
        raise UserError(f"{argv[0]} is no job of {workflow.target}{nearest(argv[0], workflow.jobs)}")
    job = workflow.jobs[argv[0]]
    image = workflow.image
    try:
        if image and not Path(image).is_file():
            raise UserError(f"{image} does not exist; build it: make image-full")
        if image and shutil.which("apptainer") is None and shutil.which("singularity") is None:
            raise UserError("apptainer is not on this node's PATH; add its module to the job's environment")
        return do(job, workflow, folder)
    except UserError as error:
        write_text(folder / job.refused, f"{error}\n")
        raise


if __name__ == "__main__":
    run(main)
