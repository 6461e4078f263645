"""Figure 9: the length of continued pretraining with MLM, from either decayed model, 610M (Tables 14-17)."""

from __future__ import annotations

from paper_figures.figures.figure08 import LOOKS
from paper_figures.positions import Position, cpt_steps, start_series
from paper_figures.task_figures import Lines, task_figure
from paper_figures.words import describe_differences
from pretraining.model_names import Model

__all__ = ["FIGURE"]


def position(model: Model) -> Position | None:
    """Return the point of a 610M base model (0) or of one continued with MLM at 40 %, x in thousands of steps."""
    steps = cpt_steps(model)
    if steps is None or model.size != "610m":
        return None
    return Position(series=start_series(model), x=steps / 1000)


FIGURE = task_figure(
    9,
    "Length of continued pretraining from either start",
    tables=(14, 15, 16, 17),
    position=position,
    looks=LOOKS,
    claim="F12",
    marks=Lines(x_label="Steps of continued pretraining with MLM (thousands)"),
    seen="Lines in four panels, one a task: score against the steps of continued pretraining with MLM, a line for "
    "the MLM start and one for the CLM start.",
    numbers=lambda data: describe_differences(data, x_text=lambda x: f"{x:g}K steps"),
    note="610M, MLM masks 40 %; 0 is the decayed 42K model. "
    "Axes do not start at 0, and each panel has its own range.",
    continued=True,
)
