"""The miniature from text to report, and the summary at its end."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

from analysis.store.runs_table import read_runs
from analysis.store.stand_ins import STAND_INS
from common.errors import UserError
from common.files import write_text
from miniature.checks import Check, checks
from miniature.data_source import DataSource
from miniature.folders import Folders
from miniature.forms import FAMILIES, RANDOM, Form
from miniature.page import page, read_timings, stand_in_note
from miniature.plan import analysis_job, plan, workflow_for
from pretraining.training.log import LOG, read_log, write_log
from workflow.engine import run_workflow
from workflow.jobs import WORKFLOW, Job, load

__all__ = ["folders_of", "make_miniature", "show_miniature", "write_example"]


def folders_of(form: Form, source: DataSource, out: Path) -> Folders:
    """Return the folders of a form on a source's data below `out`."""
    return Folders(root=out.resolve() / f"{form.name}-{source.folder}")


def make_miniature(
    form: Form,
    source: DataSource,
    out: Path,
    *,
    workers: int = 2,
    report: bool = True,
    example: Path | None = None,
) -> str:
    """Make a miniature, or resume one, and return the summary.

    Args:
        form: which.
        source: where text and tasks come from.
        out: folder that holds one folder a form.
        workers: jobs side by side.
        report: whether tables, figures, claims and the report follow the runs.
        example: folder for the runs table, the curves and the stand-ins alone, such as the one in the package.

    Raises:
        UserError: a job failed; the same call resumes.
    """
    start = time.monotonic()
    folders = folders_of(form, source, out)
    jobs = plan(form, source, folders)
    _refuse_other_data(jobs, folders)
    needs = [job.marker for job in jobs if job.kind.name == "cell"]
    _run([*jobs, analysis_job(form, folders, needs, report=report)], form, source, folders, workers)
    return _finish(form, source, folders, example, start)


def show_miniature(
    form: Form, source: DataSource, out: Path, *, report: bool = True, example: Path | None = None
) -> str:
    """Analyse the runs that are there, all of them or not, write the page, and return the summary.

    Raises:
        UserError: there are no runs yet, or a command of the analysis failed.
    """
    start = time.monotonic()
    folders = folders_of(form, source, out)
    if not (folders.store / "results").is_dir():
        raise UserError(f"{folders.root}: no fine-tunings yet; make them with `python -m miniature run`")
    # The jobs that made the data stay on record, for the next `run` to compare.
    _run([*_earlier_data(folders), analysis_job(form, folders, (), report=report)], form, source, folders, 1)
    return _finish(form, source, folders, example, start)


def _run(jobs: list[Job], form: Form, source: DataSource, folders: Folders, workers: int) -> None:
    write_text(folders.store / STAND_INS, _stand_ins(form, source))
    # The analysis is made by today's code, whatever was made before.
    (folders.root / jobs[-1].marker).unlink(missing_ok=True)
    words = ("--cores", str(workers), "--quiet", "host", "reason")
    if not run_workflow(workflow_for(jobs), folders.root, words=words):
        raise UserError(
            f"not everything was done; logs are in {folders.root / 'logs'}, the same command resumes"
        )


def _earlier_data(folders: Folders) -> list[Job]:
    """Return the jobs for text and datasets of the call before this one; none before the first."""
    if not (folders.root / WORKFLOW).is_file():
        return []
    return [job for job in load(folders.root).jobs.values() if job.kind.part == "data"]


def _refuse_other_data(jobs: list[Job], folders: Folders) -> None:
    """Refuse data that differ from what the folder's text and datasets were made of."""
    new = {job.marker: job for job in jobs}
    for old in _earlier_data(folders):
        if old.marker in new and new[old.marker].commands != old.commands:
            raise UserError(f"{folders.root} was made of other data; give the same --data, or another --out")


def _finish(form: Form, source: DataSource, folders: Folders, example: Path | None, start: float) -> str:
    runs = read_runs(folders.table, add_models=(*form.models, RANDOM, *form.copies))
    results = checks(form, folders, runs)
    write_text(folders.analysed / "miniature.md", page(form, source, folders, runs, results))
    if example is not None:
        write_example(form, source, folders, example)
    return _summary(source, folders, results, len(runs), time.monotonic() - start)


def write_example(form: Form, source: DataSource, folders: Folders, example: Path) -> None:
    """Write the runs table and the curves, small enough to be kept with the code."""
    example.mkdir(parents=True, exist_ok=True)
    write_text(example / STAND_INS, _stand_ins(form, source, logs="logs"))
    shutil.copyfile(folders.table, example / folders.table.name)
    columns = ("step", "split", "objective", "ratio", "stage")
    # Every step of the curves that Figure 12 draws; of the others the validation losses.
    continued = [model for model in form.models.values() if model.kind == "continued"]
    whole = {stage.name for model in continued for stage in model.stages}
    for log in sorted((folders.pretrained / "stages").glob(f"*/{LOG}")):
        rows = [
            {**{key: row[key] for key in columns}, "loss": round(row["loss"], 5)}
            for row in read_log(log)
            if row["split"] == "validation" or log.parent.name in whole
        ]
        write_log(example / "logs" / log.parent.name / LOG, rows)


def _stand_ins(form: Form, source: DataSource, **logs: str) -> str:
    content = {
        "title": "MINIATURE",
        "note": stand_in_note(form, source),
        "steps": form.scale,
        "models": form.stand_ins,
        "others": [RANDOM, *form.copies],
        "stages": form.stages,
        "families": {task: [name] for task, name in FAMILIES.items()},
        **logs,
    }
    return json.dumps(content, indent=1) + "\n"


def _summary(source: DataSource, folders: Folders, results: list[Check], runs: int, wall: float) -> str:
    seconds = sum(read_timings(folders).values())
    lines = [
        f"MINIATURE in {folders.root}",
        f"from {source.about}",
        f"{runs} runs; {seconds:,.0f} CPU seconds in all, this call {wall:,.0f} s by the clock",
        "",
        *(f"{'holds ' if check.holds else 'FAILS '} {check.what}: {check.seen}" for check in results),
        "",
        f"tables, figures, claims and report: {folders.analysed}",
        "Not to be concluded: anything about the paper. Networks of this size, text and few seeds say whether the",
        "package works from end to end, not which objective is better (docs/miniature.md).",
    ]
    return "\n".join(lines) + "\n"
