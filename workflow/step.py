"""`python -m workflow.step`: what one job of the workflow does, on the machine that the scheduler gave it.

It runs the command in the image, or in this environment, on as many processes as there are GPUs; lets training
save itself before the time limit and answers 75 then, so that the next job goes on; keeps the last lines of what
failed; and writes the job's marker only when what it should make is there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from common.cli import run
from common.errors import UserError
from common.files import write_text
from common.old_parser import Parser
from common.processes import AGAIN, end_with_parent, ignore_stop_signal, on_stop_signal
from common.provenance import ROOT
from workflow.commands import commands_of
from workflow.jobs import Job, workflow_of
from workflow.settings import Settings
from workflow.state import is_complete, write_marker

__all__ = ["MISTAKE", "SETTINGS", "prefix_of", "run_until", "seconds_left"]

MISTAKE = 2
"""Exit code of every room for what the user has to mend; the same job would say it again."""

SETTINGS = "workflow.json"
"""File in a study's folder with the resolved settings, the target and the image."""

log = logging.getLogger(__name__)


def load(folder: Path) -> tuple[Settings, str, str]:
    """Return settings, target and image (empty for none) of a study's folder."""
    content = json.loads((folder / SETTINGS).read_text("utf-8"))
    fields: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in content["settings"].items()
    }
    return Settings(**fields), str(content["target"]), str(content["image"])


def save(folder: Path, settings: Settings, target: str, image: str) -> None:
    """Write what `load` reads, unless it is there already."""
    content = {"settings": dataclasses.asdict(settings), "target": target, "image": image}
    text = json.dumps(content, indent=1) + "\n"
    path = folder / SETTINGS
    if not path.is_file() or path.read_text("utf-8") != text:
        write_text(path, text)


def prefix_of(image: str, folder: Path, settings: Settings, environ: Mapping[str, str]) -> list[str]:
    """Return the words before a room's name: the image's command line, or this Python."""
    if not image:
        return [sys.executable, "-m", "container.start"]
    outside = [settings.study, settings.data, settings.tokenizer, *settings.text]
    # Of a pattern the folder before its first star, of a file its folder.
    places = {
        word.split("*")[0].rpartition("/")[0] or "/"
        for word in outside
        if word and not word.startswith("hf:")
    }
    binds = sorted(place for place in places if not Path(place).is_relative_to(folder))
    words = [sys.executable, "-m", "container", "run"]
    for place in binds:
        words += ["--bind", place]
    return [*words, image]


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
    told: list[signal.Signals] = []
    if isinstance(stop, Path):
        stop.unlink(missing_ok=True)
    with log_file.open("ab") as sink, on_stop_signal(told.append):
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
                if not asked and (told or time.monotonic() > deadline):
                    who = f"the scheduler says so by {told[0].name}" if told else "by the clock"
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
    # Killed, this process leaves nothing behind that the next call would meet at work.
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


def _do(job: Job, folder: Path, settings: Settings, target: str, image: str) -> int:
    workflow = workflow_of(target, settings)
    log_file = folder / job.log
    environ = dict(os.environ) | {"PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1"}
    environ.setdefault("HF_HUB_OFFLINE", "1")
    if job.cpus and not job.gpus:
        environ["OMP_NUM_THREADS"] = str(job.cpus)
    if job.kind == "analysis":
        _place_stand_ins(folder, folder / "analysis" / job.name)
    started, before = time.monotonic(), _checkpoints(job, folder)
    for words, accepted in commands_of(job, settings, folder):
        room = prefix_of(image, folder, settings, environ)
        parallel = processes_of(job, environ) if job.kind in ("stage", "model") else []
        left = seconds_left(job, started, environ)
        stop = folder / job.stop if job.kind in ("stage", "model") else signal.SIGINT
        code = run_until([*parallel, *room, *words], log_file, left, environ, stop)
        if code == AGAIN:
            further = _checkpoints(job, folder) != before
            what = (
                "the next job goes on"
                if further
                else "no checkpoint since its start; the next job repeats it"
            )
            log.info("%s %s: stopped; %s", job.kind, job.name, what)
            if further:
                with (folder / job.saved).open("a") as file:
                    file.write(f"{os.environ.get('SLURM_JOB_ID', 'here')}\n")
            return AGAIN
        if code not in accepted:
            sys.stderr.write(f"{job.kind} {job.name} ended with code {code}; the end of {log_file}:\n")
            tail = _tail(log_file)
            sys.stderr.write("".join(f"    {line}\n" for line in tail))
            if code == MISTAKE:
                write_text(folder / job.refused, "".join(f"{line}\n" for line in tail[-1:]))
            return code
    if not is_complete(job, workflow, settings, folder):
        raise UserError(f"{job.kind} {job.name}: the command ended well but not all it should make is there")
    write_marker(job, folder)
    return 0


def _checkpoints(job: Job, folder: Path) -> set[str]:
    return {path.parent.name for path in folder.glob(f"pretraining/stages/{job.name}/step-*/state.json")}


def _place_stand_ins(study: Path, out: Path) -> None:
    """Copy `stand_ins.json` to where the runs table will lie: tables and figures look for it there."""
    # Imported here, for it brings pandas, which the other jobs need not wait for.
    from analysis.store.stand_ins import STAND_INS

    if (study / STAND_INS).is_file():
        write_text(out / STAND_INS, (study / STAND_INS).read_text("utf-8"))


def _tail(path: Path, lines: int = 15) -> list[str]:
    return path.read_text("utf-8", errors="replace").splitlines()[-lines:]


def main(argv: Sequence[str]) -> int:
    parser = Parser(prog="python -m workflow.step", description="Do one job of a study's workflow.")
    parser.add_argument("marker", help="the job, by its marker: done/KIND/NAME.json")
    parser.add_argument("--folder", type=Path, default=Path(), help="the study's folder (here)")
    arguments = parser.parse_args(argv)
    folder = arguments.folder.resolve()
    os.chdir(folder)
    settings, target, image = load(folder)
    jobs = workflow_of(target, settings).jobs
    if arguments.marker not in jobs:
        raise UserError(f"{arguments.marker} is no job of {target}")
    job = jobs[arguments.marker]
    try:
        if image and not Path(image).is_file():
            raise UserError(f"{image} does not exist; build it: make image-full")
        if image and shutil.which("apptainer") is None and shutil.which("singularity") is None:
            raise UserError("apptainer is not on this node's PATH; add its module to the job's environment")
        return _do(job, folder, settings, target, image)
    except UserError as error:
        write_text(folder / job.refused, f"{error}\n")
        raise


if __name__ == "__main__":
    run(main)
