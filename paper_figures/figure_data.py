"""What a figure draws, as data: one tidy frame that is both the figure's CSV and all that its drawing reads.

panel, series     where the point is drawn; a panel is a task (SC, TC, QA, IR) unless the figure says otherwise
model             the model behind it
x                 its position on the x axis, a number or the name of a group of bars
mean, low, high   what is drawn (percent unless the figure says otherwise); low and high are missing where
                  a single seed has no interval
n_seeds, interval, source   as in the scores
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.records import records
from benchmarks.protocol import TASKS
from common.errors import UserError
from paper_figures.figure_types import PaperFigure
from paper_figures.inputs import Inputs
from pretraining.model_names import MODELS, Design, Model, parse

__all__ = [
    "COLUMNS",
    "Missing",
    "Position",
    "PositionRule",
    "collect",
    "find_model",
    "missing",
    "refuse_empty",
    "size_rank",
]

COLUMNS = ["panel", "series", "model", "x", "mean", "low", "high", "n_seeds", "interval", "source"]


@dataclass(frozen=True, kw_only=True)
class Position:
    """Where a figure draws a model."""

    series: str
    """Name in the legend."""
    x: float | str
    """Value on the x axis, or name of a group of bars."""


PositionRule = Callable[[Model], Position | None]
"""A figure's rule: a model's position, or None for a model that the figure does not show."""


@dataclass(frozen=True, kw_only=True)
class Missing:
    """A model of a figure without a score here."""

    model: str
    panels: tuple[str, ...]
    """The panels that lack it."""


def collect(
    figure: PaperFigure,
    position: PositionRule,
    inputs: Inputs,
    panels: Iterable[str] = tuple(TASKS),
    *,
    required: bool = True,
    others: bool = False,
) -> pd.DataFrame:
    """Return the data of a figure of task averages: its models, then models of one's own for which the rule has one.

    A model of the paper that the figure does not show is drawn only with `others`.

    Args:
        figure: the figure.
        position: its rule.
        inputs: the source.
        panels: the tasks it shows.
        required: whether to refuse an empty figure.
        others: whether models of the paper that the figure does not show may be drawn too.

    Returns:
        Columns `COLUMNS`, ordered by panel, series and x as drawn.

    Raises:
        UserError: the source holds not one of the figure's points.
    """
    averages = inputs.averages
    names = [*figure.models, *(name for name in averages["model"].unique() if others or name not in MODELS)]
    models = {name: model for name in names if (model := find_model(name)) is not None}
    positions = {name: there for name, model in models.items() if (there := position(model)) is not None}
    own = sorted((name for name in positions if name not in figure.models), key=lambda n: _rank(positions[n]))
    order = [*(name for name in figure.models if name in positions), *own]
    series = list(dict.fromkeys(positions[name].series for name in order))
    rows = averages[averages["model"].isin(order) & averages["task"].isin(list(panels))]
    if required:
        refuse_empty(figure, rows, inputs)
    data = rows.rename(columns={"task": "panel"}).assign(
        series=[positions[n].series for n in rows["model"]], x=[positions[n].x for n in rows["model"]]
    )
    ranks: dict[str, Callable[[Any], float]] = {
        "panel": list(TASKS).index,
        "series": series.index,
        "x": _x_rank,
    }
    return data.sort_values(
        list(ranks), key=lambda column: column.map(ranks[str(column.name)]), ignore_index=True, kind="stable"
    )[COLUMNS]


def refuse_empty(figure: PaperFigure, data: pd.DataFrame, inputs: Inputs) -> pd.DataFrame:
    """Return `data`, unless it has no rows.

    Raises:
        UserError: it has none; the sentence names what the figure needs.
    """
    if data.empty:
        raise UserError(
            f"{figure.label} cannot be drawn from {inputs.source.label}: it holds no task average "
            f"({inputs.source.average_needs}) of {_some(figure.models)}"
        )
    return data


def missing(figure: PaperFigure, data: pd.DataFrame) -> tuple[Missing, ...]:
    """Return the models of a figure that `data` lacks, wholly or in some of the panels it should have."""
    panels = list(dict.fromkeys(data["panel"]))
    wanted = list(TASKS) if set(panels) <= set(TASKS) else panels
    have = set(records(data, "model", "panel"))
    gaps = []
    for name in figure.models:
        without = tuple(panel for panel in wanted if (name, panel) not in have)
        if without and (set(wanted) <= set(TASKS) or len(without) == len(wanted)):
            gaps.append(Missing(model=name, panels=without))
    return tuple(gaps)


def find_model(name: str) -> Model | None:
    """Return the model of a name in the released scheme, of any size such as `2b`; None for any other name."""
    if name in MODELS:
        return MODELS[name]
    size = name.split("-")[0]
    try:
        return Design(sizes=(size,)).parse(name) if re.fullmatch(r"\d+(\.\d+)?[mb]", size) else parse(name)
    except UserError:
        return None


def size_rank(size: str) -> float:
    """Return the number that a size such as `610m` or `1B` stands for; infinity for a name without one."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([mb])", size.lower())
    return float("inf") if match is None else float(match[1]) * (1e6 if match[2] == "m" else 1e9)


def _x_rank(x: float | str) -> float:
    if not isinstance(x, str):
        return float(x)
    return -1.0 if x == "Base" else size_rank(x)


def _rank(position: Position) -> tuple[str, float]:
    return position.series, _x_rank(position.x)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) < 4 else f"{names[0]}, {names[1]} and {len(names) - 2} other models"
