"""The masking ratios of Figure 3 as lines over the model size."""

from paper_figures.figures.figures2_11 import BUDGET
from paper_figures.figures.task_figures import AxisPosition, TaskFigure, size_rank
from pretraining.models import Model
from pretraining.paper_models import FIGURE_MODELS


def position(model: Model) -> AxisPosition | None:
    """Return the point of a full-budget MLM base model on its ratio's line."""
    if model.kind != "base" or model.steps != BUDGET or model.objective != "mlm":
        return None
    return AxisPosition(series=f"{model.ratio} %", x=size_rank(model.size) / 1e6)


FIGURES = (
    TaskFigure(
        name="ratios",
        title="Model size by MLM masking ratio",
        models=FIGURE_MODELS[3],
        tables="Tables 2\u20135",
        position=position,
        x_label="Parameters (millions)",
        log_x=True,
        x_text="{:g}M",
        note="42K steps",
    ),
)
