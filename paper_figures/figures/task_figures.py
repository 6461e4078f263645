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
from analysis.statistics.inference import ALPHA, holm
from benchmarks.protocol import TASKS
from common.errors import UserError
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
from paper_figures.figure import CLEAR, COLUMNS, GAPS, FigureInputs, FigureSpec
from pretraining.models import MODELS, Model, arm_of, find_model

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
    counts: Callable[[str, float | str], tuple[str, float | str] | None] | None = None
    """Series and x of a point -> those of the one in its panel that it has to be above to be counted by `said`."""
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
        if self.counts is not None:
            data = _with_clear(data, self.counts, inputs)
        data.attrs["sizes"] = (
            inputs.source.stand_ins.sizes if inputs.source.stand_ins else {}
        )
        return data

    def finding(self, data: pd.DataFrame, inputs: FigureInputs) -> str:
        """Return what is seen."""
        return self.said(
            data.assign(series=data["series"].replace(data.attrs["sizes"])), inputs
        )

    def draw(self, data: pd.DataFrame, heading: str, caption: str) -> Figure:
        """Return its panels; series are named where they end in the first, or in a legend where it lacks one."""
        first_task = next(iter(TASKS))
        sizes = data.attrs.get("sizes", {})  # a small study's, by the paper's
        data = data.assign(series=data["series"].replace(sizes))
        looks = {
            sizes.get(name, name): look_of_name
            for name, look_of_name in self.looks.items()
        }
        look = looks_of(data["series"], looks)
        has_names = len(self.looks) != 1
        is_narrow = (
            max((inches(name, bold=True) for name in look), default=0.0) < _LONGEST
        )
        names_at_ends = has_names and is_narrow and names_fit(data, first_task)
        has_other_sizes = bool(sizes and self.groups and self.x_label)
        drawing, axes = make_page(
            heading=heading,
            panels=task_panels(),
            x_label=f"{self.x_label} (million parameters)"
            if has_other_sizes
            else self.x_label,
            caption=caption,
            look=look if has_names else {},
            legend=has_names and not names_at_ends,
            second=self.second,
        )
        self._draw_panels(axes, data, look, sizes)
        if names_at_ends:
            write_names(axes[first_task], data[data["panel"] == first_task], look)
        return drawing

    def draw_panel(self, data: pd.DataFrame, panel: str, ax: Axes) -> None:
        """Draw one task on axes, with a legend."""
        if panel not in TASKS:
            super().draw_panel(data, panel, ax)  # refuses it
        [entry] = [
            task_panel for task_panel in task_panels() if task_panel.name == panel
        ]
        look = looks_of(data["series"], self.looks)
        self._draw_panels({panel: ax}, data, look, data.attrs.get("sizes", {}))
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
        """Draw the tasks that have axes; `sizes`: what a small study's sizes are called, by the paper's."""
        parts = {task: data[data["panel"] == task] for task in TASKS if task in axes}
        for task, rows in parts.items():
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
        expected = {
            sizes.get(name, name): xs for name, xs in self.x_axis["expected"].items()
        }
        ticks = self.ticks(
            {float(x) for x in data["x"]} | {x for xs in expected.values() for x in xs}
        )
        for task, rows in parts.items():
            below = axes.get(task + DIFFERENCES)
            # With a second row, its differences are what is counted.
            shown = rows if below is None else rows.drop(columns=CLEAR, errors="ignore")
            draw_lines(
                axes[task],
                shown,
                look,
                expected=expected,
                ticks=ticks,
                log_x=self.log_x,
            )
            if below is not None and self.base is not None:
                axes[task].tick_params(labelbottom=False)
                draw_differences(
                    below, rows, look, base=self.base, expected=expected, ticks=ticks
                )

    def describe(self, data: pd.DataFrame) -> str:
        """Return what is seen."""
        kind = "Lines" if self.groups is None else "Points with intervals"
        under = (
            f"; below, the {self.second[0].lower()}{self.second[1:]}"
            if self.second
            else ""
        )
        return f"{kind} in four panels, one per task{under}. {describe_points(data, self.x_text)}"


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
        Columns `COLUMNS`, ordered by panel, series and x as drawn.
    """
    averages = inputs.averages
    scored = list(averages["model"].unique())
    # A repeat (`mine-s1`) is left out where the model itself (`mine`) is there.
    first_pretrainings = []
    for name in scored:
        arm, repeat = arm_of(name)
        if repeat == 0 or arm not in scored:
            first_pretrainings.append(name)
    names = [
        *figure.models,
        *(name for name in first_pretrainings if others or name not in MODELS),
    ]
    all_positions = {
        name: _position_of(name, position, inputs.source.study_models, foreign)
        for name in names
    }
    positions = {
        name: drawn_at
        for name, drawn_at in all_positions.items()
        if drawn_at is not None
    }
    own = sorted(
        (name for name in positions if name not in figure.models),
        key=lambda name: (positions[name].series, _x_rank(positions[name].x)),
    )
    order = [*(name for name in figure.models if name in positions), *own]
    series = list(dict.fromkeys(positions[name].series for name in order))
    rows = averages[averages["model"].isin(order)]
    data = rows.rename(columns={"task": "panel"}).assign(
        series=[positions[n].series for n in rows["model"]],
        x=[positions[n].x for n in rows["model"]],
    )
    ranks: dict[str, Callable[[Any], float]] = {
        "panel": list(TASKS).index,
        "series": series.index,
        "x": _x_rank,
    }
    return data.sort_values(
        list(ranks),
        key=lambda column: column.map(ranks[str(column.name)]),
        ignore_index=True,
        kind="stable",
    )[COLUMNS]


def _with_gaps(data: pd.DataFrame, base: float, inputs: FigureInputs) -> pd.DataFrame:
    """Return `data` with the columns `GAPS`: how far a point is above that of its panel and series at x = `base`."""
    bases = {
        (panel, series): model
        for panel, series, x, model in records(data, "panel", "series", "x", "model")
        if x == base
    }
    gaps = []
    for panel, series, model in records(data, "panel", "series", "model"):
        base_model = bases.get((panel, series))
        if base_model is None or base_model == model:
            gaps.append((math.nan,) * 3)
            continue
        result = inputs.evidence.result(
            difference(f"{model} - {base_model}", model, base_model, panel)
        )
        gaps.append((result.effect, result.low, result.high))
    return data.assign(**dict(zip(GAPS, zip(*gaps, strict=True), strict=True)))


def _clearly_above(
    pairs: Sequence[tuple[str, str, str]], inputs: FigureInputs
) -> list[bool]:
    """Return of (task, first, second) whether the first model is clearly above.

    A comparison that a finding counts is clear where it counts it; the others are corrected for each other.
    """
    names = {name for _, *models in pairs for name in models}
    owned = owned_pairs(names, inputs.evidence.result)
    keys = [(task, frozenset(models)) for task, *models in pairs]
    others = [pair for pair, key in zip(pairs, keys, strict=True) if key not in owned]
    clear = dict(zip(others, above_together(others, inputs), strict=True))
    return [
        clear[pair] if pair in clear else owned[key].ahead == pair[1]
        for pair, key in zip(pairs, keys, strict=True)
    ]


def above_together(
    pairs: Sequence[tuple[str, str, str]], inputs: FigureInputs
) -> list[bool]:
    """Return of (task, first, second) whether the first model is above, after Holm's adjustment over all of them."""
    contrasts = (
        difference(f"{first} - {second}", first, second, task)
        for task, first, second in pairs
    )
    ps = [inputs.evidence.result(one).p_for for one in contrasts]
    return [bool(p <= ALPHA) for p in holm(ps)]


def _with_clear(
    data: pd.DataFrame,
    counts: Callable[[str, float | str], tuple[str, float | str] | None],
    inputs: FigureInputs,
) -> pd.DataFrame:
    """Return `data` with the column `CLEAR`: whether a point is clearly above the one that `counts` names, or None."""
    drawn = list(records(data, "panel", "series", "x", "model"))
    model_at = {(panel, series, x): model for panel, series, x, model in drawn}
    pairs = {
        row: (panel, model, rival)
        for row, (panel, series, x, model) in zip(data.index, drawn, strict=True)
        if (other := counts(series, x)) and (rival := model_at.get((panel, *other)))
    }
    clear = dict(zip(pairs, _clearly_above([*pairs.values()], inputs), strict=True))
    return data.assign(
        **{CLEAR: pd.Series([clear.get(row) for row in data.index], dtype=object)}
    )


def refuse_empty(
    figure: FigureSpec, data: pd.DataFrame, inputs: FigureInputs
) -> pd.DataFrame:
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
    some = (
        ", ".join(names)
        if len(names) < 4
        else f"{names[0]}, {names[1]} and {len(names) - 2} other models"
    )
    raise UserError(
        f"{figure.label} cannot be drawn from {source.label}: it has no task average of "
        f"{', '.join(sorted(inputs.own_models)) or some}; an average needs {source.average_needs}"
    )


def continued_only(
    data: pd.DataFrame, known: Iterable[str], study: Mapping[str, Model]
) -> pd.DataFrame:
    """Return `data` without own base models that nothing continues; the starts of `known` stay."""
    kinds = {
        name: model.kind
        for name in data["model"]
        if (model := find_model(name, study)) is not None
    }
    continued = set(data["series"][data["model"].map(kinds) == "continued"])
    return data[data["series"].isin(continued | set(known))].reset_index(drop=True)


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
    return (
        float("inf")
        if match is None
        else float(match[1]) * (1e6 if match[2] == "m" else 1e9)
    )


def describe_points(data: pd.DataFrame, x_text: str, *, panel: str = "") -> str:
    """Return in sentences, for each panel and x, the score of every series, and of two their difference.

    Args:
        data: of a figure.
        x_text: how an x is written, such as `{:g} % CLM`.
        panel: what the panel is called; by default by its task.
    """
    sentences = []
    for name, rows in data.groupby("panel", sort=False):
        title = panel or f"{TASKS[str(name)].title} ({TASKS[str(name)].metric}, %)"
        parts = []
        for x, at_x in rows.groupby("x", sort=not isinstance(rows["x"].iloc[0], str)):
            scores = list(records(at_x, "series", "mean"))
            text = ", ".join(f"{series} {mean:.2f}" for series, mean in scores)
            if len(scores) == 2:
                text += f" (difference {scores[0][1] - scores[1][1]:+.2f})"
            parts.append(f"{text} at {x_text.format(x)}")
        sentences.append(f"{title}: {'; '.join(parts)}.")
    return " ".join(sentences)


def count_ahead(
    data: pd.DataFrame, _: FigureInputs, *, pair: tuple[str, str], what: str
) -> str:
    """Return on how many of the x that both series have the first is clearly above the second, by task.

    Args:
        data: of a figure.
        pair: two series.
        what: several x are, such as `sizes`.
    """
    parts: list[str] = []
    for task, rows in data[data[CLEAR].notna()].groupby("panel", sort=False):
        noun = "" if parts else f" {what}"
        parts.append(f"{sum(rows[CLEAR])} of {len(rows)}{noun} on {task}")
    return (
        f"{pair[0]} scores clearly above {pair[1]} (filled; Holm) at {', '.join(parts)}"
        if parts
        else ""
    )


def last_differences(
    data: pd.DataFrame, _: FigureInputs, *, pair: tuple[str, str], when: str
) -> str:
    """Return by how much the first series ends above the second, by task; `when` says where that is."""
    parts = []
    for task, rows in data.groupby("panel", sort=False):
        wide = rows.pivot_table(index="x", columns="series", values="mean", sort=False)
        if set(pair) <= set(wide) and len(both := wide[list(pair)].dropna()):
            gap = both[pair[0]].iloc[-1] - both[pair[1]].iloc[-1]
            parts.append(f"{task} {gap:+.2f}".replace("-", "\u2212"))
    return (
        f"{when}, {pair[0]} minus {pair[1]} (points): {', '.join(parts)}"
        if parts
        else ""
    )


def best_points(data: pd.DataFrame, inputs: FigureInputs, *, x_text: str) -> str:
    """Return the x of each series' highest score and of those not clearly below it, by task; `x_text`: what an x is.

    Which score is the highest is seen in the scores, so all pairs of a series are corrected for.
    """
    names = list(dict.fromkeys(data["series"]))
    lines = [
        rows.sort_values("x")
        for _, rows in data.groupby(["panel", "series"], sort=False)
    ]
    pairs: list[tuple[str, str, str]] = []
    best_of: dict[Hashable, tuple[str, str, str]] = {}
    for rows in lines:
        by_score = rows.sort_values("mean", ascending=False)
        task = by_score["panel"].iloc[0]
        ranked = list(by_score["model"])
        pairs += ((task, *models) for models in itertools.combinations(ranked, 2))
        best_of |= {
            row: (task, ranked[0], model)
            for row, model in by_score["model"].items()
            if model != ranked[0]
        }
    clear = dict(zip(pairs, above_together(pairs, inputs), strict=True))
    worse = {row for row, pair in best_of.items() if clear[pair]}
    texts: dict[str, list[str]] = {}
    for rows in lines:
        xs = [f"{x:g}" for row, x in rows["x"].items() if row not in worse]
        every = len(xs) == len(rows) > 1
        texts.setdefault(rows["panel"].iloc[0], []).append(
            "any" if every else "/".join(xs)
        )
    listed = "; ".join(
        f"{task} {', '.join(dict.fromkeys(of_series) if set(of_series) == {'any'} else of_series)}"
        for task, of_series in texts.items()
    )
    return f"{x_text} ({', '.join(names)}): {listed}"


def above_mlm_alone(data: pd.DataFrame, _: FigureInputs) -> str:
    """Return at each share of CLM in how many pairs of task and series the score is clearly above that at 0 %."""
    parts = [
        f"{x:g} % CLM in {sum(rows[CLEAR])} of {len(rows)}"
        for x, rows in data[data[CLEAR].notna()].groupby("x")
    ]
    return (
        f"Clearly above MLM alone (filled; Holm): {', '.join(parts)} comparisons"
        if parts
        else ""
    )


def _position_of(
    name: str, position: PositionRule, study: Mapping[str, Model], foreign: str = ""
) -> AxisPosition | None:
    """Return where a model is drawn: by the rule, or at `foreign`, if that is given, where its name says nothing."""
    model = find_model(name, study)
    if model is None:
        return AxisPosition(series=name, x=foreign) if foreign else None
    return position(model)


def _x_rank(x: float | str) -> float:
    """Return by what an x is sorted: a number by itself, a group by its size, `Base` first."""
    if not isinstance(x, str):
        return float(x)
    return -1.0 if x == "Base" else size_rank(x)
