"""Figure 6: the share of CLM in a fixed budget of CLM and then MLM, 610M (Tables 10-13)."""

from __future__ import annotations

from paper_figures.drawing.style import RAMP_PURPLE
from paper_figures.positions import Position, clm_share
from paper_figures.task_figures import Lines, task_figure
from paper_figures.words import describe_points
from pretraining.model_names import Model, format_steps

__all__ = ["FIGURE", "X_LABEL"]

X_LABEL = "CLM share of the budget (%): 0 is MLM only, 100 CLM only"


def position(model: Model) -> Position | None:
    """Return the point of a 610M model of MLM (40 %), CLM or CLM and then MLM, on the line of its budget."""
    share = clm_share(model)
    if share is None or model.size != "610m" or model.kind not in ("base", "two-stage"):
        return None
    return Position(series=f"{format_steps(model.steps).upper()} steps", x=share)


FIGURE = task_figure(
    6,
    "CLM, then MLM, within one budget",
    tables=(10, 11, 12, 13),
    position=position,
    looks=dict(zip(("12K steps", "22K steps", "42K steps"), RAMP_PURPLE, strict=True)),
    claim="F8",
    marks=Lines(x_label=X_LABEL, ticks=lambda shares: sorted(shares | {0.0, 100.0})),
    seen="Lines in four panels, one a task: score against the share of CLM steps in the budget, a line a budget.",
    numbers=lambda data: describe_points(data, x_text=lambda x: f"{x:g} % CLM"),
    note="610M, MLM masks 40 %. Shares are nominal: the splits are whole thousands of steps. "
    "Axes do not start at 0, and each panel has its own range.",
)
