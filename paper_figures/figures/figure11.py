"""Figure 11: the share of CLM at 1B, 42K steps (endpoints in Tables 2-5)."""

from __future__ import annotations

from paper_figures.drawing.style import RAMP_PURPLE
from paper_figures.figures.figure06 import X_LABEL
from paper_figures.positions import BUDGET, Position, clm_share
from paper_figures.task_figures import Lines, task_figure
from paper_figures.words import describe_points
from pretraining.model_names import Model

__all__ = ["FIGURE"]

_SERIES = "1B"


def position(model: Model) -> Position | None:
    """Return the point of a 1B model of the full budget by its share of CLM."""
    share = clm_share(model)
    mixes = model.kind in ("base", "two-stage")
    if share is None or model.size != "1b" or model.steps != BUDGET or not mixes:
        return None
    return Position(series=_SERIES, x=share)


FIGURE = task_figure(
    11,
    "CLM, then MLM, at 1B",
    tables=(2, 3, 4, 5),
    position=position,
    looks={_SERIES: RAMP_PURPLE[-1]},
    marks=Lines(x_label=X_LABEL, ticks=lambda shares: sorted(shares | {0.0, 25.0, 100.0}), named=False),
    seen="Points in four panels, one a task: score against the share of CLM steps in 42K steps at 1B.",
    numbers=lambda data: describe_points(data, x_text=lambda x: f"{x:g} % CLM"),
    note="42K steps, MLM masks 40 %. Axes do not start at 0, and each panel has its own range.",
)
