"""Figures 8 and 9: continued pretraining with MLM on top of either decayed model, 610M (Tables 14-17)."""

from __future__ import annotations

from paper_figures.drawing.style import CLM, MLM
from paper_figures.positions import Position, cpt_steps, start_series
from paper_figures.task_figures import Groups, Lines, task_figure
from paper_figures.words import describe_differences
from pretraining.model_names import Model

__all__ = ["FIGURES", "GROUPS", "LOOKS", "before_and_after", "by_length"]

GROUPS = ("Base", "CPT")
LOOKS = {"MLM start": MLM, "CLM start": CLM}
_STEPS = 22_000


def before_and_after(model: Model) -> Position | None:
    """Return the point of a 610M base model, or of 22K steps of MLM at 40 % on top of one."""
    steps = cpt_steps(model)
    if steps not in (0, _STEPS) or model.size != "610m":
        return None
    return Position(series=start_series(model), x=GROUPS[1] if steps else GROUPS[0])


def by_length(model: Model) -> Position | None:
    """Return the point of a 610M base model (0) or of one continued with MLM at 40 %, x in thousands of steps."""
    steps = cpt_steps(model)
    if steps is None or model.size != "610m":
        return None
    return Position(series=start_series(model), x=steps / 1000)


FIGURES = {
    "8": task_figure(
        8,
        "Continued pretraining with MLM from either start",
        tables=(14, 15, 16, 17),
        position=before_and_after,
        looks=LOOKS,
        claim="F11",
        marks=Groups(groups=lambda _: GROUPS),
        seen="Points with intervals in four panels, one a task: the MLM start and the CLM start, before (Base) and "
        "after (CPT) 22K further steps of MLM.",
        numbers=lambda data: describe_differences(data, x_text=str),
        note="610M; CPT is 22K further steps of MLM at 40 % on the decayed 42K model (Base). "
        "Axes do not start at 0, and each panel has its own range.",
        continued=True,
    ),
    "9": task_figure(
        9,
        "Length of continued pretraining from either start",
        tables=(14, 15, 16, 17),
        position=by_length,
        looks=LOOKS,
        claim="F12",
        marks=Lines(x_label="Steps of continued pretraining with MLM (thousands)"),
        seen="Lines in four panels, one a task: score against the steps of continued pretraining with MLM, a line for "
        "the MLM start and one for the CLM start.",
        numbers=lambda data: describe_differences(data, x_text=lambda x: f"{x:g}K steps"),
        note="610M, MLM masks 40 %; 0 is the decayed 42K model. "
        "Axes do not start at 0, and each panel has its own range.",
        continued=True,
    ),
}
