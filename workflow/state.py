"""What of a workflow is done, read from what is on disk; markers follow it, never the other way round.

Snakemake looks at markers (`done/<kind>/<name>.json`). Before it does, `reconcile` removes those whose artefact
is gone and writes those whose artefact is complete, so that a deleted run is done again and nothing else is, and
a store that was copied here counts.
"""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

from common.files import write_text
from workflow.jobs import Job, Workflow

__all__ = ["forget_interrupted", "reconcile", "write_marker"]

log = logging.getLogger(__name__)


def write_marker(job: Job, folder: Path) -> None:
    """Write a job's marker."""
    write_text(folder / job.marker, json.dumps({"kind": job.kind.name, "name": job.name}) + "\n")


def forget_interrupted(folder: Path) -> None:
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
