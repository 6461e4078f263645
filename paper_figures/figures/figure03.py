"""Figure 3: the masking ratio of MLM at three sizes, 42K steps (Tables 2-5)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from paper_figures.drawing.marks import draw_task_lines
from paper_figures.drawing.style import RAMP_BLUE, looks
from paper_figures.drawing.x_positions import BUDGET, expected_points
from paper_figures.figure_data import Position, collect
from paper_figures.figure_types import PaperFigure
from paper_figures.output.captions import describe_points
from pretraining.study import FIGURES, Model

__all__ = ["FIGURE"]

_LOOKS = dict(zip(("210M", "610M", "1B"), RAMP_BLUE, strict=True))


def position(model: Model) -> Position | None:
    """Return the point of an MLM base model of the full budget, whatever its ratio, on the line of its size."""
    if model.kind != "base" or model.steps != BUDGET or model.objective != "mlm" or model.ratio is None:
        return None
    return Position(series=model.size.upper(), x=float(model.ratio))


def draw(data: pd.DataFrame, caption: str) -> Figure:
    """Return lines over the masking ratio: a panel a task, a line a size."""
    look = looks(list(dict.fromkeys(data["series"])), _LOOKS)
    ticks = sorted({float(x) for x in data["x"]})
    return draw_task_lines(
        FIGURE.heading, data, caption, look, x_label="Masking ratio (%)",
        expected=expected_points(FIGURE.models, position), ticks=ticks,
    )  # fmt: skip


def describe(data: pd.DataFrame) -> str:
    """Return what is seen."""
    return (
        "Lines in four panels, one a task: score against the masking ratio of MLM, a line a model size. "
        + (describe_points(data, x_text=lambda x: f"{x:g} % masking"))
    )


FIGURE: PaperFigure = PaperFigure(
    name="3",
    title="MLM masking ratio by model size",
    collect=lambda inputs: collect(FIGURE, position, inputs),
    draw=draw,
    describe=describe,
    models=FIGURES[3],
    tables=(2, 3, 4, 5),
    note="42K steps. Axes do not start at 0, and each panel has its own range.",
)
