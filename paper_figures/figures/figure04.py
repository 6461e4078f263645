"""Figure 4: scores along pretraining, MLM and CLM at 610M (Tables 6-9)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from paper_figures.drawing.marks import draw_task_lines
from paper_figures.drawing.style import CLM, MLM, looks
from paper_figures.drawing.x_positions import expected_points, objective_series
from paper_figures.figure_data import Position, collect
from paper_figures.figure_types import PaperFigure
from paper_figures.output.captions import describe_differences
from pretraining.study import FIGURES, Model

__all__ = ["FIGURE"]

_LOOKS = {"MLM": MLM, "CLM": CLM}


def position(model: Model) -> Position | None:
    """Return the point of an undecayed checkpoint, x in thousands of steps, on the line of its objective."""
    if model.kind != "intermediate":
        return None
    return Position(series=objective_series(model), x=model.steps / 1000)


def draw(data: pd.DataFrame, caption: str) -> Figure:
    """Return lines over the step, on a logarithmic axis: a panel a task."""
    look = looks(list(dict.fromkeys(data["series"])), _LOOKS)
    ticks = sorted({float(x) for x in data["x"]})
    return draw_task_lines(
        FIGURE.heading, data, caption, look, x_label="Pretraining steps (thousands, logarithmic)",
        expected=expected_points(FIGURE.models, position), ticks=ticks, log_x=True,
    )  # fmt: skip


def describe(data: pd.DataFrame) -> str:
    """Return what is seen."""
    return (
        "Lines in four panels, one a task: score against the pretraining step, a line for MLM and one for CLM. "
        + describe_differences(data, x_text=lambda x: f"{x:g}K steps")
    )


FIGURE: PaperFigure = PaperFigure(
    name="4",
    title="MLM and CLM along pretraining",
    collect=lambda inputs: collect(FIGURE, position, inputs),
    draw=draw,
    describe=describe,
    models=FIGURES[4],
    tables=(6, 7, 8, 9),
    note="610M, checkpoints before any decay; MLM masks 40 %. "
    "Axes do not start at 0, and each panel has its own range.",
)
