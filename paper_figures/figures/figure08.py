"""Figure 8: 22K steps of MLM on top of either decayed model, 610M (Tables 14-17)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from paper_figures.drawing.layout import make_page, task_panels
from paper_figures.drawing.marks import bar_handles, draw_bars
from paper_figures.drawing.style import CLM, MLM, looks
from paper_figures.drawing.x_positions import continued_only, cpt_steps, start_series
from paper_figures.figure_data import Position, collect, refuse_empty
from paper_figures.figure_types import PaperFigure
from paper_figures.inputs import Inputs
from paper_figures.output.captions import describe_differences
from pretraining.study import FIGURES, Model

__all__ = ["FIGURE", "GROUPS", "LOOKS", "position"]

GROUPS = ("Base", "CPT")
LOOKS = {"MLM start": MLM, "CLM start": CLM}
_STEPS = 22_000


def position(model: Model) -> Position | None:
    """Return the bar of a 610M base model, or of 22K steps of MLM at 40 % on top of one."""
    steps = cpt_steps(model)
    if steps not in (0, _STEPS) or model.size != "610m":
        return None
    return Position(series=start_series(model), x=GROUPS[1] if steps else GROUPS[0])


def draw(data: pd.DataFrame, caption: str) -> Figure:
    """Return grouped bars: a panel a task, a group before and one after CPT."""
    look = looks(list(dict.fromkeys(data["series"])), LOOKS)
    page = make_page(title=FIGURE.heading, panels=task_panels(), x_label="", caption=caption,
                     handles=bar_handles(look))  # fmt: skip
    for task, ax in page.axes.items():
        draw_bars(ax, data[data["panel"] == task], look, groups=GROUPS)
    return page.figure


def describe(data: pd.DataFrame) -> str:
    """Return what is seen."""
    return (
        "Grouped bars in four panels, one a task: the MLM start and the CLM start, before (Base) and after (CPT) "
        "22K further steps of MLM. " + describe_differences(data, x_text=str)
    )


def _collect(inputs: Inputs) -> pd.DataFrame:
    return refuse_empty(FIGURE, continued_only(collect(FIGURE, position, inputs, others=True), LOOKS), inputs)


FIGURE = PaperFigure(
    name="8",
    title="Continued pretraining with MLM from either start",
    collect=_collect,
    draw=draw,
    describe=describe,
    models=FIGURES[8],
    tables=(14, 15, 16, 17),
    note="610M; CPT is 22K further steps of MLM at 40 % on the decayed 42K model (Base). "
    "Axes marked // do not start at 0, and each panel has its own range.",
)
