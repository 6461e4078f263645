"""The miniature's page, written from its results into `templates/page.md.j2`."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from benchmarks.protocol import DATASETS
from miniature.checks import Check, final_losses, mean_scores
from miniature.data_source import DataSource
from miniature.forms import FAMILIES, FORMS, SIZES, Form
from miniature.plan import PRETRAINED, Miniature
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


def read_timings(root: Path) -> dict[str, float]:
    """Return the CPU seconds of every part of the study, those of repeated calls added up."""
    seconds: dict[str, float] = dict.fromkeys((kind.part for kind in KINDS.values()), 0.0)
    for path in root.glob("logs/*/*.attempts.jsonl"):
        for row in map(json.loads, path.read_text("utf-8").splitlines()):
            # What earlier versions wrote has none.
            seconds[KINDS[path.parent.name].part] += row.get("cpu_seconds", 0.0)
    return seconds


def page(miniature: Miniature, runs: pd.DataFrame, results: list[Check]) -> str:
    """Return `docs/miniature.md` for a finished miniature; `-` stands for what was not measured."""
    form = miniature.form
    tokens = float(str(form.settings["global_batch"])) * (12 + float(str(form.settings["max_length"]))) / 2
    parameters = SHAPES[SIZES["m"]].encoder_parameters / form.shapes["m"].encoder_parameters
    environment = Environment(
        loader=PackageLoader("miniature"), undefined=StrictUndefined, keep_trailing_newline=True
    )
    return environment.get_template("page.md.j2").render(
        form=form,
        forms=FORMS.values(),
        source=miniature.source,
        runs=len(runs),
        seeds=runs["seed"].nunique(),
        tokens=tokens,
        timings=read_timings(miniature.root),
        families=list(FAMILIES),
        scores=mean_scores(form, runs),
        losses=final_losses(form, miniature.root / PRETRAINED),
        checks=results,
        parameter_share=_share(parameters),
        token_share=_share(TRAINING.tokens_per_step / tokens * form.scale),
    )


def _share(times: float) -> str:
    return f"1/{float(f'{times:.1g}'):,.0f}"
