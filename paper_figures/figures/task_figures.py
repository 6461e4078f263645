"""A figure of task averages, a panel a task: a line of markers for each series, or points in groups.

The paper's figures of this kind are in `figures2_11`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.records import records
from benchmarks.protocol import TASKS
from common.errors import UserError
from paper_figures.drawing.marks import draw_groups, draw_lines, names_fit, write_names
from paper_figures.drawing.page import inches, line_handles, make_page, task_panels
from paper_figures.drawing.style import Look, looks_of
from paper_figures.figure import COLUMNS, FigureInputs, FigureSpec
from pretraining.models import MODELS, Model, arm_of, find_model

__all__ = [
    "AxisPosition", "PositionRule", "TaskFigure", "collect", "continued_only", "describe_differences",
    "describe_points", "expected_points", "refuse_empty", "size_rank",
]  # fmt: skip


_LONGEST = 1.2
"""Inches of a name that can stand right of the panels and leaves them room for their titles."""


class AxisPosition(NamedTuple):
    """Where a figure draws a model."""

    series: str
    """Name in the legend."""
    x: float | str
    """Value on the x axis, or name of a group of points."""


PositionRule = Callable[[Model], AxisPosition | None]
"""A figure's rule: a model's position, or None for a model that the figure does not show."""


@dataclass(frozen=True, kw_only=True)
class TaskFigure(FigureSpec):
    """A figure with a panel for each task."""

    position: PositionRule
    """Where it draws a model."""
    seen: str
    """What the picture is, a sentence of the alt text."""
    numbers: Callable[[pd.DataFrame], str]
    """Data -> further sentences of the alt text."""
    looks: Mapping[str, Look] = field(default_factory=dict)
    """How the paper's series look; they are named unless there is one."""
    x_label: str = ""
    groups: Callable[[Iterable[str]], Sequence[str]] | None = None
    """Every x drawn -> the groups, left to right; without it every series is a line."""
    ticks: Callable[[set[float]], Sequence[float]] = sorted
    """For a figure of lines, every x drawn or missing -> the ticks."""
    log_x: bool = False
    dodge: bool = True
    others: str = ""
    """The group of models whose names say nothing; without it they are not drawn."""
    continued: bool = False
    """Whether it compares models with what continues them: base models that nothing continues are left out, unless
    their series is one of `looks`."""

    @property
    def crosses(self) -> bool:
        """Whether a cross on the axis marks an x without any score: on that of lines."""
        return self.groups is None

    @property
    def x_axis(self) -> Mapping[str, Any]:
        """What the x axis of all panels shows."""
        expected = expected_points(self.models, self.position)
        return {"label": self.x_label, "log": self.log_x, "expected": expected}

    def collect(self, inputs: FigureInputs) -> pd.DataFrame:
        """Return the averages of its models and of one's own (`collect`); `UserError` where there is none."""
        data = collect(self, self.position, inputs, others=self.continued, foreign=self.others)
        return refuse_empty(self, continued_only(data, self.looks) if self.continued else data, inputs)

    def draw(self, data: pd.DataFrame, heading: str, caption: str) -> Figure:
        """Return its panels; series are named where they end, or in a legend where the last panel lacks one."""
        look, last = looks_of(data["series"], self.looks), list(TASKS)[-1]
        named = len(self.looks) != 1
        is_narrow = max((inches(name, bold=True) for name in look), default=0.0) < _LONGEST
        direct = named and is_narrow and names_fit(data, last)
        drawing, axes = make_page(
            heading=heading,
            panels=task_panels(),
            x_label=self.x_label,
            caption=caption,
            look=look if named else {},
            legend=named and not direct,
        )
        self._draw_panels(axes, data, look)
        if direct:
            write_names(axes[last], data[data["panel"] == last], look)
        return drawing

    def draw_panel(self, data: pd.DataFrame, panel: str, ax: Axes) -> None:
        """Draw one task on axes, with a legend."""
        if panel not in TASKS:
            super().draw_panel(data, panel, ax)
        [found] = [one for one in task_panels() if one.name == panel]
        look = looks_of(data["series"], self.looks)
        self._draw_panels({panel: ax}, data, look)
        ax.set(title=found.title, xlabel=self.x_label, ylabel=found.unit)
        if len(self.looks) != 1:
            ax.legend(handles=line_handles(look))

    def _draw_panels(self, axes: Mapping[str, Axes], data: pd.DataFrame, look: Mapping[str, Look]) -> None:
        parts = {task: data[data["panel"] == task] for task in axes}
        if self.groups is not None:
            groups = self.groups(dict.fromkeys(data["x"]))
            for task, ax in axes.items():
                draw_groups(ax, parts[task], look, groups=groups)
            return
        expected = self.x_axis["expected"]
        ticks = self.ticks({float(x) for x in data["x"]} | {x for xs in expected.values() for x in xs})
        for task, ax in axes.items():
            draw_lines(
                ax, parts[task], look, expected=expected, ticks=ticks, log_x=self.log_x, dodge=self.dodge
            )

    def describe(self, data: pd.DataFrame) -> str:
        """Return what is seen."""
        return f"{self.seen} {self.numbers(data)}"


def collect(
    figure: FigureSpec,
    position: PositionRule,
    inputs: FigureInputs,
    *,
    others: bool = False,
    foreign: str = "",
) -> pd.DataFrame:
    """Return the data of a figure of task averages: its models, then models of one's own for which the rule has one.

    Args:
        figure: the figure.
        position: its rule.
        inputs: the source.
        others: whether models of the paper that the figure does not show may be drawn too.
        foreign: the x of models whose names say nothing; empty: they are left out.

    Returns:
        Columns `COLUMNS`, ordered by panel, series and x as drawn.
    """
    averages = inputs.averages
    held = list(averages["model"].unique())
    once = [name for name in held if arm_of(name)[1] == 0 or arm_of(name)[0] not in held]
    names = [*figure.models, *(name for name in once if others or name not in MODELS)]
    positions = {name: there for name in names if (there := _placed(name, position, foreign)) is not None}
    own = sorted(
        (name for name in positions if name not in figure.models),
        key=lambda name: (positions[name].series, _x_rank(positions[name].x)),
    )
    order = [*(name for name in figure.models if name in positions), *own]
    series = list(dict.fromkeys(positions[name].series for name in order))
    rows = averages[averages["model"].isin(order)]
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


def refuse_empty(figure: FigureSpec, data: pd.DataFrame, inputs: FigureInputs) -> pd.DataFrame:
    """Return `data`, unless nothing of it is the source's.

    Raises:
        UserError: nothing is; the sentence names what the figure needs.
    """
    if inputs.source.name in set(data["source"]):
        return data
    source, names = inputs.source, figure.models
    own = sorted(inputs.own_models & set(inputs.averages["model"]))
    if own:
        raise UserError(
            f"{figure.label} ({figure.title}) cannot show {', '.join(own)}; "
            "--source published draws only the paper's models"
        )
    some = ", ".join(names) if len(names) < 4 else f"{names[0]}, {names[1]} and {len(names) - 2} other models"
    raise UserError(
        f"{figure.label} cannot be drawn from {source.label}: it has no task average of "
        f"{', '.join(sorted(inputs.own_models)) or some}; an average needs {source.average_needs}"
    )


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


def size_rank(size: str) -> float:
    """Return the number that a size such as `610m` or `1B` stands for; infinity for a name without one."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([mb])", size.lower())
    return float("inf") if match is None else float(match[1]) * (1e6 if match[2] == "m" else 1e9)


def describe_points(data: pd.DataFrame, x_text: str, *, panel: str = "") -> str:
    """Return, for each panel and series, first, last and highest point, in sentences.

    Args:
        data: of a figure.
        x_text: how an x is written, such as `{:g} % CLM`.
        panel: what the panel is called; by default by its task.
    """

    def sentence(series: str, rows: pd.DataFrame) -> str:
        points = [(float(x), float(mean)) for x, mean in records(rows, "x", "mean")]
        (first, start), (last, end) = points[0], points[-1]
        text = f"{series} {start:.2f} at {x_text.format(first)}"
        if len(points) > 1:
            best, peak = max(points, key=lambda point: point[1])
            text += f", {end:.2f} at {x_text.format(last)}"
            text += "" if best in (first, last) else f", highest {peak:.2f} at {x_text.format(best)}"
        return text

    return " ".join(
        f"{title}: {'; '.join(sentence(str(name), part) for name, part in rows.groupby('series', sort=False))}."
        for title, rows in _panels(data, panel)
    )


def describe_differences(data: pd.DataFrame, x_text: str, *, panel: str = "") -> str:
    """Return, for each panel, the values at every x and by how much the first series is above the second.

    Args:
        data, x_text, panel: as of `describe_points`.
    """
    sentences = []
    for title, rows in _panels(data, panel):
        names = list(dict.fromkeys(rows["series"]))
        parts = []
        for x in dict.fromkeys(rows["x"]):
            here = {s: m for s, at, m in records(rows, "series", "x", "mean") if at == x}
            text = ", ".join(f"{name} {here[name]:.2f}" for name in names if name in here)
            if len(names) > 1 and names[0] in here and names[1] in here:
                text += f" (difference {here[names[0]] - here[names[1]]:+.2f})"
            parts.append(f"{text} at {x_text.format(x)}")
        sentences.append(f"{title}: {'; '.join(parts)}.")
    return " ".join(sentences)


def _panels(data: pd.DataFrame, title: str) -> Iterator[tuple[str, pd.DataFrame]]:
    for name, rows in data.groupby("panel", sort=False):
        yield title or f"{TASKS[str(name)].title} ({TASKS[str(name)].metric}, %)", rows


def _placed(name: str, position: PositionRule, foreign: str = "") -> AxisPosition | None:
    model = find_model(name)
    if model is None:
        return AxisPosition(series=name, x=foreign) if foreign else None
    return position(model)


def _x_rank(x: float | str) -> float:
    if not isinstance(x, str):
        return float(x)
    return -1.0 if x == "Base" else size_rank(x)
