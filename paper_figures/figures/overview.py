"""Figure 1: the two result panels of the overview, sequence classification at 610M (Tables 10 and 14).

The paper's figure also draws the two set-ups as diagrams; only its results are drawn here.
"""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from benchmarks.protocol import TASKS
from paper_figures.drawing.marks import draw_groups, draw_lines, score_bounds, write_names
from paper_figures.drawing.page import Panel, make_page
from paper_figures.drawing.style import RAMP_PURPLE, looks
from paper_figures.figure import FigureSpec, Inputs
from paper_figures.figures import continued, two_stage
from paper_figures.positions import BUDGET, Position, PositionRule
from paper_figures.task_figures import collect, continued_only, expected_points, refuse_empty
from paper_figures.words import describe_differences, describe_points
from pretraining.model_names import FIGURES, Model

__all__ = ["FIGURE"]

_SHARE, _CPT = "SC: CLM share", "SC: CPT"
_UNIT = f"SC: {TASKS['SC'].metric} (%)"


def position_by_share(model: Model) -> Position | None:
    """Return the point of a model of the full budget by its share of CLM, as in Figure 6."""
    return two_stage.at_610m(model) if model.steps == BUDGET else None


def draw(data: pd.DataFrame, heading: str, caption: str) -> Figure:
    """Return accuracy against the share of CLM, and before and after CPT."""
    shares, cpt = data[data["panel"] == _SHARE], data[data["panel"] == _CPT]
    look = looks(list(dict.fromkeys(cpt["series"])) or list(continued.LOOKS), continued.LOOKS)
    panels = (
        Panel(name=_SHARE, title="From scratch: CLM share of 42K steps (%)", unit=_UNIT),
        Panel(name=_CPT, title="Continued: 22K further steps of MLM", unit=_UNIT),
    )
    drawing, axes = make_page(
        heading=heading, panels=panels, x_label="", caption=caption, names=list(look), gap=1.0
    )
    line = looks(list(dict.fromkeys(shares["series"])), {"42K steps": RAMP_PURPLE[-1]})
    # One metric: both panels have one range, so that their values align.
    bounds, expected = score_bounds(data), expected_points(FIGURE.models, position_by_share)
    draw_lines(axes[_SHARE], shares, line, expected=expected, bounds=bounds)
    draw_groups(axes[_CPT], cpt, look, groups=continued.GROUPS, bounds=bounds)
    for panel, rows, its in ((_SHARE, shares, line), (_CPT, cpt, look)):
        if len(rows):
            write_names(axes[panel], rows, its)
    return drawing


def describe(data: pd.DataFrame) -> str:
    """Return what is seen."""
    shares, cpt = data[data["panel"] == _SHARE], data[data["panel"] == _CPT]
    parts = ["Two panels of accuracy (%) on sequence classification."]
    if len(shares):
        parts.append(describe_points(shares, x_text=lambda x: f"{x:g} % CLM",
                                     panel_text=lambda _: "A line against the share of CLM in 42K steps"))  # fmt: skip
    if len(cpt):
        parts.append(
            describe_differences(cpt, x_text=str, panel_text=lambda _: "Points before and after CPT")
        )
    return " ".join(parts)


def _collect(inputs: Inputs) -> pd.DataFrame:
    def part(position: PositionRule, *, others: bool = False) -> pd.DataFrame:
        return collect(FIGURE, position, inputs, panels=("SC",), required=False, others=others)

    shares = part(position_by_share).assign(panel=_SHARE)
    cpt = continued_only(part(continued.before_and_after, others=True), continued.LOOKS).assign(panel=_CPT)
    held = [rows for rows in (shares, cpt) if len(rows)]
    return refuse_empty(FIGURE, pd.concat(held or [shares], ignore_index=True), inputs)


FIGURE = FigureSpec(
    name="1",
    title="MLM with CLM before it, on sequence classification",
    collect=_collect,
    draw=draw,
    describe=describe,
    models=FIGURES[1],
    tables=(10, 14),
    note="610M, MLM masks 40 %. Both panels have one range, which does not start at 0.",
)
