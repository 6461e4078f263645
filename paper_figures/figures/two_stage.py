"""Figures 6 and 11: the share of CLM in a fixed budget, at 610M (Tables 10-13) and 1B (endpoints in Tables 2-5)."""

from __future__ import annotations

from paper_figures.drawing.style import RAMP_PURPLE
from paper_figures.positions import BUDGET, Position, clm_share
from paper_figures.task_figures import Lines, task_figure
from paper_figures.words import describe_points
from pretraining.model_names import Model, format_steps

__all__ = ["FIGURES", "at_1b", "at_610m"]

_X_LABEL = "CLM share of the budget (%): 0 is MLM only, 100 CLM only"


def at_610m(model: Model) -> Position | None:
    """Return the point of a 610M model of MLM (40 %), CLM or CLM and then MLM, on the line of its budget."""
    share = clm_share(model)
    if share is None or model.size != "610m" or model.kind not in ("base", "two-stage"):
        return None
    return Position(series=f"{format_steps(model.steps).upper()} steps", x=share)


def at_1b(model: Model) -> Position | None:
    """Return the point of a 1B model of the full budget by its share of CLM."""
    share = clm_share(model)
    mixes = model.kind in ("base", "two-stage")
    if share is None or model.size != "1b" or model.steps != BUDGET or not mixes:
        return None
    return Position(series="1B", x=share)


FIGURES = {
    "6": task_figure(
        6,
        "CLM, then MLM, within one budget",
        tables=(10, 11, 12, 13),
        position=at_610m,
        looks=dict(zip(("12K steps", "22K steps", "42K steps"), RAMP_PURPLE, strict=True)),
        claim="F8",
        marks=Lines(x_label=_X_LABEL, ticks=lambda shares: sorted(shares | {0.0, 100.0})),
        seen="Lines in four panels, one a task: score against the share of CLM steps in the budget, a line a budget.",
        numbers=lambda data: describe_points(data, x_text=lambda x: f"{x:g} % CLM"),
        note="610M, MLM masks 40 %. Shares are nominal: the splits are whole thousands of steps. "
        "Axes do not start at 0, and each panel has its own range.",
    ),
    "11": task_figure(
        11,
        "CLM, then MLM, at 1B",
        tables=(2, 3, 4, 5),
        position=at_1b,
        looks={"1B": RAMP_PURPLE[-1]},
        marks=Lines(x_label=_X_LABEL, ticks=lambda shares: sorted(shares | {0.0, 25.0, 100.0}), named=False),
        seen="Points in four panels, one a task: score against the share of CLM steps in 42K steps at 1B.",
        numbers=lambda data: describe_points(data, x_text=lambda x: f"{x:g} % CLM"),
        note="42K steps, MLM masks 40 %. Axes do not start at 0, and each panel has its own range.",
    ),
}
