"""A figure of task averages, a panel a task: a line of markers for each series, or points in groups.

The paper's figures of this kind are in `figures2_11`.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.claims.owners import owned_pairs
from analysis.claims.statements import difference
from analysis.records import records
from analysis.statistics.inference import holm
from benchmarks.protocol import TASKS
from common.errors import UserError
from common.level import ALPHA
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
from paper_figures.figure import CLEAR, FIGURE_COLUMNS, GAPS, FigureInputs, FigureSpec
from pretraining.models import Model, arm_of
from pretraining.paper_models import MODELS, find_model

_FLOOR = 5.0
"""Percent; a panel of scores below it says that they are at the floor."""
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

ComparedPoint = Callable[[str, float | str], tuple[str, float | str] | None]
"""Series and x of a point -> series and x of the point it is compared with in its panel; None: with no point."""


@dataclass(frozen=True, kw_only=True)
class TaskFigure(FigureSpec):
    """A figure with a panel for each task."""

    position: PositionRule
    """Where it draws a model."""
    x_text: str = "{}"
    """How the alt text writes an x, such as `{:g}K steps`."""
    looks: Mapping[str, Look] = field(default_factory=dict)
    """How the paper's series look; they are named unless there is one."""
    x_label: str = ""
    groups: Callable[[Iterable[str]], Sequence[str]] | None = None
    """Every x drawn -> the groups, left to right; without it every series is a line."""
    ticks: Callable[[set[float]], Sequence[float]] = sorted
    """For a figure of lines, every x drawn or missing -> the ticks."""
    log_x: bool = False
    base: float | None = None
    """The x with which a second row of panels compares the others; without it there is one row."""
    second: str = ""
    """What the second row shows."""
    said: Callable[[pd.DataFrame, FigureInputs], str] = lambda *_: ""
    """Data and inputs -> what is seen, one sentence (`FigureSpec.finding`)."""
    compared_with: ComparedPoint | None = None
    """The point that another has to be above to be counted by `said`; None: no points are counted."""
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
        data = collect(
            self, self.position, inputs, others=self.continued, foreign=self.others
        )
        if self.continued:
            data = continued_only(data, self.looks, inputs.source.study_models)
        data = refuse_empty(self, data, inputs)
        if self.base is not None:
            data = _with_gaps(data, self.base, inputs)
        if self.compared_with is not None:
            data = _with_clear(data, self.compared_with, inputs)
        stand_ins = inputs.source.stand_ins
        data.attrs["sizes"] = stand_ins.sizes if stand_ins else {}
        return data

    def finding(self, data: pd.DataFrame, inputs: FigureInputs) -> str:
        """Return what is seen."""
        series = data["series"].replace(data.attrs["sizes"])
        return self.said(data.assign(series=series), inputs)

    def draw(self, data: pd.DataFrame, heading: str, caption: str) -> Figure:
        """Return the page of panels.

        Each series is named at its last point in the first panel; where one has no point there, a legend names all.
        """
        first_task = next(iter(TASKS))
        # By the paper's size, what a small study calls the size in its place.
        sizes = data.attrs.get("sizes", {})
        data = data.assign(series=data["series"].replace(sizes))
        looks = {}
        for name, papers_look in self.looks.items():
            looks[sizes.get(name, name)] = papers_look
        look = looks_of(data["series"], looks)
        has_names = len(self.looks) != 1
        widths = [inches(name, bold=True) for name in look]
        is_narrow = max(widths, default=0.0) < _LONGEST
        names_at_ends = has_names and is_narrow and names_fit(data, first_task)
        x_label = self.x_label
        # The names of a small study's sizes have no room for their M, so that the axis says the unit.
        if sizes and self.groups and self.x_label:
            x_label = f"{self.x_label} (million parameters)"
        named = look if has_names else {}
        drawing, axes = make_page(
            heading=heading,
            panels=task_panels(),
            x_label=x_label,
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
        """Draw one task on axes, with a legend."""
        if panel not in TASKS:
            super().draw_panel(data, panel, ax)  # refuses it
        entries = {entry.name: entry for entry in task_panels()}
        entry = entries[panel]
        look = looks_of(data["series"], self.looks)
        sizes = data.attrs.get("sizes", {})
        self._draw_panels({panel: ax}, data, look, sizes)
        ax.set(title=entry.title, xlabel=self.x_label, ylabel=entry.unit)
        if len(self.looks) != 1:
            ax.legend(handles=line_handles(look))

    def _draw_panels(
        self,
        axes: Mapping[str, Axes],
        data: pd.DataFrame,
        look: Mapping[str, Look],
        sizes: Mapping[str, str],
    ) -> None:
        """Draw the tasks that have axes; `sizes`: a small study's names of sizes, by the paper's size."""
        parts = {}
        for task in TASKS:
            if task in axes:
                parts[task] = data[data["panel"] == task]
        for task, rows in parts.items():
            # At the floor no model does the task, so its differences mean nothing.
            if len(rows) and rows["mean"].max() < _FLOOR:
                axes[task].set_title(
                    "at the floor", fontsize=SMALLEST, color=GREY, loc="right", pad=-8
                )
        if self.groups is not None:
            groups = self.groups(dict.fromkeys(data["x"]))
            names = {size: own.removesuffix("M") for size, own in sizes.items()}
            for task, rows in parts.items():
                draw_groups(axes[task], rows, look, groups=groups, names=names)
            return
        expected = {}
        for name, xs in self.x_axis["expected"].items():
            expected[sizes.get(name, name)] = xs
        # All panels have the same ticks, also where one lacks a point.
        xs_drawn = {float(x) for x in data["x"]}
        ticks = self.ticks(xs_drawn.union(*expected.values()))
        for task, rows in parts.items():
            ax, below = axes[task], axes.get(task + DIFFERENCES)
            shown = rows
            # With a second row, the caption counts the differences there: only marks of that row may be filled.
            if below is not None:
                shown = rows.drop(columns=CLEAR, errors="ignore")
            draw_lines(
                ax, shown, look, expected=expected, ticks=ticks, log_x=self.log_x
            )
            if below is not None and self.base is not None:
                ax.tick_params(labelbottom=False)
                draw_differences(
                    below, rows, look, base=self.base, expected=expected, ticks=ticks
                )

    def describe(self, data: pd.DataFrame) -> str:
        """Return what is seen."""
        kind = "Lines" if self.groups is None else "Points with intervals"
        below = ""
        if self.second:
            below = f"; below, the {self.second[0].lower()}{self.second[1:]}"
        points = describe_points(data, self.x_text)
        return f"{kind} in four panels, one per task{below}. {points}"


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
        foreign: the x of models whose settings are unknown, since they are neither the paper's nor in the study;
            empty: they are left out.

    Returns:
        Columns `FIGURE_COLUMNS`, ordered by panel, series and x as drawn.
    """
    averages = inputs.averages
    scored = list(averages["model"].unique())
    # A repeat (`mine-s1`) is left out where the model itself (`mine`) is there.
    first_pretrainings = []
    for name in scored:
        arm, repeat = arm_of(name)
        if repeat == 0 or arm not in scored:
            first_pretrainings.append(name)
    candidates = list(figure.models)
    for name in first_pretrainings:
        if others or name not in MODELS:
            candidates.append(name)
    positions: dict[str, AxisPosition] = {}
    for name in candidates:
        place = _position_of(name, position, inputs.source.study_models, foreign)
        if place is not None:
            positions[name] = place

    def own_rank(name: str) -> tuple[str, float]:
        return positions[name].series, _x_rank(positions[name].x)

    of_the_figure = [name for name in figure.models if name in positions]
    own = [name for name in positions if name not in figure.models]
    order = of_the_figure + sorted(own, key=own_rank)
    series = list(dict.fromkeys(positions[name].series for name in order))
    rows = averages[averages["model"].isin(order)]
    places = [positions[name] for name in rows["model"]]
    data = rows.rename(columns={"task": "panel"})
    data["series"] = [place.series for place in places]
    data["x"] = [place.x for place in places]
    # Lines are drawn, and points of the SVG numbered, in the order of the rows.
    ranks: dict[str, Callable[[Any], float]] = {
        "panel": list(TASKS).index,
        "series": series.index,
        "x": _x_rank,
    }
    data = data.sort_values(
        list(ranks),
        key=lambda column: column.map(ranks[str(column.name)]),
        ignore_index=True,
        kind="stable",
    )
    return data[FIGURE_COLUMNS]


def _with_gaps(data: pd.DataFrame, base: float, inputs: FigureInputs) -> pd.DataFrame:
    """Return `data` with the columns `GAPS`: how far a point is above the point at x = `base` of its line.

    A line is a series in a panel.
    """
    bases = {}
    for panel, series, x, model in records(data, "panel", "series", "x", "model"):
        if x == base:
            bases[panel, series] = model
    gaps = []
    for panel, series, model in records(data, "panel", "series", "model"):
        base_model = bases.get((panel, series))
        if base_model is None or base_model == model:
            gaps.append((math.nan, math.nan, math.nan))
            continue
        # The difference is a contrast, not one mean minus the other, so that it has an interval.
        contrast = difference(f"{model} - {base_model}", model, base_model, panel)
        result = inputs.evidence.result(contrast)
        gaps.append((result.effect, result.low, result.high))
    with_gaps = data.copy()
    for name, column in zip(GAPS, zip(*gaps, strict=True), strict=True):
        with_gaps[name] = column
    return with_gaps


def _clearly_above(
    pairs: Sequence[tuple[str, str, str]], inputs: FigureInputs
) -> list[bool]:
    """Return for each (task, first, second) whether the first model is clearly above the second.

    A comparison that a finding counts is clear where the finding counts it as ahead; the other comparisons are
    corrected for each other.
    """
    names: set[str] = set()
    for _, first, second in pairs:
        names |= {first, second}
    # Two corrections could differ: a comparison must be clear in the figure exactly where it is clear in a command.
    owned = owned_pairs(names, inputs.evidence.result)
    others = []
    for task, first, second in pairs:
        if (task, frozenset((first, second))) not in owned:
            others.append((task, first, second))
    other_is_above = dict(zip(others, above_together(others, inputs), strict=True))
    is_above = []
    for task, first, second in pairs:
        counted = owned.get((task, frozenset((first, second))))
        if counted is None:
            is_above.append(other_is_above[task, first, second])
        else:
            is_above.append(counted.ahead == first)
    return is_above


def above_together(
    pairs: Sequence[tuple[str, str, str]], inputs: FigureInputs
) -> list[bool]:
    """Return for each (task, first, second) whether the first model is above, after Holm's adjustment over all."""
    ps = []
    for task, first, second in pairs:
        contrast = difference(f"{first} - {second}", first, second, task)
        ps.append(inputs.evidence.result(contrast).p_for)
    return [bool(p <= ALPHA) for p in holm(ps)]


def _with_clear(
    data: pd.DataFrame,
    compared_with: ComparedPoint,
    inputs: FigureInputs,
) -> pd.DataFrame:
    """Return `data` with the column `CLEAR`: whether a point is clearly above the point that it is compared with.

    None where a point is compared with no point, or with one that is not in the data.
    """
    points = list(records(data, "panel", "series", "x", "model"))
    model_at = {}
    for panel, series, x, model in points:
        model_at[panel, series, x] = model
    pair_of_row: dict[Hashable, tuple[str, str, str]] = {}
    for row, (panel, series, x, model) in zip(data.index, points, strict=True):
        other_point = compared_with(series, x)
        if other_point is None:
            continue
        other_series, other_x = other_point
        rival = model_at.get((panel, other_series, other_x))
        if rival is not None:
            pair_of_row[row] = (panel, model, rival)
    # All pairs in one call, since Holm's adjustment is over all pairs of the figure.
    is_above = _clearly_above(list(pair_of_row.values()), inputs)
    clear_of_row = dict(zip(pair_of_row, is_above, strict=True))
    # As objects, since a column of booleans cannot hold None.
    clear = pd.Series([clear_of_row.get(row) for row in data.index], dtype=object)
    return data.assign(**{CLEAR: clear})


def refuse_empty(
    figure: FigureSpec, data: pd.DataFrame, inputs: FigureInputs
) -> pd.DataFrame:
    """Return `data`, unless none of its rows is from the source.

    Raises:
        UserError: nothing is; the sentence names what the figure needs.
    """
    if inputs.source.name in set(data["source"]):
        return data
    source = inputs.source
    own = sorted(inputs.own_models & set(inputs.averages["model"]))
    if own:
        raise UserError(
            f"{figure.label} ({figure.title}) cannot show {', '.join(own)}; "
            "--source published draws only the paper's models"
        )
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
    """Return `data` without own base models that nothing continues; the starts of `known` stay."""
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
    """Return for each series of a figure the x of all the points that `models` give it."""
    points: dict[str, list[float]] = {}
    for name in models:
        point = _position_of(name, position, {})
        if point is not None and not isinstance(point.x, str):
            points.setdefault(point.series, []).append(point.x)
    return {series: sorted(xs) for series, xs in points.items()}


def size_rank(size: str) -> float:
    """Return the number that a size such as `610m` or `1B` stands for; infinity for a name without one."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([mb])", size.lower())
    if match is None:
        return math.inf
    unit = 1e6 if match[2] == "m" else 1e9
    return float(match[1]) * unit


def describe_points(data: pd.DataFrame, x_text: str, *, panel: str = "") -> str:
    """Return in sentences, for each panel and x, the score of every series, and of two their difference.

    Args:
        data: of a figure.
        x_text: how an x is written, such as `{:g} % CLM`.
        panel: what the panel is called; by default by its task.
    """
    sentences = []
    for name, rows in data.groupby("panel", sort=False):
        title = panel
        if not panel:
            task = TASKS[str(name)]
            title = f"{task.title} ({task.metric}, %)"
        has_groups = isinstance(rows["x"].iloc[0], str)
        parts = []
        for x, at_x in rows.groupby("x", sort=not has_groups):
            parts.append(f"{_scores_text(at_x)} at {x_text.format(x)}")
        sentences.append(f"{title}: {'; '.join(parts)}.")
    return " ".join(sentences)


def _scores_text(rows: pd.DataFrame) -> str:
    """Return the score of each series, and of two their difference."""
    scores = list(records(rows, "series", "mean"))
    text = ", ".join(f"{series} {mean:.2f}" for series, mean in scores)
    if len(scores) != 2:
        return text
    (_, first), (_, second) = scores
    return f"{text} (difference {first - second:+.2f})"


def count_ahead(
    data: pd.DataFrame, _: FigureInputs, *, pair: tuple[str, str], what: str
) -> str:
    """Return by task at how many of their common x the first series is clearly above the second.

    Args:
        data: of a figure.
        pair: two series.
        what: several x are, such as `sizes`.
    """
    parts: list[str] = []
    counted = data[data[CLEAR].notna()]
    for task, rows in counted.groupby("panel", sort=False):
        # The noun stands in the first part only: 3 of 3 sizes on SC, 2 of 3 on TC.
        noun = "" if parts else f" {what}"
        n_clear = sum(rows[CLEAR])
        parts.append(f"{n_clear} of {len(rows)}{noun} on {task}")
    if not parts:
        return ""
    first, second = pair
    counts = ", ".join(parts)
    return f"{first} scores clearly above {second} (filled; Holm) at {counts}"


def last_differences(
    data: pd.DataFrame, _: FigureInputs, *, pair: tuple[str, str], when: str
) -> str:
    """Return by how much the first series ends above the second, by task; `when` says where that is."""
    first, second = pair
    parts = []
    for task, rows in data.groupby("panel", sort=False):
        wide = rows.pivot_table(index="x", columns="series", values="mean", sort=False)
        if not set(pair) <= set(wide):
            continue
        both = wide[list(pair)].dropna()
        if both.empty:
            continue
        last = both.iloc[-1]
        gap = last[first] - last[second]
        parts.append(f"{task} {gap:+.2f}".replace("-", "\u2212"))
    if not parts:
        return ""
    return f"{when}, {first} minus {second} (points): {', '.join(parts)}"


def best_points(data: pd.DataFrame, inputs: FigureInputs, *, x_text: str) -> str:
    """Return by task the x of each series' highest score and of the scores not clearly below the highest.

    `x_text` says what an x is. The scores decide which is the highest, so all pairs of a series are corrected for.
    """
    names = list(dict.fromkeys(data["series"]))
    lines = []
    for _, rows in data.groupby(["panel", "series"], sort=False):
        lines.append(rows.sort_values("x"))
    worse = _clearly_worse(lines, inputs)
    texts: dict[str, list[str]] = {}
    for rows in lines:
        task = rows["panel"].iloc[0]
        xs = [f"{x:g}" for row, x in rows["x"].items() if row not in worse]
        # A line of one point says nothing about the best of several.
        is_any = len(xs) == len(rows) > 1
        text = "any" if is_any else "/".join(xs)
        texts.setdefault(task, []).append(text)
    parts = []
    for task, of_series in texts.items():
        listed = ", ".join(of_series)
        if set(of_series) == {"any"}:
            listed = "any"
        parts.append(f"{task} {listed}")
    return f"{x_text} ({', '.join(names)}): {'; '.join(parts)}"


def _clearly_worse(
    lines: Iterable[pd.DataFrame], inputs: FigureInputs
) -> set[Hashable]:
    """Return the rows whose score is clearly below the highest of their line."""
    pairs: list[tuple[str, str, str]] = []
    below_best: dict[Hashable, tuple[str, str, str]] = {}
    for rows in lines:
        by_score = rows.sort_values("mean", ascending=False)
        task = by_score["panel"].iloc[0]
        ranked = list(by_score["model"])
        best = ranked[0]
        # Any point might have been the highest, so that all pairs are tested: of four ratios six, not three.
        for higher, lower in itertools.combinations(ranked, 2):
            pairs.append((task, higher, lower))
        for row, model in by_score["model"].items():
            if model != best:
                below_best[row] = (task, best, model)
    is_above = dict(zip(pairs, above_together(pairs, inputs), strict=True))
    return {row for row, pair in below_best.items() if is_above[pair]}


def above_mlm_alone(data: pd.DataFrame, _: FigureInputs) -> str:
    """Return for each share of CLM in how many pairs of task and series its score is clearly above the score at 0 %."""
    counted = data[data[CLEAR].notna()]
    parts = []
    for x, rows in counted.groupby("x"):
        n_clear = sum(rows[CLEAR])
        parts.append(f"{x:g} % CLM in {n_clear} of {len(rows)}")
    if not parts:
        return ""
    return f"Clearly above MLM alone (filled; Holm): {', '.join(parts)} comparisons"


def _position_of(
    name: str, position: PositionRule, study: Mapping[str, Model], foreign: str = ""
) -> AxisPosition | None:
    """Return where a model is drawn: by the rule; a model whose name says nothing, at `foreign` if it is given."""
    model = find_model(name, study)
    if model is None:
        return AxisPosition(series=name, x=foreign) if foreign else None
    return position(model)


def _x_rank(x: float | str) -> float:
    """Return by what an x is sorted: a number by itself, a group by its size, `Base` first."""
    if not isinstance(x, str):
        return float(x)
    return -1.0 if x == "Base" else size_rank(x)
