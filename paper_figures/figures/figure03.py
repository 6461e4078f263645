"""Figure 3: the masking ratio of MLM at three sizes, 42K steps (Tables 2-5)."""

from __future__ import annotations

from paper_figures.drawing.style import RAMP_BLUE
from paper_figures.positions import BUDGET, Position
from paper_figures.task_figures import Lines, task_figure
from paper_figures.words import describe_points
from pretraining.model_names import Model

__all__ = ["FIGURE"]


def position(model: Model) -> Position | None:
    """Return the point of an MLM base model of the full budget, whatever its ratio, on the line of its size."""
    if model.kind != "base" or model.steps != BUDGET or model.objective != "mlm" or model.ratio is None:
        return None
    return Position(series=model.size.upper(), x=float(model.ratio))


FIGURE = task_figure(
    3,
    "MLM masking ratio by model size",
    tables=(2, 3, 4, 5),
    position=position,
    looks=dict(zip(("210M", "610M", "1B"), RAMP_BLUE, strict=True)),
    claim="F5a",
    marks=Lines(x_label="Masking ratio (%)"),
    seen="Lines in four panels, one a task: score against the masking ratio of MLM, a line a model size.",
    numbers=lambda data: describe_points(data, x_text=lambda x: f"{x:g} % masking"),
    note="42K steps. Axes do not start at 0, and each panel has its own range.",
)
