"""The miniature from text to report, and the page of what came out at its end."""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from pathlib import Path

import pandas as pd

from analysis.store.instances import join_cells
from analysis.store.runs_table import manifest_path, read_runs
from analysis.store.stand_ins import STAND_INS
from benchmarks.datasets.local_dataset import load
from benchmarks.metrics.floor import floor_of
from benchmarks.protocol import DATASETS
from common.errors import UserError
from common.files import write_text
from common.manifest import MANIFEST
from common.tables import markdown_table
from miniature.checks import Check, checks, final_losses, mean_scores
from miniature.data import DATA, DataSource
from miniature.forms import RANDOM, SIZES, Form
from miniature.toy_study import ANALYSED, INSTANCES, PRETRAINED, STORE, TABLE, Miniature, workflow_for
from pretraining.training.log import LOG, read_log, write_log
from workflow.attempts import attempts_in
from workflow.engine import run_workflow
from workflow.jobs import JOB_KINDS


def make_miniature(
    miniature: Miniature,
    *,
    workers: int = 2,
    report: bool = True,
    example: Path | None = None,
    train: bool = True,
) -> str:
    """Make a miniature, or resume one, and write and return its page.

    Args:
        miniature: which, and where.
        workers: jobs side by side.
        report: whether tables, figures, claims and the report follow the runs.
        example: folder for the runs table, the curves and the stand-ins alone, such as the one in the package.
        train: whether what is missing is trained; else the runs that are there are analysed, all of them or not.

    Raises:
        UserError: a job failed, and the same call resumes; or there is nothing to analyse.
    """
    root = miniature.root
    if not train and not (root / STORE / "results").is_dir():
        raise UserError(f"{root} has no fine-tuned models yet; make them with `clm-or-mlm miniature run`")
    jobs = [job for job in miniature.jobs() if train or job.is_complete(root)]
    needs = [job.marker for job in jobs if job.kind.name == "cell"]
    jobs.append(miniature.analysis_job(needs, report=report))
    # The analysis is made by today's code, whatever was made before.
    (root / jobs[-1].marker).unlink(missing_ok=True)
    words = ("--cores", str(workers), "--quiet", "host", "reason")
    # In two passes where there are no data yet: these alone, then the rest, with the stand-ins written again, whose
    # floors are those of the data.
    has_data = all(job.is_complete(root) for job in jobs if job.kind.name == "data")
    for until in [()] if has_data else [("--until", "data"), ()]:
        write_text(root / STORE / STAND_INS, _stand_ins_text(miniature))
        if not run_workflow(workflow_for(jobs), root, words=(*words, *until)):
            raise UserError(
                f"some jobs are not done; logs are in {root / 'logs'}; rerun the command to finish"
            )
    runs = read_runs(root / TABLE)
    text = page(miniature, runs, checks(miniature.form, root / PRETRAINED, runs))
    write_text(root / ANALYSED / "miniature.md", text)
    if example is not None:
        write_example(miniature, example)
    return text


def page(miniature: Miniature, runs: pd.DataFrame, results: list[Check]) -> str:
    """Return what came out of a miniature as Markdown; `-` stands for what was not measured."""
    form, root = miniature.form, miniature.root
    scores, losses = mean_scores(form, runs), final_losses(form, root / PRETRAINED)
    rows = [["model", "stands for", *form.families, "loss"]]
    for name in scores.index:
        means = ("-" if score != score else f"{score:.2f}" for score in scores.loc[name])
        loss = f"{losses[name]:.3f}" if name in losses else "-"
        stands_for = "no pretraining" if name == RANDOM else form.stand_ins.get(name, "none of the paper's")
        rows.append([f"`{name}`", stands_for, *means, loss])
    timings = ", ".join(f"{part} {seconds:,.0f}" for part, seconds in read_timings(root).items())
    lines = [
        f"# MINIATURE in {root}",
        "",
        f"The form `{form.name}` on {miniature.source.kind}: {len(runs)} of {form.fine_tunings} fine-tunings.",
        f"CPU seconds: {timings}.",
        "",
        "Mean test scores in percent; validation losses in nats per token, comparable only within one objective.",
        "",
        *markdown_table(rows, range(2, len(rows[0]))),
        "",
        *(f"- {'holds' if check.holds else 'FAILS'}: {check.what}: {check.seen}" for check in results),
        "",
        f"Tables, figures, claims and report: {root / ANALYSED}",
        "",
        "Draw no conclusions about the paper: networks this small, with so little text and few seeds, show whether the",
        "package works from end to end, not which objective is better (docs/miniature.md).",
    ]
    return "\n".join(lines) + "\n"


def read_timings(root: Path) -> dict[str, float]:
    """Return the CPU seconds of every part of the study, those of repeated calls added up."""
    seconds: dict[str, float] = defaultdict(float)
    for path in sorted(root.glob("logs/*/*.attempts.jsonl")):
        seconds[JOB_KINDS[path.parent.name].part] += sum(one.cpu_seconds for one in attempts_in(path))
    return seconds


def stand_in_note(form: Form, source: DataSource) -> str:
    """Return the sentence that every caption of the miniature begins with."""
    datasets = ", ".join(DATASETS[name].title for name in form.families.values())
    sizes = ", ".join(f"{paper} is a network of {own} parameters" for paper, own in _sizes(form).items())
    return (
        f"not the paper's models. {sizes}; one step here stands for {form.scale} of the paper's; the data are "
        f"{source.kind}; each task has one dataset ({datasets})."
    )


def _sizes(form: Form) -> dict[str, str]:
    """Return the size of each network, such as `0.23M`, by the paper's in whose place it stands."""
    shapes = form.study.shapes.items()
    return {SIZES[size].upper(): f"{shape.encoder_parameters / 1e6:.2g}M" for size, shape in shapes}


def write_example(miniature: Miniature, example: Path) -> None:
    """Write the stand-ins (with the floors), the runs table and the curves, small enough to be kept in the repository.

    With them go the per-instance scores, if the form has `whole_example`.
    """
    example.mkdir(parents=True, exist_ok=True)
    form = miniature.form
    write_text(example / STAND_INS, _stand_ins_text(miniature, logs="logs"))
    for path in (miniature.root / TABLE, manifest_path(miniature.root / TABLE)):
        shutil.copyfile(path, example / path.name)
    if form.whole_example:
        join_cells(miniature.root / INSTANCES, example / "instances.parquet")
    columns = ("step", "split", "objective", "ratio", "stage", "lr", "predicted")
    # Every step of the curves that Figure 12 draws; of the others those with a validation loss.
    continued = [model for model in form.models.values() if form.whole_example and model.kind == "continued"]
    stages_kept_whole = {stage.name for model in continued for stage in model.stages}
    kept = list[dict[str, object]]()
    for log in sorted((miniature.root / PRETRAINED / "stages").glob(f"*/{LOG}")):
        rows = read_log(log)
        validated = {row["step"] for row in rows if row["split"] == "validation"}
        kept += [
            {**{key: row[key] for key in columns if key in row}, "loss": round(row["loss"], 5)}
            for row in rows
            if row["step"] in validated or log.parent.name in stages_kept_whole
        ]
    write_log(example / "logs" / LOG, kept)


def _stand_ins_text(miniature: Miniature, **more: object) -> str:
    """Return the text of `stand_ins.json` (fields: `analysis.store.stand_ins.StandIns`).

    Floors are those of the datasets that are there; `more`: fields that only the written example has.
    """
    form, data = miniature.form, miniature.root / DATA
    made = [name for name in form.families.values() if (data / name / MANIFEST).is_file()]
    content = {
        "title": "MINIATURE",
        "note": stand_in_note(form, miniature.source),
        "steps": form.scale,
        "models": form.stand_ins,
        "others": list(form.others),
        "stages": form.stages,
        "families": {task: [name] for task, name in form.families.items()},
        "sizes": _sizes(form),
        "floors": {name: round(floor_of(load(data, name)), 2) for name in made},
        **more,
    }
    return json.dumps(content, indent=1) + "\n"
