"""Figure 6: the share of CLM in a fixed budget of CLM and then MLM, 610M (Tables 10-13)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from paper_figures.drawing.marks import draw_task_lines
from paper_figures.drawing.style import RAMP_PURPLE, looks
from paper_figures.drawing.x_positions import clm_share, expected_points
from paper_figures.figure_data import Position, collect
from paper_figures.figure_types import PaperFigure
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
    ticks = sorted({float(x) for x in data["x"]} | {0.0, 100.0})
    return draw_task_lines(
        FIGURE.heading, data, caption, look, x_label="CLM share of the budget (%): 0 is MLM only, 100 CLM only",
        expected=expected_points(FIGURE.models, position), ticks=ticks,
    )  # fmt: skip


def describe(data: pd.DataFrame) -> str:
    """Return what is seen."""
    return (
        "Lines in four panels, one a task: score against the share of CLM steps in the budget, a line a budget. "
        + describe_points(data, x_text=lambda x: f"{x:g} % CLM")
    )


FIGURE: PaperFigure = PaperFigure(
    name="6",
    title="CLM, then MLM, within one budget",
    collect=lambda inputs: collect(FIGURE, position, inputs),
    draw=draw,
    describe=describe,
    models=FIGURES[6],
    tables=(10, 11, 12, 13),
    note="610M, MLM masks 40 %. Shares are nominal: the splits are whole thousands of steps. "
    "Axes do not start at 0, and each panel has its own range.",
)
