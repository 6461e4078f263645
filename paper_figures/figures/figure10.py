"""Figure 10: scores along pretraining as Figure 4, over training FLOPs (Tables 6-9)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from paper_figures.drawing.marks import draw_task_lines
from paper_figures.drawing.style import CLM, MLM, looks
from paper_figures.drawing.x_positions import expected_points, objective_series
from paper_figures.figure_data import Position, collect
from paper_figures.figure_types import PaperFigure
from paper_figures.output.captions import describe_differences
from pretraining.paper_settings import SHAPES, TRAINING
from pretraining.plan.flops import hoffmann_flops_per_token
from pretraining.study import FIGURES, Model

__all__ = ["FIGURE", "training_flops"]

_LOOKS = {"MLM": MLM, "CLM": CLM}
_UNIT = 1e20


def training_flops(model: Model) -> float:
    """Return the FLOPs of all steps of `model` by Hoffmann et al., which charges MLM like CLM."""
    return hoffmann_flops_per_token(SHAPES[model.size]) * TRAINING.tokens_per_step * model.steps


def position(model: Model) -> Position | None:
    """Return the point of an undecayed checkpoint, x in 1e20 FLOPs, on the line of its objective."""
    if model.kind != "intermediate" or model.size not in SHAPES:
        return None
    return Position(series=objective_series(model), x=training_flops(model) / _UNIT)


def draw(data: pd.DataFrame, caption: str) -> Figure:
    """Return lines over FLOPs: a panel a task."""
    look = looks(list(dict.fromkeys(data["series"])), _LOOKS)
    most = max(float(x) for x in data["x"])
    ticks = [0.0, *(tick for tick in range(1, int(most) + 1))] if most < 8 else [0.0, most]
    return draw_task_lines(
        FIGURE.heading, data, caption, look, x_label="Training FLOPs (10\u00b2\u2070)",
        expected=expected_points(FIGURE.models, position), ticks=ticks,
    )  # fmt: skip


def describe(data: pd.DataFrame) -> str:
    """Return what is seen."""
    return (
        "Lines in four panels, one a task: score against training FLOPs, a line for MLM and one for CLM. "
        + describe_differences(data, x_text=lambda x: f"{x:.2f}e20 FLOPs")
    )


FIGURE: PaperFigure = PaperFigure(
    name="10",
    title="MLM and CLM over training compute",
    collect=lambda inputs: collect(FIGURE, position, inputs),
    draw=draw,
    describe=describe,
    models=FIGURES[10],
    tables=(6, 7, 8, 9),
    note="610M, checkpoints before any decay; MLM masks 40 %; FLOPs by Hoffmann et al. (2022), Appendix F, alike for "
    "both objectives. Axes do not start at 0, and each panel has its own range.",
)
