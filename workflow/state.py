"""What of a study is done, read from what lies on disk; markers follow it, never the other way round.

Snakemake looks at markers (`done/<kind>/<name>.json`). Before it does, `reconcile` removes those whose artefact
is gone and writes those whose artefact is complete, so that a deleted run is done again and nothing else is, and
a store that was copied here counts.
"""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

from benchmarks.protocol import DATASETS
from benchmarks.runs import RunKey
from benchmarks.sweep.run_state import failure, is_done
from common.files import write_text
from workflow.jobs import Job, Workflow
from workflow.settings import Settings

__all__ = ["cell_runs", "forget_interrupted", "is_complete", "reconcile", "write_marker"]

log = logging.getLogger(__name__)


def cell_runs(name: str, settings: Settings) -> list[RunKey]:
    """Return the runs of a cell's job, `model/dataset`: those of every dataset that shares its fine-tunings."""
    model, trained_on = name.rsplit("/", 1)
    return [
        RunKey(model=model, dataset=dataset, lr=lr, seed=seed)
        for dataset in settings.datasets
        if DATASETS[dataset].trained_on == trained_on
        for lr in settings.learning_rates
        for seed in settings.seeds
    ]


def _checkpoint(folder: Path, stage: str, step: int) -> bool:
    found = folder / "pretraining" / "stages" / stage
    return any(
        path.name.removeprefix("step-").isdecimal()
        and int(path.name.removeprefix("step-")) == step
        and (path / "state.json").is_file()
        for path in found.glob("step-*")
    )


def is_complete(job: Job, workflow: Workflow, settings: Settings, folder: Path) -> bool:
    """Return whether what a job makes is all there.

    A run that is recorded as failed (its loss diverged) counts as made: doing it again gives the same. A stage
    counts when every checkpoint that others leave from is there.
    """
    if job.kind == "data":
        return all((folder / "data" / name / "manifest.json").is_file() for name in settings.needed_datasets)
    if job.kind == "shards":
        return (folder / "shards" / "manifest.json").is_file()
    if job.kind == "stage":
        item = next(item for item in workflow.plan.stages if item.name == job.name)
        return all(_checkpoint(folder, job.name, step) for step in item.keep)
    if job.kind == "model":
        model = folder / "pretraining" / "models" / job.name
        return all((model / name).is_file() for name in ("manifest.json", "config.json", "model.safetensors"))
    if job.kind == "cell":
        return all(is_done(folder, key) or failure(folder, key) for key in cell_runs(job.name, settings))
    return (folder / "analysis" / job.name / "reproduce.json").is_file()


def write_marker(job: Job, folder: Path) -> None:
    """Write a job's marker."""
    write_text(folder / job.marker, json.dumps({"kind": job.kind, "name": job.name}) + "\n")


def forget_interrupted(folder: Path) -> None:
    """Drop Snakemake's notes of jobs that were under way when it was killed.

    Markers are written last, so none is ever incomplete. With such a note for a marker that `reconcile` finds true,
    Snakemake does that job alone, and then says that all is done.
    """
    shutil.rmtree(folder / ".snakemake" / "incomplete", ignore_errors=True)


def reconcile(workflow: Workflow, settings: Settings, folder: Path) -> tuple[list[Job], list[Job]]:
    """Make the markers say what is on disk; return the jobs to do, and those a finished job makes needless.

    Tables and models are what a study is for. A stage is needless when everything that would leave from it exists
    already: deleting old trunks to save space must not train them again.
    """
    complete = {marker: is_complete(job, workflow, settings, folder) for marker, job in workflow.jobs.items()}
    for marker, job in workflow.jobs.items():
        # Tables follow from cells: those made before one of them was lost are made again.
        complete[marker] = complete[marker] and not (
            job.kind == "analysis" and any(not complete[need] for need in job.needs)
        )
    todo: list[Job] = []
    needless: list[Job] = []
    wanted = {marker for marker, job in workflow.jobs.items() if job.kind in ("analysis", "model")}
    for marker, job in reversed(workflow.jobs.items()):
        if marker in wanted and not complete[marker]:
            wanted.update(job.needs)
        elif job.kind == "analysis":
            # Tables follow from the cells whether or not they were made before.
            wanted.update(job.needs)
    for marker, job in workflow.jobs.items():
        path = folder / marker
        if complete[marker]:
            if not path.is_file() and job.kind != "analysis":
                log.info("%s %s: found complete", job.kind, job.name)
                write_marker(job, folder)
        else:
            if path.is_file():
                log.info("%s %s: what it made is gone, it is done again", job.kind, job.name)
                path.unlink()
            (todo if marker in wanted else needless).append(job)
    return todo, needless
