"""What is in a panel: lines or groups of points with intervals, centred scores with their spread, series' names.

Points of different series at one x are drawn side by side, a few points of the page apart, so that none hides another;
the data keep their x. A point that is alone at its x is drawn there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator
from matplotlib.transforms import ScaledTranslation, Transform

from analysis.records import records
from paper_figures.drawing.page import inches
from paper_figures.drawing.style import GREY, INK, PAPER, SMALLEST, Look
from paper_figures.figure import point_id

__all__ = [
    "draw_groups", "draw_lines", "draw_spread", "empty_panel", "names_fit", "score_bounds",
    "write_names", "y_axis",
]  # fmt: skip

_LEAST_SPAN = 2.0
"""Points that a y axis spans at least."""
_DODGE = 3.4
"""Points of the page between two series at one x."""
_SPAN = 11.0
"""Points of the page that the series at one x take up at most."""
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
    dodge: bool = True,
    bounds: tuple[float, float] | None = None,
) -> None:
    """Draw each series as markers joined by a line, each marker on its interval; a cross where no series has a score.

    Args:
        ax: the panel.
        rows: its data; the index holds the rows of the CSV.
        look: the series' looks, in the order in which they stand next to each other.
        expected: for each series the x of all its points in the paper; a line is not drawn across a missing one.
        ticks: x ticks; by default every x there is or should be.
        log_x: a logarithmic x axis.
        dodge: whether points at one x are drawn side by side; false for steep lines, whose x are compared.
        bounds: of the y axis, shared with another panel of the same metric; by default the panel's own.
    """
    if rows.empty:
        empty_panel(ax)
        return
    if log_x:
        ax.set_xscale("log")
    due = {float(x) for xs in expected.values() for x in xs}
    present = {float(x) for x in rows["x"]}
    _pad_x(ax, sorted({*ticks, *present, *due}), log_x)
    shown = _apart(ax, list(ticks) or sorted(present | due), present, log_x)
    ax.set_xticks(shown, [f"{x:g}" for x in shown])
    ax.xaxis.set_minor_locator(NullLocator())
    y_axis(ax, bounds or score_bounds(rows))
    aside = _aside(rows, look) * dodge
    for rank, name in enumerate(look):
        part = rows[rows["series"] == name]
        if len(part):
            gaps = sorted(set(map(float, expected.get(name, ()))) - {float(x) for x in part["x"]})
            xs = part["x"].to_numpy(dtype=float)
            _draw_series(ax, part, xs, look[name], rank, aside[part.index], gaps=gaps)
    for x in sorted(due - present):
        ax.plot([x], [0.03], transform=ax.get_xaxis_transform(), marker="x", markersize=3.6, markeredgewidth=0.9,
                color=GREY, linestyle="none", label="_missing", zorder=3)  # fmt: skip


def draw_groups(
    ax: Axes,
    rows: pd.DataFrame,
    look: Mapping[str, Look],
    *,
    groups: Sequence[str],
    bounds: tuple[float, float] | None = None,
) -> None:
    """Draw a point with its interval for each series in every group; a thin line follows a series over the groups.

    Args:
        ax: the panel.
        rows: its data; `x` names the group, the index holds the rows of the CSV.
        look: the series' looks, in the order in which they stand next to each other.
        groups: left to right.
        bounds: as in `draw_lines`.
    """
    ax.set_xticks(range(len(groups)), list(groups))
    ax.set_xlim(-0.4, len(groups) - 0.6)
    if rows.empty:
        empty_panel(ax)
        return
    y_axis(ax, bounds or score_bounds(rows))
    aside = _aside(rows, look)
    for rank, name in enumerate(look):
        part = rows[rows["series"] == name]
        if len(part):
            places = np.array([groups.index(x) for x in part["x"]], dtype=float)
            gaps = [float(place) for place in range(len(groups)) if place not in places]
            _draw_series(ax, part, places, look[name], rank, aside[part.index], gaps=gaps, linewidth=0.8)


def draw_spread(ax: Axes, rows: pd.DataFrame, points: pd.DataFrame, look: Mapping[str, Look]) -> None:
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
        row = rows[rows["series"] == name]
        single = points[points["x"] == name]
        fan = column + 0.1 + 0.26 * (np.arange(len(single)) + 0.5) / max(len(single), 1)
        for x, (at, value) in zip(fan, single["mean"].items(), strict=True):
            ax.plot([x], [value], linestyle="none", marker=style.marker, markersize=2.8, color=style.color,
                    markeredgewidth=0, label=f"{name} single", zorder=2, gid=point_id(at))  # fmt: skip
        for at, mean, low, high in zip(row.index, row["mean"], row["low"], row["high"], strict=True):
            x = column - 0.18
            ax.vlines([x], [low], [high], color=style.color, linewidth=1.6, zorder=3, label=f"_sd {name}")
            ax.plot([x, x], [low, high], linestyle="none", marker="_", markersize=8, markeredgewidth=1.4,
                    color=style.color, zorder=3, label="_ends")  # fmt: skip
            ax.plot([x], [mean], marker=style.marker, markersize=5, markeredgecolor=PAPER, color=style.color,
                    markeredgewidth=0.6, label=name, zorder=3.1, gid=point_id(at))  # fmt: skip
            if math.isfinite(high):
                ax.annotate(f"sd {high:.2f}", (column, 1), xycoords=("data", "axes fraction"), xytext=(0, -1),
                            textcoords="offset points", ha="center", va="top", color=INK)  # fmt: skip
    values = np.concatenate([points["mean"], rows["low"], rows["high"]])
    most = float(np.nanmax(np.abs(values)))
    y_axis(ax, _around(-most, most, above=0.16))


def empty_panel(ax: Axes) -> None:
    """Say in an empty panel that the source has nothing for it."""
    ax.text(0.5, 0.5, "not in this source", transform=ax.transAxes, ha="center", va="center", color=GREY)
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
    tall = 72 * float(ax.get_position().height * _figure(ax).get_size_inches()[1])
    scale = ax.transData + ax.transAxes.inverted()
    wanted = sorted((float(scale.transform((1.0, value))[1]) * tall, name) for name, value in ends.items())
    for (height, name), (asked, _) in zip(_names_apart(wanted, tall), wanted, strict=True):
        ax.annotate(name, (1, asked / tall), xycoords="axes fraction", xytext=(6, height - asked),
                    textcoords="offset points", va="center", ha="left", fontweight="bold", color=look[name].ink,
                    annotation_clip=False)  # fmt: skip


def _names_apart(wanted: list[tuple[float, str]], tall: float) -> list[tuple[float, str]]:
    """Return the places moved apart as little as needed, within the panel: neighbours that touch share their middle."""
    blocks: list[tuple[float, list[str]]] = []
    for height, name in wanted:
        blocks.append((height, [name]))
        while len(blocks) > 1:
            (low, under), (high, over) = blocks[-2:]
            if high - low >= _NAMES * (len(under) + len(over)) / 2:
                break
            both = [*under, *over]
            blocks[-2:] = [((low * len(under) + high * len(over)) / len(both), both)]
    placed = []
    for middle, names in blocks:
        half = _NAMES * len(names) / 2
        middle = min(max(middle, half - _NAMES / 2), tall - half + _NAMES / 2)
        placed += [(middle + _NAMES * (rank - (len(names) - 1) / 2), name) for rank, name in enumerate(names)]
    return placed


def score_bounds(rows: pd.DataFrame) -> tuple[float, float]:
    """Return the ends of an axis of percentages for these rows: within 0 and 100, where all scores are."""
    values = rows[["mean", "low", "high"]].to_numpy(dtype=float)
    low, high = _around(float(np.nanmin(values)), float(np.nanmax(values)))
    means = rows["mean"]
    return max(low, min(0.0, float(means.min()))), min(high, max(100.0, float(means.max())))


def y_axis(ax: Axes, bounds: tuple[float, float]) -> None:
    """Set the limits, and round ticks within them."""
    low, high = bounds
    ticks = MaxNLocator(nbins=5, steps=[1, 2, 5, 10]).tick_values(low, high)
    ax.set_yticks([tick for tick in ticks if low <= tick <= high])
    ax.set_ylim(low, high)


def _around(low: float, high: float, *, above: float = 0.06) -> tuple[float, float]:
    """Return limits around [low, high]; `above` is the room above, as a share of what they span.

    A small difference does not fill the panel.
    """
    span = max(high - low, _LEAST_SPAN)
    middle = (low + high) / 2
    return min(low, middle - span / 2) - 0.06 * span, max(high, middle + span / 2) + above * span


def _draw_series(
    ax: Axes,
    part: pd.DataFrame,
    xs: np.ndarray,
    style: Look,
    rank: int,
    aside: pd.Series,
    *,
    gaps: Sequence[float] = (),
    linewidth: float = 1.2,
) -> None:
    """Draw one series: its line, which is not drawn across `gaps`, its intervals, and a mark for each row."""
    name, inch = str(part["series"].iloc[0]), _figure(ax).dpi_scale_trans
    line_x = np.concatenate([xs, gaps])
    line_y = np.concatenate([part["mean"].to_numpy(dtype=float), np.full(len(gaps), np.nan)])
    order = np.argsort(line_x, kind="stable")
    moved = np.concatenate([aside, np.zeros(len(gaps))])[order]
    ax.plot(line_x[order], line_y[order], label=name, color=style.color, linestyle=style.dash, linewidth=linewidth,
            transform=ax.transData + _Aside(moved, inch), zorder=2.1 + 0.01 * rank)  # fmt: skip
    bottom, top = ax.get_ylim()
    for x, at, mean, low, high in zip(xs, part.index, part["mean"], part["low"], part["high"], strict=True):
        across = ax.transData + ScaledTranslation(aside[at] / 72, 0, inch)
        if low <= high:
            ax.vlines([x], [low], [high], color=style.color, linewidth=0.9, transform=across,
                      zorder=2.3 + 0.01 * rank, label="_interval")  # fmt: skip
            for end, beyond, arrow in ((low, low < bottom, 7), (high, high > top, 6)):
                ax.plot([x], [min(max(end, bottom), top)], linestyle="none", marker=arrow if beyond else "_",
                        markersize=3.4, markeredgewidth=0.0 if beyond else 0.9, color=style.color, transform=across,
                        zorder=2.3 + 0.01 * rank, label="_end", clip_on=False)  # fmt: skip
        ax.plot([x], [mean], linestyle="none", marker=style.marker, markersize=4.4, color=style.color,
                markeredgecolor=PAPER, markeredgewidth=0.5, transform=across, zorder=2.5 + 0.01 * rank,
                label=f"_{name}", clip_on=False, gid=point_id(at))  # fmt: skip


def _aside(rows: pd.DataFrame, names: Iterable[str]) -> pd.Series:
    """Return by how many points of the page each row's mark is set aside, among the series that have its x."""
    points: dict[object, float] = {}
    for _, here in rows.groupby("x")["series"]:
        among = [name for name in names if name in set(here)]
        middle = (len(among) - 1) / 2
        step = min(_DODGE, _SPAN / max(len(among) - 1, 1))
        points |= {row: (among.index(name) - middle) * step for row, name in here.items()}
    return pd.Series(points)


class _Aside(Transform):
    """Sets each vertex of a line aside by its own number of points of the page."""

    input_dims = output_dims = 2

    def __init__(self, points: np.ndarray, inch: Transform) -> None:
        super().__init__()
        self._points, self._inch = points, inch
        self.set_children(inch)

    def transform_non_affine(self, values: Any) -> np.ndarray:
        apart = np.column_stack([self._points / 72, np.zeros(len(self._points))])
        moved: np.ndarray = np.asarray(values, dtype=float) + self._inch.transform(apart)
        return moved


def _figure(ax: Axes) -> Figure:
    figure = ax.get_figure(root=True)
    assert figure is not None
    return figure


def _apart(ax: Axes, places: Sequence[float], first: set[float], log_x: bool) -> list[float]:
    """Return the ticks whose labels do not touch; those of `first` go before others."""
    scale = math.log if log_x else float
    low, high = (scale(end) for end in ax.get_xlim())
    wide = float(ax.get_position().width * _figure(ax).get_size_inches()[0]) / (high - low)
    shown: list[float] = []
    for x in sorted(places, key=lambda x: (x not in first, x)):
        room = inches(f"{x:g}") / 2 + 0.03
        if all(abs(wide * scale(x) - wide * scale(o)) > room + inches(f"{o:g}") / 2 for o in shown):
            shown.append(x)
    return sorted(shown)


def _pad_x(ax: Axes, places: Sequence[float], log_x: bool) -> None:
    low, high = min(places), max(places)
    if log_x:
        ratio = max(high / low, 1.1) ** 0.07
        ax.set_xlim(low / ratio, high * ratio)
    else:
        room = 0.07 * (high - low) or 1.0
        ax.set_xlim(low - room, high + room)
