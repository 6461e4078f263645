"""Figures of task averages, with one panel for each of the four tasks; the paper's are in `figures2_11`.

A task average is the mean of a model's scores on the datasets of a task, in percent. In every panel a model is one
point. A figure's rule (`PositionRule`) gives the point's series, which is a name in the legend, and its x. If the x are
numbers, a series is drawn as a line of markers. If they are words, such as sizes of models, each word is a group, in
which the points of all series stand side by side.

The data of a figure are a frame with a row for each point and the columns `FIGURE_COLUMNS`. Models that the paper does
not have are called own models. When a point is clearly above another is said in `paper_figures.comparisons`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.records import records
from benchmarks.protocol import TASKS
from common.errors import UserError
from paper_figures.comparisons import ComparedPoint, with_clear, with_gaps
from paper_figures.drawing.marks import (
    draw_differences,
    draw_groups,
    draw_lines,
    names_fit,
    write_names,
)
from paper_figures.drawing.page import (
    DIFFERENCES,
    inches,
    line_handles,
    make_page,
    task_panels,
)
from paper_figures.drawing.style import GREY, SMALLEST, Look, looks_of
from paper_figures.figure import CLEAR, FIGURE_COLUMNS, FigureInputs, FigureSpec
from pretraining.models import Model, arm_of
from pretraining.paper_models import MODELS, find_model

_FLOOR = 5.0
"""Percent. A panel whose scores are all below it says that they are at the floor."""
_LONGEST = 1.2
"""Inches: a wider name does not stand right of a panel, since the panels would be too narrow for their titles."""


class AxisPosition(NamedTuple):
    """Where a figure draws a model: the position of its point in each panel."""

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
    x_text: str = "{}"
    """How the alt text writes an x, such as `{:g}K steps`."""
    looks: Mapping[str, Look] = field(default_factory=dict)
    """How the paper's series look, by their names. If there is only one, no series is named in the figure."""
    x_label: str = ""
    groups: Callable[[Iterable[str]], Sequence[str]] | None = None
    """For a figure of groups: from the names of the groups that have points to the groups drawn, left to right. None
    for a figure of lines."""
    ticks: Callable[[set[float]], Sequence[float]] = sorted
    """For a figure of lines: from the x of all points, drawn or missing, to the ticks of the x axis."""
    log_x: bool = False
    base: float | None = None
    """The x with which a second row of panels compares every other x of the same series; None: there is one row."""
    second: str = ""
    """What the second row shows."""
    said: Callable[[pd.DataFrame, FigureInputs], str] = lambda *_: ""
    """From the data and the inputs to a sentence on what is seen (`FigureSpec.finding`)."""
    compared_with: ComparedPoint | None = None
    """The point with which another is compared; `said` counts the points that are clearly above theirs. None: no points
    are compared."""
    unknown_group: str = ""
    """For a figure of groups: the name of the group of models about which nothing is known but their name. Empty: they
    are not drawn."""
    continued: bool = False
    """Whether it compares base models with the models that continue their training. Base models that no model continues
    are then left out, unless their series is one of `looks`."""

    @property
    def crosses(self) -> bool:
        """Whether a cross on the x axis marks an x without any score: only figures of lines have crosses."""
        return self.groups is None

    @property
    def x_axis(self) -> Mapping[str, Any]:
        """What the x axis of all panels shows."""
        expected = expected_points(self.models, self.position)
        return {"label": self.x_label, "log": self.log_x, "expected": expected}

    def collect(self, inputs: FigureInputs) -> pd.DataFrame:
        """Return the rows of the figure's points, of the paper's models and of own models (`collect_points`).

        Figures with a second row also have the columns `GAPS`, figures that compare points the column `CLEAR`. The
        frame's `attrs` hold as `sizes` what a small study calls the paper's sizes (`StandIns.sizes`).

        Raises:
            UserError: the source has no point of the figure.
        """
        # An own model may continue a base model of the paper that the figure does not show: that one is drawn too.
        data = collect_points(
            self,
            self.position,
            inputs,
            any_of_paper=self.continued,
            unknown_x=self.unknown_group,
        )
        if self.continued:
            data = continued_only(data, self.looks, inputs.source.study_models)
        data = refuse_empty(self, data, inputs)
        if self.base is not None:
            data = with_gaps(data, self.base, inputs)
        if self.compared_with is not None:
            data = with_clear(data, self.compared_with, inputs)
        stand_ins = inputs.source.stand_ins
        data.attrs["sizes"] = stand_ins.sizes if stand_ins else {}
        return data

    def finding(self, data: pd.DataFrame, inputs: FigureInputs) -> str:
        """Return the sentence of `said`, which calls a small study's sizes by that study's names."""
        series = data["series"].replace(data.attrs["sizes"])
        return self.said(data.assign(series=series), inputs)

    def draw(self, data: pd.DataFrame, heading: str, caption: str) -> Figure:
        """Return the page of panels.

        Series are named right of the first panel, where their lines end. If a series has no point in that panel, or a
        name is too long, a legend names them all.
        """
        first_task = next(iter(TASKS))
        # From a size of the paper to a small study's in its place; data without this attribute have the paper's.
        sizes = data.attrs.get("sizes", {})
        data, look = self._with_own_sizes(data, sizes)

        # The title of a figure of one series says what the series is.
        has_names = len(self.looks) != 1
        widths = [inches(name, bold=True) for name in look]
        is_narrow = max(widths, default=0.0) < _LONGEST
        names_at_ends = has_names and is_narrow and names_fit(data, first_task)
        named = look if has_names else {}
        drawing, axes = make_page(
            heading=heading,
            panels=task_panels(),
            x_label=self._x_label(sizes),
            caption=caption,
            look=named,
            legend=has_names and not names_at_ends,
            second=self.second,
        )
        self._draw_panels(axes, data, look, sizes)
        if names_at_ends:
            first_rows = data[data["panel"] == first_task]
            write_names(axes[first_task], first_rows, look)

        return drawing

    def draw_panel(self, data: pd.DataFrame, panel: str, ax: Axes) -> None:
        """Draw one task on axes, with a legend; `UserError` if `panel` is not a task."""
        if panel not in TASKS:
            super().draw_panel(data, panel, ax)  # raises the UserError
        panels = {task_panel.name: task_panel for task_panel in task_panels()}
        task_panel = panels[panel]
        # As in `draw`: a small study's sizes by the paper's, empty for data with the paper's sizes.
        sizes = data.attrs.get("sizes", {})
        data, look = self._with_own_sizes(data, sizes)
        self._draw_panels({panel: ax}, data, look, sizes)
        x_label = self._x_label(sizes)
        ax.set(title=task_panel.title, xlabel=x_label, ylabel=task_panel.unit)

        # As in `draw`, the title of a figure of one series says what the series is.
        if len(self.looks) != 1:
            ax.legend(handles=line_handles(look))

    def _with_own_sizes(
        self, data: pd.DataFrame, sizes: Mapping[str, str]
    ) -> tuple[pd.DataFrame, dict[str, Look]]:
        """Return the data and the look of each series; series that the paper names by a size have the study's own size.

        Args:
            data: the points of the figure, with the paper's names of series.
            sizes: from a size of the paper to the size of a small study that stands for it, `610M` to `0.23M`; empty
                for the paper's.
        """
        renamed = data.assign(series=data["series"].replace(sizes))
        papers_looks = {}
        for name, papers_look in self.looks.items():
            papers_looks[sizes.get(name, name)] = papers_look
        return renamed, looks_of(renamed["series"], papers_looks)

    def _x_label(self, sizes: Mapping[str, str]) -> str:
        """Return the label of the x axis; `sizes` as in `_with_own_sizes`."""
        # There is no room for the M of every size below its group, so that the label of the axis says the unit.
        if sizes and self.groups and self.x_label:
            return f"{self.x_label} (million parameters)"
        return self.x_label

    def _draw_panels(
        self,
        axes: Mapping[str, Axes],
        data: pd.DataFrame,
        look: Mapping[str, Look],
        sizes: Mapping[str, str],
    ) -> None:
        """Draw the points of all tasks that have axes.

        Args:
            axes: by task; those of a task's second row by the task's name with `DIFFERENCES` after it.
            data, look: the points of the figure and the look of each series, as `_with_own_sizes` returns them.
            sizes: as in `_with_own_sizes`.
        """
        rows_of_task = {}
        for task in TASKS:
            if task in axes:
                rows_of_task[task] = data[data["panel"] == task]

        for task, rows in rows_of_task.items():
            # At the floor no model does the task, so its differences mean nothing.
            if len(rows) and rows["mean"].max() < _FLOOR:
                axes[task].set_title(
                    "at the floor", fontsize=SMALLEST, color=GREY, loc="right", pad=-8
                )

        # A figure of groups: it has one row of panels.
        if self.groups is not None:
            groups = self.groups(dict.fromkeys(data["x"]))
            # What is written below a group: a size without its M, for which there is no room (see
            # `_x_label`).
            names = {size: own.removesuffix("M") for size, own in sizes.items()}
            for task, rows in rows_of_task.items():
                draw_groups(axes[task], rows, look, groups=groups, names=names)
            return

        # A figure of lines. A line is broken at an x that is expected and has no score.
        expected = {}
        for name, xs in self.x_axis["expected"].items():
            expected[sizes.get(name, name)] = xs

        # All panels have the same ticks, also where one lacks a point.
        xs_drawn = {float(x) for x in data["x"]}
        ticks = self.ticks(xs_drawn.union(*expected.values()))
        for task, rows in rows_of_task.items():
            ax = axes[task]
            second_ax = axes.get(task + DIFFERENCES)
            first_row = rows

            # Marks are filled where the column `CLEAR` is True. With a second row, the caption counts the differences,
            # which the second row shows: only the marks of the second row may be filled, none of the first.
            if second_ax is not None:
                first_row = rows.drop(columns=CLEAR, errors="ignore")
            draw_lines(
                ax, first_row, look, expected=expected, ticks=ticks, log_x=self.log_x
            )

            # A figure has a second row if and only if it has a base; the single panel of `draw_panel` has none.
            if second_ax is not None and self.base is not None:
                # The second row, right below, has the same x axis and its labels.
                ax.tick_params(labelbottom=False)
                draw_differences(
                    second_ax,
                    rows,
                    look,
                    base=self.base,
                    expected=expected,
                    ticks=ticks,
                )

    def describe(self, data: pd.DataFrame) -> str:
        """Return the sentences of the alt text on what is drawn: the kind of figure, then the scores of each panel."""
        kind = "Lines" if self.groups is None else "Points with intervals"
        below = ""
        if self.second:
            # Within the sentence, what the second row shows begins with a lowercase letter.
            below = f"; below, the {self.second[0].lower()}{self.second[1:]}"
        points = describe_points(data, self.x_text)
        return f"{kind} in four panels, one per task{below}. {points}"


def collect_points(
    figure: FigureSpec,
    position: PositionRule,
    inputs: FigureInputs,
    *,
    any_of_paper: bool = False,
    unknown_x: str = "",
) -> pd.DataFrame:
    """Return the data of a figure: the points of its models, then those of other models to which its rule gives one.

    Args:
        figure: the figure.
        position: its rule.
        inputs: where the scores come from.
        any_of_paper: whether any model of the paper that has scores may be drawn, also one that is not the figure's.
        unknown_x: the x of models about which nothing is known but their name, since they are neither the paper's nor
            in the study file; empty: they are left out.

    Returns:
        Columns `FIGURE_COLUMNS`, ordered by panel, series and x as drawn. A model without scores has no rows.
    """
    # Which models are drawn, and where.
    averages = inputs.averages
    scored = list(averages["model"].unique())
    # A repeated pretraining (`mine-s1`) is left out where the first one (`mine`) has scores as well.
    # `arm_of` returns the name of the first one and the number of the repetition, 0 for the first one itself.
    first_pretrainings = []
    for name in scored:
        first_name, repeat = arm_of(name)
        if repeat == 0 or first_name not in scored:
            first_pretrainings.append(name)

    candidates = list(figure.models)
    for name in first_pretrainings:
        if any_of_paper or name not in MODELS:
            candidates.append(name)

    positions: dict[str, AxisPosition] = {}
    for name in candidates:
        point = _position_of(name, position, inputs.source.study_models, unknown_x)
        if point is not None:
            positions[name] = point

    # In which order. A series stands where its first model stands.
    def series_and_x(name: str) -> tuple[str, float]:
        return positions[name].series, _x_rank(positions[name].x)

    # The figure's models keep the order that it gives them; all other models follow by their series and x.
    of_the_figure = [name for name in figure.models if name in positions]
    added = [name for name in positions if name not in figure.models]
    order = of_the_figure + sorted(added, key=series_and_x)
    series = list(dict.fromkeys(positions[name].series for name in order))

    # A row for each task average of the models in `order`.
    rows = averages[averages["model"].isin(order)]
    points = [positions[name] for name in rows["model"]]
    data = rows.rename(columns={"task": "panel"})
    data["series"] = [point.series for point in points]
    data["x"] = [point.x for point in points]

    # Lines are drawn, and marks of the SVG numbered, in the order of the rows: by panel, then series, then x. For each
    # of these columns, a function from a value to its rank.
    ranks: dict[str, Callable[[Any], float]] = {
        "panel": list(TASKS).index,
        "series": series.index,
        "x": _x_rank,
    }

    # pandas calls the key once for each column.
    data = data.sort_values(
        list(ranks),
        key=lambda column: column.map(ranks[str(column.name)]),
        ignore_index=True,
        kind="stable",
    )
    return data[FIGURE_COLUMNS]


def _position_of(
    name: str, position: PositionRule, study: Mapping[str, Model], unknown_x: str = ""
) -> AxisPosition | None:
    """Return the position that the rule gives a model, or None if the figure does not show it.

    Args:
        name: the model's.
        position: the figure's rule.
        study: the models of the study file, by name.
        unknown_x: the x of a model about which nothing is known but its name; empty: it is not drawn.
    """
    model = find_model(name, study)
    if model is None:
        return AxisPosition(series=name, x=unknown_x) if unknown_x else None
    return position(model)


def _x_rank(x: float | str) -> float:
    """Return by what an x is sorted: a number by itself, a group by the size that it is named after.

    The group `Base`, base models before continued pretraining, comes before all others.
    """
    if not isinstance(x, str):
        return float(x)
    return -1.0 if x == "Base" else size_rank(x)


def size_rank(size: str) -> float:
    """Return the number that a size such as `610m` or `1B` stands for; infinity for a text that is not a size."""
    # A number and its unit, such as `610m` or `1.5b`.
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([mb])", size.lower())
    if match is None:
        return math.inf
    unit = 1e6 if match[2] == "m" else 1e9
    return float(match[1]) * unit


def refuse_empty(
    figure: FigureSpec, data: pd.DataFrame, inputs: FigureInputs
) -> pd.DataFrame:
    """Return `data`; refuse data without any row from the source.

    Raises:
        UserError: no row is from the source; the sentence names what the figure needs.
    """
    # Beside own models the paper's printed scores are drawn. Without a row of the source, they are no figure of it.
    if inputs.source.name in set(data["source"]):
        return data
    source = inputs.source

    # Own models that have task averages but no position in this figure.
    own = sorted(inputs.own_models & set(inputs.averages["model"]))
    if own:
        raise UserError(
            f"{figure.label} ({figure.title}) cannot show {', '.join(own)}; "
            "--source published draws only the paper's models"
        )

    # No own model has a task average: the own models are named, or where there are none, those that the figure shows.
    missing = ", ".join(sorted(inputs.own_models)) or _some(figure.models)
    raise UserError(
        f"{figure.label} cannot be drawn from {source.label}: "
        f"it has no task average of {missing}; an average needs {source.average_needs}"
    )


def _some(names: Sequence[str]) -> str:
    """Return at most three names, or the first two and how many others there are."""
    if len(names) < 4:
        return ", ".join(names)
    return f"{names[0]}, {names[1]} and {len(names) - 2} other models"


def continued_only(
    data: pd.DataFrame, known: Iterable[str], study: Mapping[str, Model]
) -> pd.DataFrame:
    """Return `data` without the series in which no model continues the training of another.

    Args:
        data: the points; a base model and the models that continue it are in one series.
        known: names of series that stay in any case.
        study: the models of the study file, by name.
    """
    kinds = {}
    for name in data["model"].unique():
        model = find_model(name, study)
        if model is not None:
            kinds[name] = model.kind
    is_continued = data["model"].map(kinds) == "continued"
    continued_series = set(data["series"][is_continued])
    is_shown = data["series"].isin(continued_series | set(known))
    return data[is_shown].reset_index(drop=True)


def expected_points(
    models: Iterable[str], position: PositionRule
) -> dict[str, list[float]]:
    """Return for each series of a figure the x of all points of these models, sorted; words as x are left out.

    Args:
        models: names of models of the paper.
        position: the figure's rule.
    """
    points: dict[str, list[float]] = {}
    for name in models:
        point = _position_of(name, position, {})
        if point is not None and not isinstance(point.x, str):
            points.setdefault(point.series, []).append(point.x)
    return {series: sorted(xs) for series, xs in points.items()}


def describe_points(data: pd.DataFrame, x_text: str, *, panel: str = "") -> str:
    """Return a sentence for each panel: the score of every series at each x, and if they are two, their difference.

    Args:
        data: the data of a figure.
        x_text: how an x is written, such as `{:g} % CLM`.
        panel: what a panel is called; empty: by the title and metric of its task.
    """
    sentences = []
    for name, rows in data.groupby("panel", sort=False):
        title = panel
        if not panel:
            task = TASKS[str(name)]
            title = f"{task.title} ({task.metric}, %)"

        # Groups stay in the order in which they are drawn; numbers are sorted.
        has_groups = isinstance(rows["x"].iloc[0], str)
        parts = []
        for x, at_x in rows.groupby("x", sort=not has_groups):
            parts.append(f"{_scores_text(at_x)} at {x_text.format(x)}")
        sentences.append(f"{title}: {'; '.join(parts)}.")

    return " ".join(sentences)


def _scores_text(rows: pd.DataFrame) -> str:
    """Return the score of each series, such as `MLM 84.21, CLM 83.90 (difference +0.31)`.

    Only for two series there is a difference. `rows` has a row for each series.
    """
    scores = list(records(rows, "series", "mean"))
    text = ", ".join(f"{series} {mean:.2f}" for series, mean in scores)
    if len(scores) != 2:
        return text
    (_, first), (_, second) = scores
    return f"{text} (difference {first - second:+.2f})"
