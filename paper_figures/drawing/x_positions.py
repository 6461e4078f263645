"""Rules that several figures share: at which x, and in which series, a model is drawn."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from analysis.records import records
from paper_figures.figure_data import PositionRule, find_model
from pretraining.model_names import FIGURES, Model

__all__ = [
    "BUDGET",
    "clm_share",
    "continued_only",
    "cpt_steps",
    "expected_points",
    "objective_series",
    "start_series",
]

_SPLITS = frozenset(FIGURES[6] + FIGURES[11])

BUDGET = 42_000
"""Steps of the paper's full budget."""


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


def continued_only(data: pd.DataFrame, known: Iterable[str]) -> pd.DataFrame:
    """Return `data` without own base models that nothing continues; the starts of `known` stay."""
    continued = {
        series for series, name in records(data, "series", "model")
        if (model := find_model(name)) is not None and model.kind == "continued"
    }  # fmt: skip
    return data[data["series"].isin(continued | set(known))].reset_index(drop=True)


def expected_points(models: Iterable[str], position: PositionRule) -> dict[str, list[float]]:
    """Return for each series of a figure the x of all the points that `models` give it."""
    points: dict[str, list[float]] = {}
    for name in models:
        model = find_model(name)
        there = None if model is None else position(model)
        if there is not None and not isinstance(there.x, str):
            points.setdefault(there.series, []).append(there.x)
    return {series: sorted(xs) for series, xs in points.items()}
