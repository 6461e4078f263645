"""Runs a workflow in a folder by Snakemake, here or on a cluster; the same call resumes where one stopped.

Snakemake looks at markers (`done/<kind>/<name>.json`), which follow what is on disk, never the other way round:
`reconcile` first removes those whose artefact is gone and writes those whose artefact is complete, so that a deleted
run is done again and nothing else is, and a store that was copied here counts.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from common.errors import UserError
from common.locks import try_lock
from common.processes import end_with_parent
from common.provenance import ROOT
from workflow.jobs import Job, Workflow, save, write_marker

__all__ = ["PROFILES", "reconcile", "run_workflow"]

log = logging.getLogger(__name__)

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
) -> bool:
    """Do what is missing of a workflow, and return whether all of it is done.

    Args:
        workflow: the jobs.
        folder: where they work and what they make is.
        profile: one of `PROFILES`.
        words: more words for snakemake.
        announce: called with the jobs to do, before any starts.
        dry_run: stop after `announce`.

    Raises:
        UserError: another process works in the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with try_lock(folder / ".lock") as held:
        if not held:
            raise UserError(f"another call works in {folder}; wait for it or choose another folder")
        todo, _ = reconcile(workflow, folder)
        if announce is not None:
            announce(todo)
        if dry_run:
            return True
        _forget_interrupted(folder)
        save(workflow, folder)
        for job in workflow.jobs.values():
            # A new call counts from the start, and tries again what a user's mistake stopped.
            for name in (job.refused, job.saved):
                (folder / name).unlink(missing_ok=True)
        return _snakemake(workflow, folder, profile, words)


def _forget_interrupted(folder: Path) -> None:
    """Drop Snakemake's notes of jobs that were under way when it was killed.

    Markers are written last, so none is ever incomplete. With such a note for a marker that `reconcile` accepts,
    Snakemake does that job alone, and then reports that all is done.
    """
    shutil.rmtree(folder / ".snakemake" / "incomplete", ignore_errors=True)


def reconcile(workflow: Workflow, folder: Path) -> tuple[list[Job], list[Job]]:
    """Make the markers say what is on disk; return the jobs to do, and those a finished job makes needless.

    Tables and models are what a study is for. A stage is needless when everything that would leave from it exists
    already: deleting old trunks to save space must not train them again.
    """
    complete = {marker: job.is_complete(folder) for marker, job in workflow.jobs.items()}
    for marker, job in workflow.jobs.items():
        # Tables follow from cells: those made before one of them was lost are made again.
        complete[marker] = complete[marker] and not (
            job.kind.follows and any(not complete[need] for need in job.needs)
        )
    todo: list[Job] = []
    needless: list[Job] = []
    wanted = {marker for marker, job in workflow.jobs.items() if job.kind.goal}
    for marker, job in reversed(workflow.jobs.items()):
        if marker in wanted and (job.kind.follows or not complete[marker]):
            # Tables follow from the cells whether or not they were made before.
            wanted.update(job.needs)
    for marker, job in workflow.jobs.items():
        path = folder / marker
        if complete[marker]:
            if not path.is_file() and not job.kind.follows:
                log.info("%s %s: complete already", job.kind.name, job.name)
                write_marker(job, folder)
        else:
            if path.is_file():
                log.info("%s %s: what it made is gone, it is done again", job.kind.name, job.name)
                path.unlink()
            (todo if marker in wanted else needless).append(job)
    return todo, needless


def _wait_for_earlier_jobs(prefix: str) -> None:
    """Cancel what a killed call left waiting in the queue, and wait for what it left running."""
    announced = False
    while True:
        command = ["squeue", "--me", "--noheader", "--format=%A %T %j"]
        answer = subprocess.run(command, capture_output=True, text=True)
        rows = [line.split() for line in answer.stdout.splitlines() if f" {prefix}" in line]
        waiting = [row[0] for row in rows if row[1] == "PENDING"]
        if waiting:
            subprocess.run(["scancel", "--state=PENDING", *dict.fromkeys(waiting)], check=False)
        running = [row[0] for row in rows if row[1] not in ("PENDING", "COMPLETED", "CANCELLED")]
        if not running:
            return
        if not announced:
            sys.stderr.write(
                f"waiting for jobs of an earlier call, which still run: {' '.join(running)} "
                "(end them with scancel if you do not want that)\n"
            )
            announced = True
        time.sleep(5)


def _status_command() -> str:
    """Return what can report how a job ended: sacct where there is accounting, else squeue."""
    answer = subprocess.run(["scontrol", "show", "config"], capture_output=True, text=True)
    match = re.search(r"AccountingStorageType\s*=\s*(\S+)", answer.stdout)
    none = match is not None and match[1] in ("accounting_storage/none", "(null)")
    return "squeue" if none or shutil.which("sacct") is None else "sacct"


def _snakemake(workflow: Workflow, folder: Path, profile: str, words: Sequence[str]) -> bool:
    here = ROOT / "workflow"
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(here / "Snakefile")]
    command += ["--workflow-profile", str(here / "profiles" / profile), "--directory", str(folder)]
    gpus = max((job.gpus for job in workflow.jobs.values()), default=0)
    if profile == "slurm":
        prefix = f"clm-{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}"
        _wait_for_earlier_jobs(prefix)
        command += ["--slurm-jobname-prefix", prefix, "--slurm-status-command", _status_command()]
        if not workflow.account:
            command += ["--slurm-no-account"]
    elif gpus:
        command += ["--resources", f"gpus_here={gpus}"]
    environ = dict(os.environ) | {"PYTHONPATH": str(ROOT), "PYTHONNOUSERSITE": "1"}
    # Snakemake keeps copies of rule files there; a home that cannot be written must not stop a study.
    environ.setdefault("XDG_CACHE_HOME", str(folder / ".cache"))
    # Killed, this process leaves nothing behind that the next call would meet.
    process = subprocess.Popen([*command, *words], env=environ, cwd=folder, preexec_fn=end_with_parent)
    try:
        return process.wait() == 0
    except KeyboardInterrupt:
        process.wait()
        raise
