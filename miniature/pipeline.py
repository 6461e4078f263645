"""The miniature from text to report, and what is told at its end."""

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
from miniature.data_source import Origin
from miniature.job import Folders, Job
from miniature.page import page, read_timings, stand_in_note
from miniature.plan import jobs
from miniature.recipe import FAMILIES, RANDOM, Form
from miniature.running import run_jobs
from pretraining.training.log import LOG, read_log, write_log

__all__ = ["folders_of", "make_miniature", "show_miniature", "write_example"]


def folders_of(form: Form, origin: Origin, out: Path) -> Folders:
    """Return the folders of a form on an origin's data below `out`."""
    return Folders(root=out / f"{form.name}-{origin.folder}")


def make_miniature(
    form: Form,
    origin: Origin,
    out: Path,
    *,
    workers: int = 2,
    report: bool = True,
    example: Path | None = None,
) -> str:
    """Make a miniature, or go on with it, and return what to tell.

    Args:
        form: which.
        origin: where text and tasks come from.
        out: folder that holds one folder a form.
        workers: processes side by side.
        report: whether to go on to tables, figures, claims and the report after the runs.
        example: folder for the runs table, the curves and the stand-ins alone, such as the one in the package.

    Raises:
        UserError: a job failed; the same call goes on.
    """
    start = time.monotonic()
    folders = folders_of(form, origin, out)
    run_jobs(jobs(form, origin, folders), workers, folders.root / "logs")
    return show_miniature(form, origin, out, report=report, example=example, start=start)


def show_miniature(
    form: Form, origin: Origin, out: Path, *, report: bool, example: Path | None, start: float
) -> str:
    """Analyse the runs that are there, all of them or not, write the page, and return what to tell.

    Raises:
        UserError: there are no runs yet, or a command of the analysis failed.
    """
    folders = folders_of(form, origin, out)
    if not (folders.store / "results").is_dir():
        raise UserError(f"{folders.root}: no fine-tunings yet; make them with `python -m miniature run`")
    write_text(folders.store / STAND_INS, _stand_ins(form, origin, logs="../pretrained/models"))
    run_jobs(_analysis(form, folders, report=report), 1, folders.root / "logs")
    runs = read_runs(folders.table, add_models=(*form.models, RANDOM))
    found = checks(form, folders, runs)
    write_text(folders.analysed / "miniature.md", page(form, origin, folders, runs, found))
    if example is not None:
        write_example(form, origin, folders, example)
    return _ending(origin, folders, found, len(runs), time.monotonic() - start)


def write_example(form: Form, origin: Origin, folders: Folders, example: Path) -> None:
    """Write the runs table and the curves, small enough to be kept with the code."""
    example.mkdir(parents=True, exist_ok=True)
    write_text(example / STAND_INS, _stand_ins(form, origin, logs="logs"))
    shutil.copyfile(folders.table, example / folders.table.name)
    kept = ("step", "split", "objective", "ratio", "stage")
    # Every step of the curves that Figure 12 draws; of the others the validation losses.
    continued = [model for model in form.models.values() if model.kind == "continued"]
    whole = {stage.name for model in continued for stage in model.stages}
    for log in sorted((folders.pretrained / "stages").glob(f"*/{LOG}")):
        rows = [
            {**{key: row[key] for key in kept}, "loss": round(row["loss"], 5)}
            for row in read_log(log)
            if row["split"] == "validation" or log.parent.name in whole
        ]
        write_log(example / "logs" / log.parent.name / LOG, rows)


def _stand_ins(form: Form, origin: Origin, *, logs: str) -> str:
    content = {
        "title": "MINIATURE",
        "note": stand_in_note(form, origin),
        "steps": form.scale,
        "models": form.stand_ins,
        "others": [RANDOM],
        "stages": form.stages,
        "families": {task: [name] for task, name in FAMILIES.items()},
        "logs": logs,
    }
    return json.dumps(content, indent=1) + "\n"


def _analysis(form: Form, folders: Folders, *, report: bool) -> list[Job]:
    """Return the jobs from the run store to the report."""
    added = [word for name in (*form.models, RANDOM) for word in ("--add-model", name)]
    table, store = str(folders.table), str(folders.store)
    found = [Job(name="ingest", command=("analysis", "ingest", store, "--out", table, *added))]
    if report:
        analysed = str(folders.analysed)
        figures = ("--figures", str(folders.analysed / "figures"))
        page_at = str(folders.analysed / "report" / "index.html")
        found += [
            Job(
                name="reproduce",
                command=("analysis", "reproduce", "--source", store, "--out", analysed),
                needs=("ingest",),
            ),
            Job(
                name="report",
                command=("analysis", "report", "--source", store, *figures, "--out", page_at),
                needs=("reproduce",),
            ),
        ]
    return found


def _ending(origin: Origin, folders: Folders, found: list[Check], runs: int, wall: float) -> str:
    timings = read_timings(folders)
    lines = [
        f"MINIATURE in {folders.root}",
        f"from {origin.about}",
        f"{runs} runs; {sum(timings.values()):,.0f} CPU seconds in all, this call {wall:,.0f} s by the clock",
        "",
        *(f"{'holds ' if check.holds else 'FAILS '} {check.what}: {check.seen}" for check in found),
        "",
        f"tables, figures, claims and report: {folders.analysed}",
        "Not to be concluded: anything about the paper. Networks of this size, text and few seeds say whether the",
        "package works from end to end, not which objective is better (docs/miniature.md).",
    ]
    return "\n".join(lines) + "\n"
