"""The page of a figure: a heading, panels or rows, the caption with the source.

Sizes are in inches, so that every figure has the same type size; the height grows with the caption. Series are named
where they end, right of the last panel; only where no panel has them all, in a legend below the heading.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.textpath import text_to_path

from benchmarks.protocol import TASKS
from paper_figures.drawing.style import GREY, PAPER, SMALLEST, Look

__all__ = [
    "TITLE_SIZE", "WIDTH", "Panel", "Sheet", "bend", "inches", "line_handles", "make_page", "task_panels", "wrapped",
]  # fmt: skip

WIDTH = 7.2
"""Inches of every figure."""
_HEADING = 8.8
"""Points of what stands above a figure."""
TITLE_SIZE = 7.8
"""Points of a panel's title."""
_POINTS = (-100, -30, -10, -3, -1, 0, 1, 3, 10, 30, 100)
_FACTORS = (0.1, 0.2, 0.5, 1, 2, 5, 10)
_LEFT, _RIGHT = 0.38, 0.1
_HEAD, _LEGEND, _TITLES, _PLOT, _TICKS, _LABEL = 0.32, 0.17, 0.4, 1.62, 0.2, 0.17


@cache
def inches(text: str, *, bold: bool = False) -> float:
    """Return how wide a text of the smallest size is."""
    font = FontProperties(size=SMALLEST, weight="bold" if bold else "normal")
    width, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return float(width) / 72


def wrapped(text: str, width: float) -> list[str]:
    """Return a text in lines of at most `width` inches, broken at spaces alone."""
    lines: list[str] = []
    for word in filter(None, text.split(" ")):  # a no-break space keeps words together
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and inches(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


class Sheet:
    """A figure as wide as a page; lengths are in inches, from its left and its lower edge."""

    def __init__(
        self, caption: str, *, body: float, below: float, above: float = 0.0, spacing: float = 0.125
    ) -> None:
        """Make an empty one.

        Args:
            caption: wrapped here; it is written by `write_caption`.
            body: height of all that is above the caption.
            below: room below the caption.
            above: room above the caption.
            spacing: from one line of the caption to the next.
        """
        self._lines, self._spacing = wrapped(caption, WIDTH - 0.24), spacing
        self.foot = below + spacing * len(self._lines) + above
        """From the lower edge to what is drawn."""
        self.height = body + self.foot
        self.figure = Figure(figsize=(WIDTH, self.height))

    def text(self, x: float, y: float, text: str, **style: Any) -> None:
        """Write a text."""
        self.figure.text(x / WIDTH, y / self.height, text, **style)

    def axes(self, left: float, bottom: float, width: float, height: float) -> Axes:
        """Return new axes."""
        return self.figure.add_axes((left / WIDTH, bottom / self.height, width / WIDTH, height / self.height))

    def write_heading(self, heading: str, *, left: float = 0.1) -> None:
        """Write what stands above the picture, smaller where it would be wider."""
        wide = inches(heading, bold=True) * _HEADING / SMALLEST
        size = _HEADING * min(1.0, (WIDTH - left - 0.05) / wide) if heading else _HEADING
        self.text(left, self.height - 0.19, heading, fontsize=size, fontweight="bold", gid="heading")

    def write_caption(self, *, left: float = 0.1, bottom: float = 0.06) -> None:
        """Write the caption below everything."""
        for row, line in enumerate(self._lines, start=1):
            self.text(left, bottom + self._spacing * (len(self._lines) - row), line, color=GREY)


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One panel's name and headings."""

    name: str
    """Its `panel` in the data."""
    title: str
    unit: str
    """What the y axis shows."""


def task_panels(*, centred: bool = False) -> tuple[Panel, ...]:
    """Return the four panels of the paper, a task each; `centred` scores are differences in points."""
    unit = "\u2212 mean (points)" if centred else "(%)"
    return tuple(
        Panel(name=task.name, title=task.title, unit=f"{task.name}: {task.metric} {unit}")
        for task in TASKS.values()
    )


def make_page(
    *,
    heading: str,
    panels: Sequence[Panel],
    x_label: str,
    caption: str,
    look: Mapping[str, Look] = MappingProxyType({}),
    legend: bool = False,
    gap: float = 0.36,
) -> tuple[Figure, dict[str, Axes]]:
    """Return a page and its empty panels by name.

    Args:
        heading: what stands above it.
        panels: left to right.
        x_label: one label below all panels; empty for none.
        caption: what is drawn and from where, wrapped here.
        look: of the series that are named; right of the last panel (`marks.write_names`), for which there is room.
        legend: whether they are named in a legend below the heading instead.
        gap: between two panels, in inches.
    """
    columns = max(1, int((WIDTH - 0.24) / max((inches(name) + 0.5 for name in look), default=WIDTH)))
    columns = len(look) if sum(inches(name) + 0.5 for name in look) < WIDTH else columns
    rows = math.ceil(len(look) / max(columns, 1)) if legend else 0
    head = _HEAD + rows * _LEGEND
    label = _LABEL if x_label else 0.0
    sheet = Sheet(caption, body=head + _TITLES + _PLOT + _TICKS + label, below=0.08, above=0.06)
    labelled = () if legend else look
    right = max((inches(name, bold=True) + 0.14 for name in labelled), default=_RIGHT)
    width = (WIDTH - _LEFT - right - gap * (len(panels) - 1)) / len(panels)
    bottom = sheet.foot + label + _TICKS
    top = bottom + _PLOT
    axes = {}
    for index, panel in enumerate(panels):
        left = _LEFT + index * (width + gap)
        axes[panel.name] = sheet.axes(left, bottom, width, _PLOT)
        sheet.text(left - 0.26, top + 0.245, panel.title, fontsize=TITLE_SIZE, fontweight="bold")
        sheet.text(left - 0.26, top + 0.105, panel.unit, color=GREY)
    sheet.write_heading(heading, left=0.12)
    if legend:
        sheet.figure.legend(
            handles=line_handles(look), loc="center left", ncols=columns, handlelength=2.6, handletextpad=0.6,
            bbox_to_anchor=(0.12 / WIDTH, 1 - (0.36 + (rows - 1) * _LEGEND / 2) / sheet.height), columnspacing=1.6,
            borderaxespad=0, borderpad=0,
        )  # fmt: skip
    if x_label:
        sheet.text((_LEFT + WIDTH - right) / 2, sheet.foot + 0.035, x_label, ha="center")
    sheet.write_caption(left=0.12, bottom=0.07)
    return sheet.figure, axes


def line_handles(look: Mapping[str, Look]) -> list[Artist]:
    """Return legend entries of lines with markers."""
    return [
        Line2D([], [], label=name, color=style.color, linestyle=style.dash, linewidth=1.3, marker=style.marker,
               markersize=4.4, markeredgecolor=PAPER, markeredgewidth=0.5)
        for name, style in look.items()
    ]  # fmt: skip


def bend(ax: Axes, reach: float, wide: float, *, ratios: bool = False) -> None:
    """Make an x axis linear near no effect and then bent, or of ratios logarithmic, with ticks that do not touch.

    Args:
        ax: the axes.
        reach: where the axis ends: as far on one side of no effect as on the other, of ratios a factor.
        wide: inches of the axis.
        ratios: whether no effect is 1, not 0.
    """
    place, ticks, form = (math.log, _FACTORS, "{:g}") if ratios else (math.asinh, _POINTS, "{:+g}")
    if ratios:
        ax.set_xscale("log")
    else:
        ax.set_xscale("asinh", linear_width=1.0)
    low, high = (1 / reach, reach) if ratios else (-reach, reach)
    ax.set_xlim(low, high)
    labels = {tick: form.format(tick).replace("-", "\u2212") for tick in ticks} | {0.0: "0"}
    where = {tick: place(tick) * wide / 2 / place(reach) for tick in ticks if low <= tick <= high}
    shown: list[float] = []
    for tick in sorted(where, key=lambda tick: (where[tick] != 0, -abs(where[tick]))):
        room = inches(labels[tick]) + 0.04
        if all(abs(where[tick] - where[other]) >= room for other in shown):
            shown.append(tick)
    shown.sort()
    ax.set_xticks(shown, [labels[tick] for tick in shown])
    ax.set_xticks([], minor=True)
    ax.set_yticks([])
