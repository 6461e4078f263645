"""What is in a panel: lines or groups of points with intervals, centred scores with their spread, series' names.

A mark stands at its x: hollow, on a thin interval, so that what is behind it shows; filled where the caption counts.
In groups, whose x are words, series stand next to each other. An interval of a model that is not the paper's widens no
axis: an arrow ends it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.markers import CARETDOWN, CARETUP
from matplotlib.ticker import MaxNLocator, NullLocator

from analysis.records import records
from paper_figures.drawing.page import inches
from paper_figures.drawing.style import GREY, INK, SMALLEST, WHITE, Look
from paper_figures.figure import CLEAR, GAPS, point_id
from pretraining.paper_models import MODELS

_LEAST_SPAN = 2.0
"""Points that a y axis spans at least."""
_STEP, _SPAN = 0.13, 0.5
"""Between two series of a group, and all of them at most; groups are 1 apart."""
_NAMES = SMALLEST * 1.22
"""Points of the page between two names of series."""


def draw_lines(
    ax: Axes,
    rows: pd.DataFrame,
    look: Mapping[str, Look],
    *,
    expected: Mapping[str, Sequence[float]],
    ticks: Sequence[float] = (),
    log_x: bool = False,
    bounds: tuple[float, float] | None = None,
    second: bool = False,
) -> None:
    """Draw each series as markers joined by a line, each marker on its interval; a cross where no series has a score.

    Args:
        ax: the panel.
        rows: its data; the index holds the rows of the CSV.
        look: the series' looks, from back to front.
        expected: for each series the x of all its points in the paper; its line is broken where one of them is missing.
        ticks: x ticks; by default every x there is or should be.
        log_x: a logarithmic x axis.
        bounds: of the y axis; by default those of the panel's scores.
        second: whether this is a second row, without crosses, whose marks are not those of the rows of the CSV.
    """
    if rows.empty:
        empty_panel(ax)
        return
    if log_x:
        ax.set_xscale("log")
    expected_of = {name: set(map(float, xs)) for name, xs in expected.items()}
    due = set[float]().union(*expected_of.values())
    present = {float(x) for x in rows["x"]}
    _pad_x(ax, sorted({*ticks, *present, *due}), log_x)
    wanted = list(ticks) or sorted(present | due)
    shown = _ticks_apart(ax, wanted, present, log_x)
    ax.set_xticks(shown, [f"{x:g}" for x in shown])
    ax.xaxis.set_minor_locator(NullLocator())
    y_axis(ax, bounds or score_bounds(rows))
    for rank, name in enumerate(look):
        part = rows[rows["series"] == name]
        if part.empty:
            continue
        xs = part["x"].to_numpy(dtype=float)
        gaps = sorted(expected_of.get(name, set()) - set(xs.tolist()))
        # Marks at one x stand side by side: a caption counts them, so that none may hide another.
        if second:
            low, high = ax.get_xlim()
            aside = rank - (len(look) - 1) / 2
            xs = xs + aside * 0.025 * (high - low)
        # A bar that is drawn behind others at its x is wider, so that it shows on both sides of the others.
        behind = min(0.7 * (len(look) - 1 - rank), 2.1)
        _draw_series(
            ax,
            part,
            xs,
            look[name],
            rank,
            gaps=gaps,
            bar=0.8 + behind,
            with_ids=not second,
        )
    if second:
        return
    for x in sorted(due - present):
        ax.plot(
            [x],
            [0.03],
            transform=ax.get_xaxis_transform(),
            marker="x",
            markersize=3.6,
            markeredgewidth=0.9,
            color=GREY,
            linestyle="none",
            label="_missing",
            zorder=3,
        )


def draw_differences(
    ax: Axes,
    rows: pd.DataFrame,
    look: Mapping[str, Look],
    *,
    base: float,
    expected: Mapping[str, Sequence[float]],
    ticks: Sequence[float],
) -> None:
    """Draw under a panel by how much each point is above that of its series at x = `base`, around a line at zero.

    Args:
        ax: below the panel, with its x axis.
        rows: the panel's, with the columns `GAPS`.
        look, expected, ticks: as in `draw_lines`.
        base: the x that the others are compared with.
    """
    gap, gap_low, gap_high = GAPS
    compared = rows[(rows["x"] != base) & rows[gap].notna()]
    if compared.empty:
        empty_panel(ax)
        return
    shown = compared.assign(
        mean=compared[gap], low=compared[gap_low], high=compared[gap_high]
    )
    low, high = _ends(shown)
    bounds = _around(min(low, 0.0), max(high, 0.0))
    due = {}
    for name, xs in expected.items():
        due[name] = [x for x in xs if x != base]
    draw_lines(ax, shown, look, expected=due, ticks=ticks, bounds=bounds, second=True)
    ax.axhline(0, color=INK, linewidth=0.7, zorder=1.5)


def draw_groups(
    ax: Axes,
    rows: pd.DataFrame,
    look: Mapping[str, Look],
    *,
    groups: Sequence[str],
    names: Mapping[str, str] | None = None,
    bounds: tuple[float, float] | None = None,
) -> None:
    """Draw a point with its interval for each series in every group; a thin line follows a series over the groups.

    Args:
        ax: the panel.
        rows: its data; `x` names the group, the index holds the rows of the CSV.
        look: the series' looks, in the order in which they stand next to each other.
        groups: left to right.
        names: what is written of a group, where it is not its `x`.
        bounds: as in `draw_lines`.
    """
    written = names or {}
    labels = [written.get(group, group) for group in groups]
    ax.set_xticks(range(len(groups)), labels)
    ax.set_xlim(-0.4, len(groups) - 0.6)
    if rows.empty:
        empty_panel(ax)
        return
    y_axis(ax, bounds or score_bounds(rows))
    present = set(rows["series"])
    series = [name for name in look if name in present]
    steps_between = len(series) - 1
    step = min(_STEP, _SPAN / max(steps_between, 1))
    all_places = set(map(float, range(len(groups))))
    for rank, name in enumerate(series):
        part = rows[rows["series"] == name]
        places = np.array([groups.index(x) for x in part["x"]], dtype=float)
        # The line is not drawn across a group without a point.
        gaps = sorted(all_places - set(places.tolist()))
        from_middle = rank - steps_between / 2
        xs = places + from_middle * step
        _draw_series(ax, part, xs, look[name], rank, gaps=gaps, linewidth=0.8)


def draw_spread(
    ax: Axes, rows: pd.DataFrame, points: pd.DataFrame, look: Mapping[str, Look]
) -> None:
    """Draw centred scores: a bar of one standard deviation either side of zero, the single scores next to it.

    Args:
        ax: the panel.
        rows: for each column mean (0), low (-sd) and high (sd).
        points: the single centred scores, in `mean`.
        look: the columns' looks, left to right.
    """
    ax.set_xticks(range(len(look)), list(look))
    ax.tick_params(axis="x", length=0)
    ax.set_xlim(-0.6, len(look) - 0.4)
    ax.axhline(0, color=GREY, linewidth=0.6, zorder=1)
    if rows.empty:
        empty_panel(ax)
        return
    for column, (name, style) in enumerate(look.items()):
        single = points[points["x"] == name]
        # Marks are fanned out to the side, so that equal scores do not hide each other.
        middles = np.arange(len(single)) + 0.5
        fan = column + 0.1 + 0.26 * middles / max(len(single), 1)
        for x, (number, value) in zip(fan, single["mean"].items(), strict=True):
            ax.plot(
                [x],
                [value],
                linestyle="none",
                marker=style.marker,
                markersize=2.8,
                color=style.color,
                markeredgewidth=0,
                label=f"{name} single",
                zorder=2,
                gid=point_id(number),
            )
        _draw_bars(ax, rows[rows["series"] == name], column, style)
    values = np.concatenate([points["mean"], rows["low"], rows["high"]])
    most = float(np.nanmax(np.abs(values)))
    # Zero in the middle, and room above for the standard deviations in words.
    y_axis(ax, _around(-most, most, above=0.16))


def _draw_bars(ax: Axes, rows: pd.DataFrame, column: int, style: Look) -> None:
    """Draw a column's standard deviation either side of its mean, and write how large it is."""
    x = column - 0.18
    columns = ("series", "mean", "low", "high")
    numbered = zip(rows.index, records(rows, *columns), strict=True)
    for number, (name, mean, low, high) in numbered:
        ax.vlines(
            [x],
            [low],
            [high],
            color=style.color,
            linewidth=1.6,
            zorder=3,
            label=f"_sd {name}",
        )
        ax.plot(
            [x, x],
            [low, high],
            linestyle="none",
            marker="_",
            markersize=8,
            markeredgewidth=1.4,
            color=style.color,
            zorder=3,
            label="_ends",
        )
        ax.plot(
            [x],
            [mean],
            marker=style.marker,
            markersize=5,
            markeredgecolor=WHITE,
            color=style.color,
            markeredgewidth=0.6,
            label=name,
            zorder=3.1,
            gid=point_id(number),
        )
        # A column of one score has no standard deviation.
        if math.isfinite(high):
            ax.annotate(
                f"sd {high:.2f}",
                (column, 1),
                xycoords=("data", "axes fraction"),
                xytext=(0, -1),
                textcoords="offset points",
                ha="center",
                va="top",
                color=INK,
            )


def empty_panel(ax: Axes) -> None:
    """Say in an empty panel that the source has nothing for it."""
    ax.text(
        0.5,
        0.5,
        "not in this source",
        transform=ax.transAxes,
        ha="center",
        va="center",
        color=GREY,
    )
    ax.set_yticks([])
    if not ax.get_xticklabels() or ax.get_xlim() == (0.0, 1.0):
        ax.set_xticks([])


def names_fit(data: pd.DataFrame, panel: str) -> bool:
    """Return whether that panel holds every series of the data, so that all can be named there."""
    return set(data.loc[data["panel"] == panel, "series"]) == set(data["series"])


def write_names(ax: Axes, rows: pd.DataFrame, look: Mapping[str, Look]) -> None:
    """Write each series' name right of the panel at the height of its last value, moved as far as names would touch.

    Args:
        ax: the panel, with its limits set.
        rows: what it draws, each series by rising x.
        look: the series' looks.
    """
    ends = dict(records(rows, "series", "mean"))
    # In points of the page, like all heights in this function.
    tall = 72 * float(ax.bbox.height) / ax.figure.dpi
    scale = ax.transData + ax.transAxes.inverted()
    wanted = []
    for name, value in ends.items():
        _, share = scale.transform((1.0, value))
        wanted.append((float(share) * tall, name))
    wanted.sort()
    placed = _names_apart(wanted, tall)
    for (height, name), (line_end, _) in zip(placed, wanted, strict=True):
        end = (1, line_end / tall)
        moved = (6, height - line_end)
        ax.annotate(
            name,
            end,
            xycoords="axes fraction",
            xytext=moved,
            textcoords="offset points",
            va="center",
            ha="left",
            fontweight="bold",
            color=look[name].ink,
            annotation_clip=False,
        )


def _names_apart(
    wanted: list[tuple[float, str]], panel_height: float
) -> list[tuple[float, str]]:
    """Return the names with heights at which none touch, within the panel.

    Names that would touch are stacked around the mean of their heights.

    Args:
        wanted: height and name of each, from bottom to top.
        panel_height: in the same unit.
    """
    # A block is a set of names that would touch: the height of its middle, and its names from bottom to top.
    blocks: list[tuple[float, list[str]]] = []
    for height, name in wanted:
        blocks.append((height, [name]))
        while len(blocks) > 1:
            (low, lower_names), (high, upper_names) = blocks[-2:]
            names = [*lower_names, *upper_names]
            if high - low >= _NAMES * len(names) / 2:
                break
            # The two become one block, which may now touch the one below it.
            weighted = low * len(lower_names) + high * len(upper_names)
            blocks[-2:] = [(weighted / len(names), names)]
    placed = []
    for middle, names in blocks:
        half = _NAMES * len(names) / 2
        lowest = half - _NAMES / 2
        highest = panel_height - half + _NAMES / 2
        middle = min(max(middle, lowest), highest)
        for rank, name in enumerate(names):
            above_middle = rank - (len(names) - 1) / 2
            placed.append((middle + _NAMES * above_middle, name))
    return placed


def score_bounds(rows: pd.DataFrame) -> tuple[float, float]:
    """Return the ends of an axis of percentages for these rows: within 0 and 100, where all scores are."""
    low, high = _around(*_ends(rows))
    means = rows["mean"]
    # The metric of a dataset of one's own, such as a correlation, may be below 0.
    lowest = min(0.0, float(means.min()))
    highest = max(100.0, float(means.max()))
    return max(low, lowest), min(high, highest)


def _ends(rows: pd.DataFrame) -> tuple[float, float]:
    """Return the least and the largest of all means and of the paper's models' intervals; without them, of all."""
    is_papers = rows["model"].isin(list(MODELS))
    # With the wide interval of an own model of two seeds, the paper's differences would be too small to see.
    counted = rows[is_papers] if is_papers.any() else rows
    columns = [rows["mean"], counted["low"], counted["high"]]
    values = np.concatenate(columns).astype(float)
    lowest = float(np.nanmin(values))
    highest = float(np.nanmax(values))
    return lowest, highest


def y_axis(ax: Axes, bounds: tuple[float, float]) -> None:
    """Set the limits, and round ticks within them."""
    low, high = bounds
    ticks = MaxNLocator(nbins=5, steps=[1, 2, 5, 10]).tick_values(low, high)
    ax.set_yticks([tick for tick in ticks if low <= tick <= high])
    ax.set_ylim(low, high)


def _around(low: float, high: float, *, above: float = 0.06) -> tuple[float, float]:
    """Return limits around [low, high]; `above` is the room above `high`, as a share of the span.

    The span is at least `_LEAST_SPAN`, so that a small difference does not fill the panel.
    """
    span = max(high - low, _LEAST_SPAN)
    middle = (low + high) / 2
    bottom = min(low, middle - span / 2) - 0.06 * span
    top = max(high, middle + span / 2) + above * span
    return bottom, top


def _draw_series(
    ax: Axes,
    part: pd.DataFrame,
    xs: np.ndarray,
    style: Look,
    rank: int,
    *,
    gaps: Sequence[float],
    linewidth: float = 1.1,
    bar: float = 0.8,
    with_ids: bool = True,
) -> None:
    """Draw one series: its line, broken at each x of `gaps`, its intervals, and a mark for each row."""
    name = str(part["series"].iloc[0])
    # A nan breaks a line of matplotlib's.
    line_x = np.concatenate([xs, gaps])
    means = part["mean"].to_numpy(dtype=float)
    line_y = np.concatenate([means, np.full(len(gaps), np.nan)])
    order = np.argsort(line_x, kind="stable")
    ax.plot(
        line_x[order],
        line_y[order],
        label=name,
        color=style.color,
        linestyle=style.dash,
        linewidth=linewidth,
        zorder=2.1 + 0.01 * rank,
    )
    # Where there is no interval, its ends are nan, and no comparison with nan is true.
    has_interval = (part["low"] <= part["high"]).to_numpy()
    if has_interval.any():
        low, high = part["low"][has_interval], part["high"][has_interval]
        ax.vlines(
            xs[has_interval],
            low,
            high,
            color=style.color,
            linewidth=bar,
            zorder=2.3 + 0.01 * rank,
            label="_interval",
        )
    bottom, top = ax.get_ylim()
    is_filled = part[CLEAR] if CLEAR in part else [False] * len(part)
    points = zip(
        xs, part.index, part["mean"], part["low"], part["high"], is_filled, strict=True
    )
    for x, number, mean, low, high, filled in points:
        ends = []
        if low < bottom:
            ends.append((bottom, CARETDOWN))
        if high > top:
            ends.append((top, CARETUP))
        for end, arrow in ends:
            ax.plot(
                [x],
                [end],
                linestyle="none",
                marker=arrow,
                markersize=3.4,
                markeredgewidth=0.0,
                color=style.color,
                zorder=2.3 + 0.01 * rank,
                label="_end",
                clip_on=False,
            )
        # `filled` is None where the caption does not count the point: its mark stays hollow.
        face = style.color if filled is True else WHITE
        mark_id = point_id(number) if with_ids else None
        ax.plot(
            [x],
            [mean],
            linestyle="none",
            marker=style.marker,
            markersize=3.9,
            markeredgewidth=1.0,
            markerfacecolor=face,
            markeredgecolor=style.color,
            zorder=2.5 + 0.01 * rank,
            label=f"_{name}",
            clip_on=False,
            gid=mark_id,
        )


def _ticks_apart(
    ax: Axes, ticks: Sequence[float], first: set[float], log_x: bool
) -> list[float]:
    """Return the ticks whose labels do not touch; where two touch, a tick in `first` is kept."""
    scale = math.log if log_x else float
    left, right = ax.get_xlim()
    width = float(ax.bbox.width) / ax.figure.dpi
    inches_of_unit = width / (scale(right) - scale(left))

    def touch(x: float, other: float) -> bool:
        place = inches_of_unit * scale(x)
        other_place = inches_of_unit * scale(other)
        needed = inches(f"{x:g}") / 2 + 0.03 + inches(f"{other:g}") / 2
        return abs(place - other_place) <= needed

    # An x with a score needs its label more than an x where only a cross marks that a score is missing.
    before = sorted(x for x in ticks if x in first)
    after = sorted(x for x in ticks if x not in first)
    shown: list[float] = []
    for x in before + after:
        if not any(touch(x, other) for other in shown):
            shown.append(x)
    return sorted(shown)


def _pad_x(ax: Axes, xs: Sequence[float], log_x: bool) -> None:
    """Set the limits of the x axis, with room on both sides of all `xs`."""
    low, high = min(xs), max(xs)
    if log_x:
        # On a logarithmic axis a share of its width is a factor; a single x is treated as spanning a factor of 1.1.
        ratio = max(high / low, 1.1) ** 0.07
        ax.set_xlim(low / ratio, high * ratio)
    else:
        room = 0.07 * (high - low) or 1.0
        ax.set_xlim(low - room, high + room)
