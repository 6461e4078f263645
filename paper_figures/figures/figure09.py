"""Figure 9: the length of continued pretraining with MLM, from either decayed model, 610M (Tables 14-17)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from paper_figures.drawing.marks import draw_task_lines
from paper_figures.drawing.style import looks
from paper_figures.drawing.x_positions import continued_only, cpt_steps, expected_points, start_series
from paper_figures.figure_data import Position, collect, refuse_empty
from paper_figures.figure_types import PaperFigure
from paper_figures.figures.figure08 import LOOKS
from paper_figures.inputs import Inputs
from paper_figures.output.captions import describe_differences
from pretraining.study import FIGURES, Model

__all__ = ["FIGURE"]


def position(model: Model) -> Position | None:
    """Return the point of a 610M base model (0) or of one continued with MLM at 40 %, x in thousands of steps."""
    steps = cpt_steps(model)
    if steps is None or model.size != "610m":
        return None
    return Position(series=start_series(model), x=steps / 1000)


def draw(data: pd.DataFrame, caption: str) -> Figure:
    """Return lines over the CPT steps: a panel a task, a line a start."""
    look = looks(list(dict.fromkeys(data["series"])), LOOKS)
    ticks = sorted({float(x) for x in data["x"]})
    return draw_task_lines(
        FIGURE.heading, data, caption, look, x_label="Steps of continued pretraining with MLM (thousands)",
        expected=expected_points(FIGURE.models, position), ticks=ticks,
    )  # fmt: skip


def describe(data: pd.DataFrame) -> str:
    """Return what is seen."""
    return (
        "Lines in four panels, one a task: score against the steps of continued pretraining with MLM, a line for "
        "the MLM start and one for the CLM start. "
        + describe_differences(data, x_text=lambda x: f"{x:g}K steps")
    )


def _collect(inputs: Inputs) -> pd.DataFrame:
    return refuse_empty(FIGURE, continued_only(collect(FIGURE, position, inputs, others=True), LOOKS), inputs)


FIGURE = PaperFigure(
    name="9",
    title="Length of continued pretraining from either start",
    collect=_collect,
    draw=draw,
    describe=describe,
    models=FIGURES[9],
    tables=(14, 15, 16, 17),
    note="610M, MLM masks 40 %; 0 is the decayed 42K model. "
    "Axes do not start at 0, and each panel has its own range.",
)
