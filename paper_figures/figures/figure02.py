"""Figure 2: MLM against CLM at three sizes, 42K steps (Tables 2-5)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from paper_figures.drawing.layout import make_page, task_panels
from paper_figures.drawing.marks import bar_handles, draw_bars
from paper_figures.drawing.style import CLM, MLM, looks
from paper_figures.drawing.x_positions import BUDGET
from paper_figures.figure_data import Position, collect, size_rank
from paper_figures.figure_types import PaperFigure
from paper_figures.output.captions import describe_differences
from pretraining.study import FIGURES, Model

__all__ = ["FIGURE"]

_LOOKS = {"MLM": MLM, "CLM": CLM}


def position(model: Model) -> Position | None:
    """Return the bar of a base model of the full budget: MLM at 40 % or CLM, in the group of its size."""
    if model.kind != "base" or model.steps != BUDGET or model.ratio not in (40, None):
        return None
    return Position(series=model.objective.upper(), x=model.size.upper())


def draw(data: pd.DataFrame, caption: str) -> Figure:
    """Return grouped bars: a panel a task, a group a size."""
    look = looks(list(dict.fromkeys(data["series"])), _LOOKS)
    groups = sorted(dict.fromkeys(data["x"]), key=size_rank)
    page = make_page(title=FIGURE.heading, panels=task_panels(), x_label="Model size", caption=caption,
                     handles=bar_handles(look))  # fmt: skip
    for task, ax in page.axes.items():
        draw_bars(ax, data[data["panel"] == task], look, groups=groups)
    return page.figure


def describe(data: pd.DataFrame) -> str:
    """Return what is seen."""
    return "Grouped bars in four panels, one a task: MLM at 40 % and CLM at each model size. " + (
        describe_differences(data, x_text=str)
    )


FIGURE: PaperFigure = PaperFigure(
    name="2",
    title="MLM and CLM by model size",
    collect=lambda inputs: collect(FIGURE, position, inputs),
    draw=draw,
    describe=describe,
    models=FIGURES[2],
    tables=(2, 3, 4, 5),
    note="MLM masks 40 %; 42K steps. Axes marked // do not start at 0, and each panel has its own range.",
)
