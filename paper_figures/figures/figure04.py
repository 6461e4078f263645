"""Figure 4: scores along pretraining, MLM and CLM at 610M (Tables 6-9)."""

from __future__ import annotations

from paper_figures.drawing.style import CLM, MLM
from paper_figures.positions import Position, objective_series
from paper_figures.task_figures import Lines, task_figure
from paper_figures.words import describe_differences
from pretraining.model_names import Model

__all__ = ["FIGURE"]


def position(model: Model) -> Position | None:
    """Return the point of an undecayed checkpoint, x in thousands of steps, on the line of its objective."""
    if model.kind != "intermediate":
        return None
    return Position(series=objective_series(model), x=model.steps / 1000)


FIGURE = task_figure(
    4,
    "MLM and CLM along pretraining",
    tables=(6, 7, 8, 9),
    position=position,
    looks={"MLM": MLM, "CLM": CLM},
    claim="F6",
    marks=Lines(x_label="Pretraining steps (thousands, logarithmic)", log_x=True),
    seen="Lines in four panels, one a task: score against the pretraining step, a line for MLM and one for CLM.",
    numbers=lambda data: describe_differences(data, x_text=lambda x: f"{x:g}K steps"),
    note="610M, checkpoints before any decay; MLM masks 40 %. "
    "Axes do not start at 0, and each panel has its own range.",
)
