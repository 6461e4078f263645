"""What is in a panel: lines with intervals, grouped bars with intervals, centred scores with their spread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, NullLocator

from paper_figures.drawing.layout import axis_limits
from paper_figures.drawing.style import GREY, INK, Look

__all__ = [
    "bar_handles",
    "draw_bars",
    "draw_lines",
    "draw_spread",
    "empty_panel",
    "line_handles",
]

LEAST_SPAN = 2.0
"""Points that a y axis spans at least."""


def draw_lines(
    ax: Axes,
    rows: pd.DataFrame,
    look: Mapping[str, Look],
    *,
    expected: Mapping[str, Sequence[float]],
    ticks: Sequence[float] = (),
    log_x: bool = False,
) -> None:
    """Draw each series as markers joined by a line, each marker on its interval.

    Args:
        ax: the panel.
        rows: its data.
        look: the series' looks.
        expected: for each series the x of all its points in the paper; a line is not drawn across a missing one.
        ticks: x ticks; by default every x there is.
        log_x: a logarithmic x axis.
    """
    if rows.empty:
        empty_panel(ax)
        return
    for rank, (series, part) in enumerate(rows.groupby("series", sort=False)):
        style = look[str(series)]
        xs = part["x"].to_numpy(dtype=float)
        gaps = np.array(sorted(set(map(float, expected.get(str(series), ()))) - set(xs.tolist())))
        line_x = np.concatenate([xs, gaps])
        line_y = np.concatenate([part["mean"].to_numpy(dtype=float), np.full(len(gaps), np.nan)])
        order = np.argsort(line_x, kind="stable")
        _intervals(ax, xs, part, color=style.color, zorder=2.1 + 0.01 * rank)
        ax.plot(
            line_x[order], line_y[order], label=str(series), color=style.color, linestyle=style.dash,
            linewidth=1.3, marker=style.marker, markersize=4.2, markeredgecolor="white", markeredgewidth=0.6,
            zorder=2.5 + 0.01 * rank, clip_on=False,
        )  # fmt: skip
    if log_x:
        ax.set_xscale("log")
    places = list(ticks) or sorted({float(x) for x in rows["x"]})
    first = {float(x) for xs in expected.values() for x in xs}
    _pad_x(ax, [*places, *rows["x"].astype(float)], log_x)
    shown = _apart(places, first, log_x)
    ax.set_xticks(shown, [f"{x:g}" for x in shown])
    ax.xaxis.set_minor_locator(NullLocator())
    lowest, highest = _extent(rows)
    _y_axis(ax, axis_limits(lowest, highest, least=LEAST_SPAN))
    present = {float(x) for x in rows["x"]}
    left, right = ax.get_xlim()
    absent = [x for x in {float(x) for xs in expected.values() for x in xs} - present if left < x < right]
    for x in _apart(absent, set(), log_x) if absent else []:
        ax.annotate("no score", (x, 0), xycoords=("data", "axes fraction"), xytext=(0, 4), rotation=90, ha="center",
                    textcoords="offset points", va="bottom", fontsize=5.6, color=GREY)  # fmt: skip


def draw_bars(ax: Axes, rows: pd.DataFrame, look: Mapping[str, Look], *, groups: Sequence[str]) -> None:
    """Draw groups of bars, each with its interval and its value above; the cut y axis carries a mark.

    Args:
        ax: the panel.
        rows: its data; `x` names the group.
        look: the series' looks, in the order of the bars.
        groups: left to right.
    """
    ax.set_xticks(range(len(groups)), list(groups))
    ax.tick_params(axis="x", length=0)
    ax.set_xlim(-0.55, len(groups) - 0.45)
    if rows.empty:
        empty_panel(ax)
        return
    series = list(look)
    width = 0.8 / len(series)
    size = _label_size(ax, width)
    lowest, highest = _extent(rows)
    bounds = axis_limits(lowest, highest, least=LEAST_SPAN, below=0.3, above=0.12)
    bottom = max(bounds[0], 0.0)
    for rank, name in enumerate(series):
        part = rows[rows["series"] == name]
        centre = np.array([groups.index(x) for x in part["x"]]) + (rank - (len(series) - 1) / 2) * width
        style = look[name]
        ax.bar(
            centre, part["mean"] - bottom, width=width * 0.9, bottom=bottom, label=name, color=style.color,
            edgecolor="white", linewidth=0, hatch=style.hatch, zorder=2,
        )  # fmt: skip
        _intervals(ax, centre, part, color=INK, zorder=3.0, floor=bottom)
        tops = part["high"].fillna(part["mean"]).clip(lower=part["mean"])
        for x, top, mean in zip(centre, tops, part["mean"], strict=True):
            if size:
                ax.annotate(f"{mean:.1f}", (x, top), xytext=(0, 1.8), textcoords="offset points", ha="center",
                            va="bottom", fontsize=size, color=INK)  # fmt: skip
    _y_axis(ax, (bottom, bounds[1]), free_below=0.08 if bottom > 0 else 0.0)
    if bottom > 0:
        _cut_mark(ax)


def draw_spread(
    ax: Axes, rows: pd.DataFrame, points: pd.DataFrame, look: Mapping[str, Look], *, columns: Sequence[str]
) -> None:
    """Draw centred scores: a bar of one standard deviation either side of zero, the single scores next to it.

    Args:
        ax: the panel.
        rows: for each column mean (0), low (-sd) and high (sd).
        points: the single centred scores, in `mean`.
        look: the columns' looks.
        columns: left to right.
    """
    ax.set_xticks(range(len(columns)), list(columns))
    ax.tick_params(axis="x", length=0)
    ax.set_xlim(-0.6, len(columns) - 0.4)
    ax.axhline(0, color=GREY, linewidth=0.6, zorder=1)
    if rows.empty:
        empty_panel(ax)
        return
    for column, name in enumerate(columns):
        style, row = look[name], rows[rows["series"] == name]
        single = points.loc[points["x"] == name, "mean"].to_numpy(dtype=float)
        fan = column + 0.1 + 0.26 * (np.arange(len(single)) + 0.5) / max(len(single), 1)
        ax.plot(fan, single, linestyle="none", marker=style.marker, markersize=2.6, color=style.color, alpha=0.55,
                markeredgewidth=0, label=f"{name} single", zorder=2)  # fmt: skip
        mean, low, high = (row[part].to_numpy(dtype=float) for part in ("mean", "low", "high"))
        ax.errorbar(
            np.full(len(row), column - 0.18), mean, yerr=np.stack([mean - low, high - mean]), color=style.color,
            marker=style.marker, markersize=5, markeredgecolor="white", linewidth=1.6, capsize=5, capthick=1.4,
            linestyle="none", label=name, zorder=3,
        )  # fmt: skip
        for sd in high[np.isfinite(high)]:
            ax.annotate(f"sd {sd:.2f}", (column - 0.18, sd), xytext=(0, 3.5), textcoords="offset points",
                        ha="center", va="bottom", fontsize=6, color=INK)  # fmt: skip
    values = np.concatenate([points["mean"], rows["low"], rows["high"]])
    most = float(np.nanmax(np.abs(values)))
    _y_axis(ax, axis_limits(-most, most, least=LEAST_SPAN, above=0.1, below=0.1))


def empty_panel(ax: Axes) -> None:
    """Say in an empty panel that the source has nothing for it."""
    ax.text(0.5, 0.5, "not in this source", transform=ax.transAxes, ha="center", va="center", color=GREY,
            fontsize=6.6)  # fmt: skip
    ax.set_yticks([])


def line_handles(look: Mapping[str, Look]) -> list[Artist]:
    """Return legend entries of lines with markers."""
    return [
        Line2D([], [], label=name, color=style.color, linestyle=style.dash, linewidth=1.3, marker=style.marker,
               markersize=4.2, markeredgecolor="white", markeredgewidth=0.6)
        for name, style in look.items()
    ]  # fmt: skip


def bar_handles(look: Mapping[str, Look]) -> list[Artist]:
    """Return legend entries of bars."""
    return [
        Patch(facecolor=style.color, edgecolor="white", linewidth=0, hatch=style.hatch, label=name)
        for name, style in look.items()
    ]


def _extent(rows: pd.DataFrame) -> tuple[float, float]:
    values = rows[["mean", "low", "high"]].to_numpy(dtype=float)
    return float(np.nanmin(values)), float(np.nanmax(values))


def _intervals(
    ax: Axes, x: npt.ArrayLike, rows: pd.DataFrame, *, color: str, zorder: float, floor: float = -np.inf
) -> None:
    """Draw each row's interval as a line with short caps, none below the axis, `floor`."""
    ax.vlines(x, rows["low"], rows["high"], color=color, linewidth=0.9, zorder=zorder, label="_interval")
    for end in ("low", "high"):
        ends = rows[end].where(rows[end] >= floor)
        ax.plot(x, ends, linestyle="none", marker="_", markersize=3.6, markeredgewidth=0.9, color=color,
                zorder=zorder, label=f"_{end}", clip_on=False)  # fmt: skip


def _apart(places: Sequence[float], first: set[float], log_x: bool) -> list[float]:
    """Return the ticks whose labels do not touch; those of `first` go before others."""
    where = {x: float(np.log(x)) if log_x else x for x in places}
    room = 0.085 * (max(where.values()) - min(where.values()))
    shown: list[float] = []
    for x in sorted(places, key=lambda x: (x not in first, x)):
        if all(abs(where[x] - where[other]) > room for other in shown):
            shown.append(x)
    return sorted(shown)


def _pad_x(ax: Axes, places: Sequence[float], log_x: bool) -> None:
    low, high = min(places), max(places)
    if log_x:
        ratio = max(high / low, 1.1) ** 0.06
        ax.set_xlim(low / ratio, high * ratio)
    else:
        room = 0.06 * (high - low) or 1.0
        ax.set_xlim(low - room, high + room)


def _y_axis(ax: Axes, bounds: tuple[float, float], *, free_below: float = 0.0) -> None:
    """Set the limits, and round ticks within them that keep clear of the lowest `free_below` of the axis."""
    low, high = bounds
    ticks = MaxNLocator(nbins=5, steps=[1, 2, 5, 10]).tick_values(low, high)
    first = low + free_below * (high - low)
    ax.set_yticks([tick for tick in ticks if first <= tick <= high])
    ax.set_ylim(low, high)


def _label_size(ax: Axes, width: float) -> float:
    """Return the type size at which `88.2` fits a bar of that width, 0 when it would be too small to read."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    low, high = ax.get_xlim()
    inches = float(ax.get_position().width * figure.get_size_inches()[0]) * width / (high - low)
    size = min(5.6, 72 * inches / 2.3)
    return float(size) if size >= 4 else 0.0


def _cut_mark(ax: Axes) -> None:
    for shift in (0.0, 0.03):
        ax.plot([-0.045, 0.005], [shift - 0.016, shift + 0.016], transform=ax.transAxes, color=INK, linewidth=0.7,
                clip_on=False, zorder=5, label="_cut")  # fmt: skip
