"""Figure 6: the share of CLM in a fixed budget of CLM and then MLM, 610M (Tables 10-13)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from paper_figures.drawing.layout import make_page, task_panels
from paper_figures.drawing.marks import draw_lines, line_handles
from paper_figures.drawing.style import RAMP_PURPLE, looks
from paper_figures.drawing.x_positions import clm_share, expected_points
from paper_figures.figure_data import Position, collect
from paper_figures.figure_types import PaperFigure
from paper_figures.inputs import Inputs
from paper_figures.output.captions import describe_points
from pretraining.study import FIGURES, Model, format_steps

__all__ = ["FIGURE"]

_LOOKS = dict(zip(("12K steps", "22K steps", "42K steps"), RAMP_PURPLE, strict=True))


def position(model: Model) -> Position | None:
    """Return the point of a 610M model of MLM (40 %), CLM or CLM and then MLM, on the line of its budget."""
    share = clm_share(model)
    if share is None or model.size != "610m" or model.kind not in ("base", "two-stage"):
        return None
    return Position(series=f"{format_steps(model.steps).upper()} steps", x=share)


def draw(data: pd.DataFrame, caption: str) -> Figure:
    """Return lines over the share of CLM: a panel a task, a line a budget."""
    look = looks(list(dict.fromkeys(data["series"])), _LOOKS)
    page = make_page(title=FIGURE.heading, panels=task_panels(), caption=caption, handles=line_handles(look),
                     x_label="CLM share of the budget (%): 0 is MLM only, 100 CLM only")  # fmt: skip
    expected = expected_points(FIGURE.models, position)
    ticks = sorted({float(x) for x in data["x"]} | {0.0, 100.0})
    for task, ax in page.axes.items():
        draw_lines(ax, data[data["panel"] == task], look, expected=expected, ticks=ticks)
    return page.figure


def describe(data: pd.DataFrame) -> str:
    """Return what is seen."""
    return (
        "Lines in four panels, one a task: score against the share of CLM steps in the budget, a line a budget. "
        + describe_points(data, x_text=lambda x: f"{x:g} % CLM")
    )


def _collect(inputs: Inputs) -> pd.DataFrame:
    return collect(FIGURE, position, inputs)


FIGURE = PaperFigure(
    name="6",
    title="CLM, then MLM, within one budget",
    collect=_collect,
    draw=draw,
    describe=describe,
    models=FIGURES[6],
    tables=(10, 11, 12, 13),
    note="610M, MLM masks 40 %. Shares are nominal: the splits are whole thousands of steps. "
    "Axes do not start at 0, and each panel has its own range.",
)
