"""Figure 11: the share of CLM at 1B, 42K steps (endpoints in Tables 2-5)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from paper_figures.drawing.layout import make_page, task_panels
from paper_figures.drawing.marks import draw_lines
from paper_figures.drawing.style import RAMP_PURPLE
from paper_figures.drawing.x_positions import BUDGET, clm_share, expected_points
from paper_figures.figure_data import Position, collect
from paper_figures.figure_types import PaperFigure
from paper_figures.inputs import Inputs
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
    page = make_page(title=FIGURE.heading, panels=task_panels(), caption=caption,
                     x_label="CLM share of the budget (%): 0 is MLM only, 100 CLM only")  # fmt: skip
    expected = expected_points(FIGURE.models, position)
    ticks = sorted({float(x) for x in data["x"]} | {0.0, 25.0, 100.0})
    for task, ax in page.axes.items():
        draw_lines(
            ax, data[data["panel"] == task], {_SERIES: RAMP_PURPLE[-1]}, expected=expected, ticks=ticks
        )
    return page.figure


def describe(data: pd.DataFrame) -> str:
    """Return what is seen."""
    return "Points in four panels, one a task: score against the share of CLM steps in 42K steps at 1B. " + (
        describe_points(data, x_text=lambda x: f"{x:g} % CLM")
    )


def _collect(inputs: Inputs) -> pd.DataFrame:
    return collect(FIGURE, position, inputs)


FIGURE = PaperFigure(
    name="11",
    title="CLM, then MLM, at 1B",
    collect=_collect,
    draw=draw,
    describe=describe,
    models=FIGURES[11],
    tables=(2, 3, 4, 5),
    note="42K steps, MLM masks 40 %. Axes do not start at 0, and each panel has its own range.",
)
