"""Forest plots: rows of differences with their intervals around zero, in groups with an axis each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from paper_figures.drawing.page import WIDTH, Sheet, bend, inches
from paper_figures.drawing.style import CLM, GREY, INK, LIGHT, MLM

__all__ = ["Group", "Row", "draw_forest", "draw_forests"]

_EDGE, _GAP, _PAD = 0.1, 0.3, 0.12
_HEAD, _ROW, _TITLE, _TICKS, _BELOW = 0.34, 0.17, 0.16, 0.22, 0.1
_LEAST_REACH = 1.0
"""Points to either side of zero where no effect differs from it."""
_LEAST_AXIS = 0.7


@dataclass(frozen=True, kw_only=True)
class Row:
    """A line of the plot; numbers in points."""

    name: str
    effect: float
    low: float
    """Of the interval; nan where there is none."""
    high: float
    region: tuple[float, float] = (math.nan, math.nan)
    """What is shaded: practically equal, or what is claimed; infinite ends reach the axis's."""
    word: str = ""
    """What follows from it."""
    is_summary: bool = False
    """Whether it is over several datasets: drawn as a diamond."""
    is_open: bool = False
    """Whether nothing follows from it: drawn hollow."""

    @property
    def numbers(self) -> str:
        """The effect with its interval."""
        interval = "" if math.isnan(self.low) else f" [{self.low:+.2f}, {self.high:+.2f}]"
        return f"{self.effect:+.2f}{interval}".replace("-", "\u2212")


@dataclass(frozen=True, kw_only=True)
class Group:
    """Rows with an axis of their own."""

    title: str
    note: str
    """A second line."""
    rows: Sequence[Row]

    @property
    def head(self) -> float:
        """Inches above the rows."""
        return _TITLE * bool(self.title) + _TITLE * bool(self.note) + 0.04

    @property
    def height(self) -> float:
        """Inches."""
        return self.head + _ROW * len(self.rows) + _TICKS + _BELOW


def draw_forest(rows: Sequence[Row], heading: str, caption: str) -> Figure:
    """Return one group over the whole width; call it within `style.paper_style`."""
    return draw_forests([Group(title="", note="", rows=rows)], heading, caption)


def draw_forests(groups: Sequence[Group], heading: str, caption: str) -> Figure:
    """Return the groups in one or two columns, all axes alike; call it within `style.paper_style`.

    Columns are as wide as their texts need; what is left is the axes'.
    """
    columns = min(2, len(groups))
    half = (WIDTH - 2 * _EDGE - _GAP) / 2
    if any(inches(group.title, bold=True) > half or inches(group.note) > half for group in groups):
        columns = 1
    stacks = _stacked(groups, columns)
    sheet = Sheet(caption, body=_HEAD + max(map(_height, stacks)), below=0.24, spacing=0.13)
    rows = [row for group in groups for row in group.rows]
    names, numbers, words = (
        max((inches(text, bold=row.is_summary) for row in rows if (text := getattr(row, of))), default=0.0)
        for of in ("name", "numbers", "word")
    )
    each = (WIDTH - 2 * _EDGE - _GAP * (columns - 1)) / columns
    texts = names + numbers + words + _PAD * (2 + bool(words))
    axis = max(_LEAST_AXIS, each - texts)
    ends = (end for row in rows for end in (row.effect, row.low, row.high, *row.region))
    reach = 1.15 * max((abs(end) for end in ends if math.isfinite(end)), default=0.0) or _LEAST_REACH
    for column, stack in enumerate(stacks):
        left, top = _EDGE + column * (each + _GAP), sheet.height - _HEAD
        beyond = left + names + axis + 2 * _PAD
        for group in stack:
            heads = ((group.title, "bold"), (group.note, "normal"))
            for place, (text, weight) in enumerate((text, weight) for text, weight in heads if text):
                sheet.text(left, top - _TITLE * (place + 1) + 0.04, text, fontweight=weight)
            top -= group.head
            low = top - _ROW * len(group.rows)
            _draw_rows(sheet.axes(left + names + _PAD, low, axis, top - low), group.rows, reach, axis)
            for place, row in enumerate(group.rows):
                y = top - _ROW * (place + 0.5)
                weight = "bold" if row.is_summary else "normal"
                for x, text, ink in (
                    (left, row.name, INK),
                    (beyond, row.numbers, INK),
                    (beyond + numbers + _PAD, row.word, GREY),
                ):
                    if text:
                        sheet.text(x, y, text, va="center", color=ink, fontweight=weight)
            top = low - _TICKS - _BELOW
    sheet.text(_EDGE, sheet.height - 0.2, heading, fontsize=8.6, fontweight="bold")
    sheet.write_caption()
    return sheet.figure


def _height(groups: Sequence[Group]) -> float:
    return sum(group.height for group in groups)


def _stacked(groups: Sequence[Group], columns: int) -> list[Sequence[Group]]:
    """Return the groups in columns of about one height, in order."""
    if columns == 1:
        return [groups]
    half, first = _height(groups) / 2, 1
    while first < len(groups) and _height(groups[:first]) + groups[first].height / 2 <= half:
        first += 1
    return [groups[:first], groups[first:]]


def _draw_rows(ax: Axes, rows: Sequence[Row], reach: float, wide: float) -> None:
    ax.set_ylim(len(rows) - 0.5, -0.5)
    bend(ax, reach, wide)
    ax.grid(axis="x", color=LIGHT)
    ax.axvline(0, color=INK, linewidth=0.8)
    for place, row in enumerate(rows):
        color = MLM.color if row.effect >= 0 else CLM.color
        low, high = row.region
        if not math.isnan(low):
            ends = max(low, -reach), min(high, reach)
            ax.fill_betweenx([place - 0.5, place + 0.5], *ends, color=LIGHT, linewidth=0)
        if not math.isnan(row.low):
            ax.plot([row.low, row.high], [place, place], color=color, linewidth=1.4)
        marker, size = ("D", 18) if row.is_summary else ("o", 16)
        face = "white" if row.is_open else color
        ax.scatter([row.effect], [place], s=size, facecolor=face, edgecolor=color, marker=marker, zorder=3)
