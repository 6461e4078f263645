"""Figures 2, 4 and 10: MLM against CLM by model size (Tables 2-5), along pretraining and by FLOPs (Tables 6-9)."""

from __future__ import annotations

from paper_figures.drawing.style import CLM, MLM
from paper_figures.positions import BUDGET, Position, objective_series, size_rank
from paper_figures.task_figures import Groups, Lines, task_figure
from paper_figures.words import describe_differences
from pretraining.model_names import Model
from pretraining.paper_settings import SHAPES, TRAINING
from pretraining.plan.flops import hoffmann_flops_per_token

__all__ = ["FIGURES", "by_flops", "by_size", "by_steps", "training_flops"]

_LOOKS = {"MLM": MLM, "CLM": CLM}


def by_size(model: Model) -> Position | None:
    """Return the point of a base model of the full budget: MLM at 40 % or CLM, in the group of its size."""
    if model.kind != "base" or model.steps != BUDGET or model.ratio not in (40, None):
        return None
    return Position(series=model.objective.upper(), x=model.size.upper())


def by_steps(model: Model) -> Position | None:
    """Return the point of an undecayed checkpoint, x in thousands of steps, on the line of its objective."""
    if model.kind != "intermediate":
        return None
    return Position(series=objective_series(model), x=model.steps / 1000)


def by_flops(model: Model) -> Position | None:
    """Return the point of an undecayed checkpoint, x in 1e20 FLOPs, on the line of its objective."""
    if model.kind != "intermediate" or model.size not in SHAPES:
        return None
    return Position(series=objective_series(model), x=training_flops(model) / 1e20)


def training_flops(model: Model) -> float:
    """Return the FLOPs of all steps of `model` by Hoffmann et al., which charges MLM like CLM."""
    return hoffmann_flops_per_token(SHAPES[model.size]) * TRAINING.tokens_per_step * model.steps


def _flops_ticks(flops: set[float]) -> list[float]:
    most = max(flops)
    return [0.0, *(tick for tick in range(1, int(most) + 1))] if most < 8 else [0.0, most]


FIGURES = {
    "2": task_figure(
        2,
        "MLM and CLM by model size",
        tables=(2, 3, 4, 5),
        position=by_size,
        looks=_LOOKS,
        claim="F1",
        marks=Groups(x_label="Model size", groups=lambda sizes: sorted(sizes, key=size_rank)),
        seen="Points with intervals in four panels, one a task: MLM at 40 % and CLM at each model size.",
        numbers=lambda data: describe_differences(data, x_text=str),
        note="MLM masks 40 %; 42K steps. Axes do not start at 0, and each panel has its own range.",
    ),
    "4": task_figure(
        4,
        "MLM and CLM along pretraining",
        tables=(6, 7, 8, 9),
        position=by_steps,
        looks=_LOOKS,
        claim="F6",
        marks=Lines(x_label="Pretraining steps (thousands, logarithmic)", log_x=True),
        seen="Lines in four panels, one a task: score against the pretraining step, a line for MLM and one for CLM.",
        numbers=lambda data: describe_differences(data, x_text=lambda x: f"{x:g}K steps"),
        note="610M, checkpoints before any decay; MLM masks 40 %. "
        "Axes do not start at 0, and each panel has its own range.",
    ),
    "10": task_figure(
        10,
        "MLM and CLM over training compute",
        tables=(6, 7, 8, 9),
        position=by_flops,
        looks=_LOOKS,
        claim="F6",
        marks=Lines(x_label="Training FLOPs (10\u00b2\u2070)", ticks=_flops_ticks, dodge=False),
        seen="Lines in four panels, one a task: score against training FLOPs, a line for MLM and one for CLM.",
        numbers=lambda data: describe_differences(data, x_text=lambda x: f"{x:.2f}e20 FLOPs"),
        note="610M, checkpoints before any decay; MLM masks 40 %; FLOPs by Hoffmann et al. (2022), Appendix F, alike "
        "for both objectives. Axes do not start at 0, and each panel has its own range.",
    ),
}
