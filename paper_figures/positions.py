"""Rules that several figures share: at which x, and in which series, a model is drawn."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from pretraining.model_names import FIGURES, Model

__all__ = [
    "BUDGET", "Position", "PositionRule", "clm_share", "cpt_steps", "objective_series", "size_rank", "start_series",
]  # fmt: skip

BUDGET = 42_000
"""Steps of the paper's full budget."""
_SPLITS = frozenset(FIGURES[6] + FIGURES[11])


@dataclass(frozen=True, kw_only=True)
class Position:
    """Where a figure draws a model."""

    series: str
    """Name in the legend."""
    x: float | str
    """Value on the x axis, or name of a group of points."""


PositionRule = Callable[[Model], Position | None]
"""A figure's rule: a model's position, or None for a model that the figure does not show."""


def size_rank(size: str) -> float:
    """Return the number that a size such as `610m` or `1B` stands for; infinity for a name without one."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([mb])", size.lower())
    return float("inf") if match is None else float(match[1]) * (1e6 if match[2] == "m" else 1e9)


def objective_series(model: Model) -> str:
    """Return the first objective (`MLM`, `CLM`), with the ratio when it is not 40 % and the size when not 610M."""
    objective = model.objectives[0]
    letters = objective.rstrip("0123456789")
    ratio = objective.removeprefix(letters)
    name = letters.upper() if ratio in ("", "40") else f"{letters.upper()} {ratio} %"
    return name if model.size == "610m" else f"{model.size.upper()} {name}"


def start_series(model: Model) -> str:
    """Return `MLM start` or `CLM start` for the base of a continued pretraining and for what continues it."""
    return f"{objective_series(model)} start"


def clm_share(model: Model) -> float | None:
    """Return the share of CLM steps in percent: 0 for MLM, 100 for CLM; None for other mixes or another ratio.

    The paper's splits are whole thousands of steps (22.7 to 77.3 %) and are drawn at their nominal 25, 50 and 75 %.
    """
    if model.objectives == ("mlm40",):
        return 0.0
    if model.objectives == ("clm",):
        return 100.0
    if model.kind == "two-stage" and model.objectives == ("clm", "mlm40"):
        share = 100 * model.first_share
        return float(25 * round(share / 25)) if model.name in _SPLITS else share
    return None


def cpt_steps(model: Model) -> int | None:
    """Return the steps of MLM at 40 % added to a decayed base model of the full budget; 0 for that base itself."""
    if model.kind == "base" and model.steps == BUDGET:
        return 0
    if model.kind == "continued" and model.objectives[1] == "mlm40" and model.switch == BUDGET:
        return model.steps - BUDGET
    return None
