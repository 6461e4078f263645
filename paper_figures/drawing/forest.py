"""A forest plot: rows of differences with their intervals around zero."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from paper_figures.drawing.layout import caption_lines, write_caption
from paper_figures.drawing.style import CLM, GREY, INK, LIGHT, MLM

__all__ = ["Row", "draw_forest"]

_ROW, _WIDTH = 0.2, 7.2
_TICKS = (-30, -10, -3, -1, 0, 1, 3, 10, 30)


@dataclass(frozen=True, kw_only=True)
class Row:
    """A line of the plot; numbers in points."""

    name: str
    effect: float
    low: float
    """Of the interval; nan where there is none."""
    high: float
    margin: float
    """Half-width of the region of practical equivalence."""
    word: str
    """What follows from it."""
    is_summary: bool = False
    """Whether it is over several datasets: drawn as a diamond."""


def draw_forest(rows: Sequence[Row], heading: str, caption: str) -> Figure:
    """Return the plot, on an axis that is linear near 0 and then bends; call it within `style.paper_style`."""
    lines = caption_lines(caption)
    foot = 0.37 + 0.1 * len(lines)
    body = _ROW * len(rows)
    height = 0.5 + body + foot
    figure = Figure(figsize=(_WIDTH, height))
    ax = figure.add_axes((1.2 / _WIDTH, foot / height, 3.2 / _WIDTH, body / height))
    ax.set_xscale("asinh", linear_width=1.0)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ends = [abs(end) for row in rows for end in (row.effect, row.low, row.high, row.margin) if end == end]
    reach = 1.15 * max(ends)
    ax.set_xlim(-reach, reach)
    ticks = [tick for tick in _TICKS if abs(tick) <= reach]
    ax.set_xticks(ticks, [f"{tick:+d}".replace("-", "\u2212") if tick else "0" for tick in ticks])
    ax.set_xticks([], minor=True)
    ax.set_yticks([])
    ax.grid(axis="x", color=LIGHT)
    ax.axvline(0, color=INK, linewidth=0.8)
    for place, row in enumerate(rows):
        color = MLM.color if row.effect >= 0 else CLM.color
        ax.fill_betweenx([place - 0.5, place + 0.5], -row.margin, row.margin, color=LIGHT, linewidth=0)
        if not math.isnan(row.low):
            ax.plot([row.low, row.high], [place, place], color=color, linewidth=1.4)
        marker, size = ("D", 18) if row.is_summary else ("o", 16)
        ax.scatter([row.effect], [place], s=size, color=color, marker=marker, zorder=3)
        middle = (foot + _ROW * (len(rows) - 0.5 - place)) / height
        interval = "" if math.isnan(row.low) else f" [{row.low:+.2f}, {row.high:+.2f}]"
        numbers = f"{row.effect:+.2f}{interval}".replace("-", "\u2212")
        weight = "bold" if row.is_summary else "normal"
        for x, text, ink in ((0.1, row.name, INK), (4.5, numbers, INK), (5.75, row.word, GREY)):
            figure.text(x / _WIDTH, middle, text, va="center", fontsize=6.2, color=ink, fontweight=weight)
    figure.text(0.1 / _WIDTH, 1 - 0.2 / height, heading, fontsize=8.6, fontweight="bold")
    axis = "difference (points); grey: practically equal"
    figure.text(2.8 / _WIDTH, (foot - 0.27) / height, axis, ha="center", fontsize=6.6)
    write_caption(figure, lines)
    return figure
