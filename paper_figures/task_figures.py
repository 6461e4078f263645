"""Figures of task averages, a panel a task: lines (Figures 3, 4, 6, 9, 10, 11) or points in groups (2 and 8)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.records import records
from benchmarks.protocol import TASKS
from common.errors import UserError
from paper_figures.drawing.marks import draw_groups, draw_lines, line_handles, names_fit, write_names
from paper_figures.drawing.page import make_page, task_panels
from paper_figures.drawing.style import Look
from paper_figures.drawing.style import looks as looks_of
from paper_figures.figure import COLUMNS, FigureSpec, Inputs, x_axis
from paper_figures.positions import Position, PositionRule, size_rank
from pretraining.model_names import FIGURES, MODELS, Design, Model, parse

__all__ = [
    "Groups", "Lines", "collect", "continued_only", "expected_points", "find_model", "refuse_empty", "task_figure",
]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Lines:
    """Every series is a line of markers."""

    x_label: str
    ticks: Callable[[set[float]], Sequence[float]] = sorted
    """Every x drawn or missing -> the ticks."""
    log_x: bool = False
    dodge: bool = True
    """Whether series stand next to each other at one x."""
    named: bool = True
    """Whether series are named; not where there is one."""

    def draw(
        self,
        axes: Mapping[str, Axes],
        data: pd.DataFrame,
        look: Mapping[str, Look],
        expected: Mapping[str, Sequence[float]],
    ) -> None:
        """Draw the panels."""
        ticks = self.ticks({float(x) for x in data["x"]} | {x for xs in expected.values() for x in xs})
        for task, ax in axes.items():
            rows = data[data["panel"] == task]
            draw_lines(ax, rows, look, expected=expected, ticks=ticks, log_x=self.log_x, dodge=self.dodge)


@dataclass(frozen=True, kw_only=True)
class Groups:
    """Every series has a point in each group."""

    x_label: str = ""
    groups: Callable[[Iterable[str]], Sequence[str]]
    """Every x drawn -> the groups, left to right."""
    log_x: bool = False
    named: bool = True

    def draw(
        self,
        axes: Mapping[str, Axes],
        data: pd.DataFrame,
        look: Mapping[str, Look],
        expected: Mapping[str, Sequence[float]],
    ) -> None:
        """Draw the panels."""
        del expected
        groups = self.groups(dict.fromkeys(data["x"]))
        for task, ax in axes.items():
            draw_groups(ax, data[data["panel"] == task], look, groups=groups)


def task_figure(
    name: int | str,
    title: str,
    *,
    models: tuple[str, ...] = (),
    tables: tuple[int, ...],
    position: PositionRule,
    looks: dict[str, Look],
    marks: Lines | Groups,
    seen: str,
    numbers: Callable[[pd.DataFrame], str],
    note: str,
    claim: str = "",
    continued: bool = False,
) -> FigureSpec[pd.DataFrame]:
    """Return a figure with a panel for each task.

    Args:
        name: the paper's number, or a number or word for a figure of your own.
        title: what it shows, in a few words.
        models: the models that it shows; with a number those of the paper's figure.
        tables: the paper's tables that hold its cells.
        position: where it draws a model.
        looks: how the paper's series look.
        marks: what is drawn of a series.
        seen: what the picture is, a sentence of the alt text.
        numbers: data -> further sentences of the alt text.
        note: a sentence of the caption on how to read it.
        claim: the finding that the figure shows, by whose verdict it is entitled.
        continued: whether it compares models with what continues them: base models that nothing continues are left
            out, unless their series is one of `looks`.
    """

    shown = FIGURES.get(name, models) if isinstance(name, int) else models
    expected = expected_points(shown, position)

    def collected(inputs: Inputs) -> pd.DataFrame:
        data = collect(figure, position, inputs, others=continued)
        return refuse_empty(figure, continued_only(data, looks), inputs) if continued else data

    def draw(data: pd.DataFrame, heading: str, caption: str) -> Figure:
        look = looks_of(list(dict.fromkeys(data["series"])), looks)
        last = list(TASKS)[-1]
        direct = marks.named and names_fit(data, last)
        drawing, axes = make_page(heading=heading, panels=task_panels(), x_label=marks.x_label, caption=caption,
                         names=list(look) if direct else (),
                         handles=line_handles(look) if marks.named and not direct else ())  # fmt: skip
        marks.draw(axes, data, look, expected)
        if direct:
            write_names(axes[last], data[data["panel"] == last], look)
        return drawing

    def draw_panel(data: pd.DataFrame, task: str, ax: Axes) -> None:
        look = looks_of(list(dict.fromkeys(data["series"])), looks)
        marks.draw({task: ax}, data, look, expected)
        [panel] = [panel for panel in task_panels() if panel.name == task]
        ax.set(title=panel.title, xlabel=marks.x_label, ylabel=panel.unit)
        if marks.named:
            ax.legend(handles=line_handles(look))

    figure = FigureSpec(
        name=str(name),
        title=title,
        collect=collected,
        draw=draw,
        draw_panel=draw_panel,
        describe=lambda data: f"{seen} {numbers(data)}",
        models=shown,
        tables=tables,
        note=note,
        claim=claim,
        crosses=isinstance(marks, Lines),
        x_axis=x_axis(marks.x_label, log=marks.log_x, expected=expected),
    )
    return figure


def collect(
    figure: FigureSpec[pd.DataFrame],
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
    positions = {name: there for name in names if (there := _placed(name, position)) is not None}
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


def refuse_empty(figure: FigureSpec[Any], data: pd.DataFrame, inputs: Inputs) -> pd.DataFrame:
    """Return `data`, unless it has no rows.

    Raises:
        UserError: it has none; the sentence names what the figure needs.
    """
    if data.empty:
        names = figure.models
        some = (
            ", ".join(names)
            if len(names) < 4
            else f"{names[0]}, {names[1]} and {len(names) - 2} other models"
        )
        raise UserError(
            f"{figure.label} cannot be drawn from {inputs.source.label}: it holds no task average "
            f"({inputs.source.average_needs}) of {some}"
        )
    return data


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
        there = _placed(name, position)
        if there is not None and not isinstance(there.x, str):
            points.setdefault(there.series, []).append(there.x)
    return {series: sorted(xs) for series, xs in points.items()}


def find_model(name: str) -> Model | None:
    """Return the model of a name in the released scheme, of any size such as `2b`; None for any other name."""
    if name in MODELS:
        return MODELS[name]
    size = name.split("-")[0]
    try:
        return Design(sizes=(size,)).parse(name) if re.fullmatch(r"\d+(\.\d+)?[mb]", size) else parse(name)
    except UserError:
        return None


def _placed(name: str, position: PositionRule) -> Position | None:
    model = find_model(name)
    return None if model is None else position(model)


def _x_rank(x: float | str) -> float:
    if not isinstance(x, str):
        return float(x)
    return -1.0 if x == "Base" else size_rank(x)


def _rank(position: Position) -> tuple[str, float]:
    return position.series, _x_rank(position.x)
