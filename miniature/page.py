"""The miniature's page, written from its results into `templates/page.md.j2`."""

from __future__ import annotations

import json

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from benchmarks.protocol import DATASETS
from miniature.checks import Check, final_losses, mean_scores
from miniature.data_source import DataSource
from miniature.folders import Folders
from miniature.forms import FAMILIES, FORMS, RANDOM, SIZES, Form
from miniature.local import FILES
from miniature.pretraining_seeds import spreads
from pretraining.paper_settings import SHAPES, TRAINING
from workflow.jobs import KINDS

__all__ = ["page", "read_timings", "stand_in_note"]


def stand_in_note(form: Form, source: DataSource) -> str:
    """Return the sentence that every caption of the miniature begins with."""
    sizes = ", ".join(
        f"{SIZES[size].upper()} is a network of {shape.encoder_parameters / 1e6:.2g}M parameters"
        for size, shape in form.shapes.items()
    )
    return (
        f"not the paper's models. {sizes}; {form.scale} steps are 1 here; {source.kind}; a family is one dataset "
        f"({', '.join(DATASETS[name].title for name in FAMILIES.values())})."
    )


def read_timings(folders: Folders) -> dict[str, float]:
    """Return the CPU seconds of every part of the study, those of repeated calls added up."""
    seconds: dict[str, float] = dict.fromkeys((kind.part for kind in KINDS.values()), 0.0)
    for path in folders.root.glob("logs/*/*.timings.jsonl"):
        for row in map(json.loads, path.read_text("utf-8").splitlines()):
            seconds[KINDS[row["kind"]].part] += row["cpu_seconds"]
    return seconds


def page(form: Form, source: DataSource, folders: Folders, runs: pd.DataFrame, results: list[Check]) -> str:
    """Return `docs/miniature.md` for a finished miniature."""
    tokens = float(str(form.settings["global_batch"])) * (12 + float(str(form.settings["max_length"]))) / 2
    steps = TRAINING.tokens_per_step / tokens * form.scale
    environment = Environment(
        loader=PackageLoader("miniature"), undefined=StrictUndefined, keep_trailing_newline=True
    )
    return environment.get_template("page.md.j2").render(
        form=form,
        source=source,
        runs=len(runs),
        planned=_fine_tunings(form),
        tokens=tokens,
        timings=read_timings(folders),
        seeds=runs["seed"].nunique(),
        families=list(FAMILIES),
        models=_models(form, folders, runs),
        checks=results,
        spreads=[one.texts for one in spreads(form, runs)],
        parameter_share=_share(form.shapes["m"].encoder_parameters / SHAPES[SIZES["m"]].encoder_parameters),
        token_share=_share(1 / steps),
        forms=[_described(item) for item in FORMS.values()],
        files=FILES,
    )


def _models(form: Form, folders: Folders, runs: pd.DataFrame) -> list[dict[str, object]]:
    """Return a row of texts for each model: name, what it stands for, scores, loss; `-` for what was not measured."""
    scores = mean_scores(runs).reindex(index=[RANDOM, *form.models], columns=list(FAMILIES.values()))
    losses = final_losses(form, folders)
    return [
        {
            "name": name,
            "stands_for": form.stand_ins.get(name, "no pretraining"),
            "scores": ["-" if pd.isna(score) else f"{score:.2f}" for score in scores.loc[name]],
            "loss": f"{losses[name]:.3f}" if name in losses else "-",
        }
        for name in scores.index
    ]


def _described(form: Form) -> dict[str, object]:
    sizes = ", ".join(f"{shape.encoder_parameters / 1e6:.2f} M" for shape in form.shapes.values())
    return {
        "name": form.name,
        "about": form.about,
        "sizes": sizes,
        "models": len(form.models) + len(form.copies),
        "tunings": _fine_tunings(form),
    }


def _fine_tunings(form: Form) -> int:
    return len(form.tuned) * len(FAMILIES) * len(form.rates) * len(form.seeds)


def _share(part: float) -> str:
    return f"1/{float(f'{1 / part:.1g}'):,.0f}"
