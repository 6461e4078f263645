"""Figure 2: MLM against CLM at three sizes, 42K steps (Tables 2-5)."""

from __future__ import annotations

from paper_figures.drawing.style import CLM, MLM
from paper_figures.positions import BUDGET, Position, size_rank
from paper_figures.task_figures import Groups, task_figure
from paper_figures.words import describe_differences
from pretraining.model_names import Model

__all__ = ["FIGURE"]


def position(model: Model) -> Position | None:
    """Return the point of a base model of the full budget: MLM at 40 % or CLM, in the group of its size."""
    if model.kind != "base" or model.steps != BUDGET or model.ratio not in (40, None):
        return None
    return Position(series=model.objective.upper(), x=model.size.upper())


FIGURE = task_figure(
    2,
    "MLM and CLM by model size",
    tables=(2, 3, 4, 5),
    position=position,
    looks={"MLM": MLM, "CLM": CLM},
    claim="F1",
    marks=Groups(x_label="Model size", groups=lambda sizes: sorted(sizes, key=size_rank)),
    seen="Points with intervals in four panels, one a task: MLM at 40 % and CLM at each model size.",
    numbers=lambda data: describe_differences(data, x_text=str),
    note="MLM masks 40 %; 42K steps. Axes do not start at 0, and each panel has its own range.",
)
