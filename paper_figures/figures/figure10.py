"""Figure 10: scores along pretraining as Figure 4, over training FLOPs (Tables 6-9)."""

from __future__ import annotations

from paper_figures.drawing.style import CLM, MLM
from paper_figures.positions import Position, objective_series
from paper_figures.task_figures import Lines, task_figure
from paper_figures.words import describe_differences
from pretraining.model_names import Model
from pretraining.paper_settings import SHAPES, TRAINING
from pretraining.plan.flops import hoffmann_flops_per_token

__all__ = ["FIGURE", "training_flops"]

_UNIT = 1e20


def training_flops(model: Model) -> float:
    """Return the FLOPs of all steps of `model` by Hoffmann et al., which charges MLM like CLM."""
    return hoffmann_flops_per_token(SHAPES[model.size]) * TRAINING.tokens_per_step * model.steps


def position(model: Model) -> Position | None:
    """Return the point of an undecayed checkpoint, x in 1e20 FLOPs, on the line of its objective."""
    if model.kind != "intermediate" or model.size not in SHAPES:
        return None
    return Position(series=objective_series(model), x=training_flops(model) / _UNIT)


def _ticks(flops: set[float]) -> list[float]:
    most = max(flops)
    return [0.0, *(tick for tick in range(1, int(most) + 1))] if most < 8 else [0.0, most]


FIGURE = task_figure(
    10,
    "MLM and CLM over training compute",
    tables=(6, 7, 8, 9),
    position=position,
    looks={"MLM": MLM, "CLM": CLM},
    claim="F6",
    marks=Lines(x_label="Training FLOPs (10\u00b2\u2070)", ticks=_ticks, dodge=False),
    seen="Lines in four panels, one a task: score against training FLOPs, a line for MLM and one for CLM.",
    numbers=lambda data: describe_differences(data, x_text=lambda x: f"{x:.2f}e20 FLOPs"),
    note="610M, checkpoints before any decay; MLM masks 40 %; FLOPs by Hoffmann et al. (2022), Appendix F, alike for "
    "both objectives. Axes do not start at 0, and each panel has its own range.",
)
