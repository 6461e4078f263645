"""What is in a panel: lines or groups of points with intervals, centred scores with their spread, series' names.

The mark of a point is hollow, so that what is behind it shows, and filled where the caption counts the point (`CLEAR`).
If x are words, each word is a group, in which the points of all series stand side by side. The interval of a model that
is not the paper's does not widen an axis: where it leaves the panel, an arrow ends it.

Frames have a row for each point, with the columns `FIGURE_COLUMNS` (`paper_figures.figure`); their index holds the
number of the row in the CSV. matplotlib leaves out of legends what has a label that begins with an underscore, and
writes a `gid` as the id of the mark in an SVG.
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
"""Points of percent that a y axis spans at least."""
_STEP, _SPAN = 0.13, 0.5
"""Distance of two series within a group, and the most from the first to the last; groups are 1 apart."""
_NAMES = SMALLEST * 1.22
"""Distance of two names of series, one above the other, in points of the page (1/72 inch)."""


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
        ticks: x ticks; by default every x that has a score or is expected.
        log_x: whether the x axis is logarithmic.
        bounds: ends of the y axis; by default they are chosen by the scores of the panel.
        second: whether this is a panel of a second row. Such a panel has a linear x axis and no crosses; series that
            share an x stand side by side. The marks of the rows of the CSV are in the first row, so that those of the
            second have no ids.
    """
    if rows.empty:
        empty_panel(ax)
        return

    # The axes. The x axis has room for all points, also for those that are expected and missing.
    if log_x:
        ax.set_xscale("log")
    expected_of = {name: set(map(float, xs)) for name, xs in expected.items()}
    all_expected = set[float]().union(*expected_of.values())
    with_score = {float(x) for x in rows["x"]}
    _pad_x(ax, sorted({*ticks, *with_score, *all_expected}), log_x)
    all_ticks = list(ticks) or sorted(with_score | all_expected)
    shown = _ticks_apart(ax, all_ticks, with_score, log_x)
    ax.set_xticks(shown, [f"{x:g}" for x in shown])

    # A logarithmic axis would add ticks of its own.
    ax.xaxis.set_minor_locator(NullLocator())
    y_axis(ax, bounds or score_bounds(rows))

    # The series, from back to front.
    for rank, name in enumerate(look):
        part = rows[rows["series"] == name]
        if part.empty:
            continue
        xs = part["x"].to_numpy(dtype=float)
        gaps = sorted(expected_of.get(name, set()) - set(xs.tolist()))

        # The caption counts the marks of a second row, so that none may hide another: series that share an x stand side
        # by side, each a fortieth of the panel's width from the next.
        if second:
            left, right = ax.get_xlim()
            from_middle = rank - (len(look) - 1) / 2
            xs = xs + from_middle * 0.025 * (right - left)

        # Later series are drawn in front. An interval with others in front of it at its x is a wider bar (in points of
        # the page), so that it shows on both sides of theirs.
        in_front = len(look) - 1 - rank
        wider = min(0.7 * in_front, 2.1)
        _draw_series(
            ax,
            part,
            xs,
            look[name],
            rank,
            gaps=gaps,
            bar=0.8 + wider,
            with_ids=not second,
        )

    # The crosses. The first row shows already at which x there is no score.
    if second:
        return

    # A cross just above the x axis: its x is in units of the axis, its y is a share of the panel's height.
    for x in sorted(all_expected - with_score):
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
    """Draw a panel of the second row: by how much each point is above the point at x = `base` of its series.

    Args:
        ax: the panel.
        rows: the points of the panel above it, with the columns `GAPS`.
        look, expected, ticks: as in `draw_lines`.
        base: the x that the others are compared with.
    """
    gap, gap_low, gap_high = GAPS
    compared = rows[(rows["x"] != base) & rows[gap].notna()]
    if compared.empty:
        empty_panel(ax)
        return

    # `draw_lines` draws the columns of scores: here they hold the differences.
    shown = compared.assign(
        mean=compared[gap], low=compared[gap_low], high=compared[gap_high]
    )
    low, high = _ends(shown)

    # The line at zero, no difference, is always within the axis.
    bounds = _around(min(low, 0.0), max(high, 0.0))
    # No series has a point at the base, so that none is missing there.
    expected_here = {}
    for name, xs in expected.items():
        expected_here[name] = [x for x in xs if x != base]
    draw_lines(
        ax,
        shown,
        look,
        expected=expected_here,
        ticks=ticks,
        bounds=bounds,
        second=True,
    )
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
    """Draw a point with its interval for each series in every group; a thin line joins the points of a series.

    Args:
        ax: the panel.
        rows: its data; `x` is the name of the group, the index holds the rows of the CSV.
        look: the series' looks, in the order in which they stand next to each other in a group.
        groups: the names of the groups, left to right.
        names: what is written below a group, by its name; by default the name.
        bounds: as in `draw_lines`.
    """
    label_of = names or {}
    labels = [label_of.get(group, group) for group in groups]
    # The middles of the groups are at 0, 1, 2 and so on; the axis goes on by 0.4 beyond the first and the
    # last.
    ax.set_xticks(range(len(groups)), labels)
    ax.set_xlim(-0.4, len(groups) - 0.6)
    if rows.empty:
        empty_panel(ax)
        return

    y_axis(ax, bounds or score_bounds(rows))
    present = set(rows["series"])
    series = [name for name in look if name in present]
    n_steps = len(series) - 1

    # Many series stand closer together, so that they do not reach into the next group.
    step = min(_STEP, _SPAN / max(n_steps, 1))
    all_middles = set(map(float, range(len(groups))))
    for rank, name in enumerate(series):
        part = rows[rows["series"] == name]
        middles = np.array([groups.index(x) for x in part["x"]], dtype=float)
        # The line is not drawn across a group without a point.
        gaps = sorted(all_middles - set(middles.tolist()))
        from_middle = rank - n_steps / 2
        xs = middles + from_middle * step
        _draw_series(ax, part, xs, look[name], rank, gaps=gaps, linewidth=0.8)


def draw_spread(
    ax: Axes, rows: pd.DataFrame, points: pd.DataFrame, look: Mapping[str, Look]
) -> None:
    """Draw columns of centred scores: a bar of one standard deviation either side of zero, the scores to its right.

    Args:
        ax: the panel.
        rows: a row for each column of the panel, whose name is in `series`: mean (0), low (-sd) and high (sd).
        points: a row for each centred score, which is in `mean`; the name of its column is in `x`.
        look: the columns' looks by their names, left to right.
    """
    # The middles of the columns are at 0, 1, 2 and so on; the axis goes on by 0.6 beyond the first and the
    # last.
    ax.set_xticks(range(len(look)), list(look))
    ax.tick_params(axis="x", length=0)
    ax.set_xlim(-0.6, len(look) - 0.4)
    ax.axhline(0, color=GREY, linewidth=0.6, zorder=1)
    if rows.empty:
        empty_panel(ax)
        return

    for column, (name, style) in enumerate(look.items()):
        of_column = points[points["x"] == name]
        # Marks are spread evenly over a strip right of the middle, so that equal scores do not hide each
        # other. The strip begins 0.1 right of the middle and is 0.26 wide; each mark is in the middle of its
        # share of it.
        ranks = np.arange(len(of_column)) + 0.5
        xs = column + 0.1 + 0.26 * ranks / max(len(of_column), 1)
        for x, (number, value) in zip(xs, of_column["mean"].items(), strict=True):
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
    # The ends of a column of one score are nan: it has no standard deviation.
    farthest = float(np.nanmax(np.abs(values)))

    # Zero is in the middle; above all marks there is room for the standard deviations in words.
    y_axis(ax, _around(-farthest, farthest, above=0.16))


def _draw_bars(ax: Axes, rows: pd.DataFrame, column: int, style: Look) -> None:
    """Draw a column's standard deviation either side of its mean, and write above it how large it is.

    Args:
        ax: the panel.
        rows: the row of the column, as in `draw_spread`; no row if the column has no score.
        column: the x of its middle.
        style: its look.
    """
    # The single scores are drawn right of the middle, the bar left of it.
    x = column - 0.18
    columns = ("series", "mean", "low", "high")
    numbered = zip(rows.index, records(rows, *columns), strict=True)
    for number, (name, mean, low, high) in numbered:
        # The bar, its two ends, and the mean between them.
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

        # A column of one score has no standard deviation: `high` is nan.
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

    # A panel of groups has its ticks already, and they stay. An axis from 0 to 1 is matplotlib's own, for which nothing
    # was set: its ticks would mean nothing.
    if not ax.get_xticklabels() or ax.get_xlim() == (0.0, 1.0):
        ax.set_xticks([])


def names_fit(data: pd.DataFrame, panel: str) -> bool:
    """Return whether that panel holds every series of the data, so that all can be named there."""
    return set(data.loc[data["panel"] == panel, "series"]) == set(data["series"])


def write_names(ax: Axes, rows: pd.DataFrame, look: Mapping[str, Look]) -> None:
    """Write each series' name right of the panel at the height of its last value, or as near as no names touch.

    Args:
        ax: the panel, with its limits set.
        rows: what it draws, each series by rising x.
        look: the series' looks.
    """
    # A later value of a series replaces an earlier one, so that the last stays.
    last_values = dict(records(rows, "series", "mean"))
    # In points of the page (1/72 inch) above the panel's lower edge, like all heights in this function.
    panel_height = 72 * float(ax.bbox.height) / ax.figure.dpi

    # From values on the axes to shares of the panel's width and height. The width is not used: any x will do.
    to_shares = ax.transData + ax.transAxes.inverted()
    line_ends = []
    for name, value in last_values.items():
        _, share = to_shares.transform((1.0, value))
        line_ends.append((float(share) * panel_height, name))

    line_ends.sort()
    # `_names_apart` keeps the order, so that both lists have the same names.
    placed = _names_apart(line_ends, panel_height)
    for (height, name), (line_end, _) in zip(placed, line_ends, strict=True):
        ax.annotate(
            name,
            (1, line_end / panel_height),
            xycoords="axes fraction",
            # Right of the panel by 6 points, and up or down from the end of the line.
            xytext=(6, height - line_end),
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
    """Return the names in the same order, with heights at which no two touch.

    Names that would touch become a block: they stand one above the other, around the mean of their wanted heights. A
    block is moved into the panel, so that its lowest and highest name are not beyond the panel's edges.

    Args:
        wanted: the wanted height and the name of each, from bottom to top.
        panel_height: the height of the panel's upper edge; the lower edge is at 0.
    """
    # A block: the height of its middle, and its names from bottom to top.
    blocks: list[tuple[float, list[str]]] = []
    for height, name in wanted:
        blocks.append((height, [name]))
        # The topmost two blocks are joined as long as they touch: a joined block may touch the next one below it.
        while len(blocks) > 1:
            (low, lower_names), (high, upper_names) = blocks[-2:]
            names = [*lower_names, *upper_names]
            # Middles have to be apart by half the height of either block.
            if high - low >= _NAMES * len(names) / 2:
                break
            weighted = low * len(lower_names) + high * len(upper_names)
            blocks[-2:] = [(weighted / len(names), names)]

    placed = []
    for middle, names in blocks:
        # Where the middle of the block may be, so that the middles of its outermost names are within the panel.
        half = _NAMES * len(names) / 2
        lowest = half - _NAMES / 2
        highest = panel_height - half + _NAMES / 2
        middle = min(max(middle, lowest), highest)
        for rank, name in enumerate(names):
            above_middle = rank - (len(names) - 1) / 2
            placed.append((middle + _NAMES * above_middle, name))

    return placed


def score_bounds(rows: pd.DataFrame) -> tuple[float, float]:
    """Return the ends of a y axis of percentages for these rows, within 0 and 100, where the paper's scores are."""
    low, high = _around(*_ends(rows))
    means = rows["mean"]
    # The metric of a user's own dataset, such as a correlation, may be below 0.
    lowest = min(0.0, float(means.min()))
    highest = max(100.0, float(means.max()))
    return max(low, lowest), min(high, highest)


def _ends(rows: pd.DataFrame) -> tuple[float, float]:
    """Return the least and the largest value that an axis has to show.

    These are the means of all rows, and the intervals of the paper's models; if none of the rows is the paper's, the
    intervals of all.
    """
    is_papers = rows["model"].isin(list(MODELS))
    # With the wide interval of an own model of two seeds, the paper's differences would be too small to see.
    with_interval = rows[is_papers] if is_papers.any() else rows
    columns = [rows["mean"], with_interval["low"], with_interval["high"]]
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
    """Return the limits of an axis that shows `low` to `high` with some room around them.

    The axis spans at least `_LEAST_SPAN`, so that a small difference does not fill the panel. The room is a share of
    what it spans: 0.06 below, `above` above.
    """
    span = max(high - low, _LEAST_SPAN)
    middle = (low + high) / 2
    # Where the values span less than `_LEAST_SPAN`, the axis reaches as far below their middle as above it.
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
    """Draw one series: its line, the intervals of its points, and a mark for each point.

    What has a higher `zorder` is drawn in front: marks in front of intervals, intervals in front of lines, and of each
    the series of higher rank in front of those of lower rank.

    Args:
        ax: the panel, with its limits set.
        part: the rows of the series, at least one.
        xs: where each row is drawn.
        style: the look of the series.
        rank: its place among the series.
        gaps: the x at which the line is broken.
        linewidth: of the line, in points.
        bar: width of the lines that are the intervals, in points.
        with_ids: whether the marks have ids in an SVG.
    """
    name = str(part["series"].iloc[0])
    # The line. matplotlib breaks it at a nan.
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

    # The intervals. Where a point has none, its ends are nan, and no comparison with nan is true.
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

    # The marks, each with arrows where its interval leaves the panel.
    bottom, top = ax.get_ylim()
    is_filled = part[CLEAR] if CLEAR in part else [False] * len(part)
    points = zip(
        xs, part.index, part["mean"], part["low"], part["high"], is_filled, strict=True
    )
    for x, number, mean, low, high, filled in points:
        # An arrow is at the edge of the panel, where the visible part of the interval ends.
        arrows = []
        if low < bottom:
            arrows.append((bottom, CARETDOWN))
        if high > top:
            arrows.append((top, CARETUP))
        for edge, arrow in arrows:
            ax.plot(
                [x],
                [edge],
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
    ax: Axes, ticks: Sequence[float], with_score: set[float], log_x: bool
) -> list[float]:
    """Return the ticks that have room for their labels, sorted.

    Args:
        ax: the panel, with the limits of its x axis set.
        ticks: the x of all ticks that are wanted.
        with_score: the x of all scores.
        log_x: whether the x axis is logarithmic.
    """
    scale = math.log if log_x else float
    left, right = ax.get_xlim()
    width = float(ax.bbox.width) / ax.figure.dpi
    inches_of_unit = width / (scale(right) - scale(left))

    def touch(x: float, other: float) -> bool:
        place = inches_of_unit * scale(x)
        other_place = inches_of_unit * scale(other)
        # Labels are centred at their ticks: between two there are half of each, and 0.03 inches of room.
        needed = inches(f"{x:g}") / 2 + 0.03 + inches(f"{other:g}") / 2
        return abs(place - other_place) <= needed

    # An x with a score needs its label more than an x where only a cross marks that a score is missing: it comes first,
    # and no later tick replaces it.
    scored = sorted(x for x in ticks if x in with_score)
    others = sorted(x for x in ticks if x not in with_score)
    shown: list[float] = []
    for x in scored + others:
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
        # A single x has no width to take a share of.
        room = 0.07 * (high - low) or 1.0
        ax.set_xlim(low - room, high + room)
