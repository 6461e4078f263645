"""Figure 11: the share of CLM at 1B, 42K steps (endpoints in Tables 2-5)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from paper_figures.drawing.marks import draw_task_lines
from paper_figures.drawing.style import RAMP_PURPLE
from paper_figures.drawing.x_positions import BUDGET, clm_share, expected_points
from paper_figures.figure_data import Position, collect
from paper_figures.figure_types import PaperFigure
from paper_figures.output.captions import describe_points
from pretraining.study import FIGURES, Model

__all__ = ["FIGURE"]

_SERIES = "1B"


def position(model: Model) -> Position | None:
    """Return the point of a 1B model of the full budget by its share of CLM."""
    share = clm_share(model)
    if (
        share is None
        or model.size != "1b"
        or model.steps != BUDGET
        or model.kind not in ("base", "two-stage")
    ):
        return None
    return Position(series=_SERIES, x=share)


def draw(data: pd.DataFrame, caption: str) -> Figure:
    """Return one line over the share of CLM: a panel a task."""
    ticks = sorted({float(x) for x in data["x"]} | {0.0, 25.0, 100.0})
    return draw_task_lines(
        FIGURE.heading, data, caption, {_SERIES: RAMP_PURPLE[-1]},
        x_label="CLM share of the budget (%): 0 is MLM only, 100 CLM only",
        expected=expected_points(FIGURE.models, position), ticks=ticks, legend=False,
    )  # fmt: skip


def describe(data: pd.DataFrame) -> str:
    """Return what is seen."""
    return "Points in four panels, one a task: score against the share of CLM steps in 42K steps at 1B. " + (
        describe_points(data, x_text=lambda x: f"{x:g} % CLM")
    )


FIGURE: PaperFigure = PaperFigure(
    name="11",
    title="CLM, then MLM, at 1B",
    collect=lambda inputs: collect(FIGURE, position, inputs),
    draw=draw,
    describe=describe,
    models=FIGURES[11],
    tables=(2, 3, 4, 5),
    note="42K steps, MLM masks 40 %. Axes do not start at 0, and each panel has its own range.",
)
