"""The page of a figure: a heading, panels or rows, the caption with the finding first and the source last.

Sizes are in inches, so that every figure has the same type size; the height grows with the caption. Series are named
right of one panel, where their lines end; only where that panel lacks one, in a legend below the heading.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
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

from analysis.palette import OBJECTIVE
from benchmarks.protocol import TASKS
from paper_figures.drawing.style import GREY, INK, SMALLEST, WHITE, Look

WIDTH = 7.2
"""Inches of every figure."""
_HEADING = 8.8
"""Points of what stands above a figure."""
TITLE_SIZE = 7.8
"""Points of a panel's title."""
DIFFERENCES = ": differences"
"""After a panel's name, the axes of its differences."""
_POINTS = (-100, -30, -10, -3, -1, 0, 1, 3, 10, 30, 100)
_FACTORS = (0.1, 0.2, 0.5, 1, 2, 5, 10)
"""Ticks of a bent axis: of points, and of ratios."""
_LEFT, _RIGHT = 0.38, 0.1
_HEAD, _LEGEND, _TITLES, _PLOT, _TICKS, _LABEL = 0.32, 0.17, 0.44, 1.62, 0.2, 0.17
_SECOND, _BETWEEN, _BAR = 0.95, 0.34, 0.15
_WORDS = 40
"""Most of them in a line."""
_LINE = 0.128
"""Between two lines of the caption."""

Schedule = tuple[str, Sequence[tuple[str, float]]]
"""What a bar is called, and the stages of a pretraining: `CLM` or `MLM`, and its steps."""


@cache
def inches(text: str, *, bold: bool = False) -> float:
    """Return how wide a text of the smallest size is."""
    font = FontProperties(size=SMALLEST, weight="bold" if bold else "normal")
    width, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return float(width) / 72


def wrapped(text: str, width: float) -> list[str]:
    """Return a text in lines of at most `width` inches, broken only at spaces and where the text has a new line."""
    lines: list[str] = []
    for part in text.split("\n"):
        # Split at plain spaces only: a no-break space keeps its words together.
        words = [word for word in part.split(" ") if word]
        while words:
            # To lay a text out is slow, so the longest line that fits is searched for by halving.
            more = range(1, min(len(words), _WORDS))
            fits = 1 + bisect(
                more,
                False,
                key=lambda count: inches(" ".join(words[: count + 1])) > width,
            )
            lines.append(" ".join(words[:fits]))
            words = words[fits:]
    return lines


class Sheet:
    """A figure as wide as a page; lengths are in inches, from its left and its lower edge."""

    def __init__(self, caption: str, *, body: float, below: float = 0.08) -> None:
        """Create a page without panels.

        Args:
            caption: wrapped here; it is written by `finish`. A finding ends with a new line.
            body: height of all that is above the caption.
            below: room between the caption and what is above it.
        """
        width = WIDTH - 0.24
        self._lines = wrapped(caption, width)
        self._finding = 0
        if "\n" in caption:
            finding, _, _ = caption.partition("\n")
            self._finding = len(wrapped(finding, width))
        self.foot = below + 0.06 + _LINE * len(self._lines)
        """From the lower edge to what is drawn."""
        self.height = body + self.foot
        self.figure = Figure(figsize=(WIDTH, self.height))

    def text(self, x: float, y: float, text: str, **style: Any) -> None:
        """Write a text."""
        # A PDF has ligatures in a second copy of the font, which takes as long to make as the first.
        self.figure.text(
            x / WIDTH, y / self.height, text, fontfeatures=("-liga",), **style
        )

    def axes(self, left: float, bottom: float, width: float, height: float) -> Axes:
        """Return new axes; what they show is written by `text`."""
        ax = self.figure.add_axes(
            (left / WIDTH, bottom / self.height, width / WIDTH, height / self.height)
        )
        for axis in (ax.xaxis, ax.yaxis):
            # Without a fixed place matplotlib measures all ticks at each drawing, to place a label that is empty.
            axis.set_label_coords(0, 0)
        return ax

    def finish(self, heading: str) -> Figure:
        """Write the heading, in smaller letters if it is too wide, and the caption, its finding in black.

        Return the figure.
        """
        size = _HEADING
        if heading:
            heading_width = inches(heading, bold=True) * _HEADING / SMALLEST
            share = min(1.0, (WIDTH - 0.17) / heading_width)
            size = max(SMALLEST, _HEADING * share)
        self.text(
            0.12,
            self.height - 0.19,
            heading,
            fontsize=size,
            fontweight="bold",
            gid="heading",
        )
        for row, line in enumerate(self._lines):
            ink = INK if row < self._finding else GREY
            bottom = 0.07 + _LINE * (len(self._lines) - row - 1)
            self.text(0.12, bottom, line, color=ink, gid="caption")
        return self.figure


@contextmanager
def without_words(figure: Figure) -> Iterator[float]:
    """Within this block a figure has no heading and no caption; gives the points that the caption takes at its foot."""
    words = [text for text in figure.texts if text.get_gid() in ("heading", "caption")]
    for text in words:
        text.set_visible(False)
    yield 72 * _LINE * sum(text.get_gid() == "caption" for text in words)
    for text in words:
        text.set_visible(True)


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One panel's name and headings."""

    name: str
    """Its `panel` in the data."""
    title: str
    unit: str
    """What the y axis shows."""
    schedules: Sequence[Schedule] = ()
    """The pretrainings that it compares, drawn as bars above it."""


def task_panels(*, centred: bool = False) -> tuple[Panel, ...]:
    """Return the four panels of the paper, a task each; `centred` scores are differences in points."""
    unit = "\u2212 mean (points)" if centred else "(%)"
    panels = []
    for task in TASKS.values():
        task_unit = f"{task.name}: {task.metric} {unit}"
        panels.append(Panel(name=task.name, title=task.title, unit=task_unit))
    return tuple(panels)


def make_page(
    *,
    heading: str,
    panels: Sequence[Panel],
    x_label: str,
    caption: str,
    look: Mapping[str, Look] = MappingProxyType({}),
    legend: bool = False,
    named: int = 0,
    gap: float = 0.36,
    second: str = "",
) -> tuple[Figure, dict[str, Axes]]:
    """Return a page and its empty panels by name.

    Args:
        heading: what stands above it.
        panels: left to right.
        x_label: one label below all panels; empty for none.
        caption: what is drawn and from where, wrapped here.
        look: of the series that are named, right of a panel (`marks.write_names`), for which there is room.
        legend: whether they are named in a legend below the heading instead.
        named: the place of the panel that names the series.
        gap: between two panels, in inches.
        second: what a second row of panels shows, whose names end in `DIFFERENCES`; empty for none.
    """
    columns = _legend_columns(look)
    rows = math.ceil(len(look) / max(columns, 1)) if legend else 0
    bars_height = _BAR * max(len(panel.schedules) for panel in panels)
    label_height = _LABEL if x_label else 0.0
    second_height = (_BETWEEN + _SECOND) if second else 0.0
    head_height = _HEAD + rows * _LEGEND + bars_height
    if bars_height:
        head_height += 0.08
    body = head_height + _TITLES + _PLOT + second_height + _TICKS + label_height
    sheet = Sheet(caption, body=body)
    names_width = 0.0
    if look and not legend:
        names_width = max(inches(name, bold=True) + 0.2 for name in look)
    panels_width = WIDTH - _LEFT - _RIGHT - names_width - gap * (len(panels) - 1)
    width = panels_width / len(panels)
    bottom = sheet.foot + label_height + _TICKS
    top = bottom + second_height + _PLOT
    axes = {}
    for index, panel in enumerate(panels):
        left = _LEFT + index * (width + gap)
        if index > named:
            left += names_width
        axes[panel.name] = sheet.axes(left, bottom + second_height, width, _PLOT)
        sheet.text(
            left - 0.26,
            top + 0.285,
            panel.title,
            fontsize=TITLE_SIZE,
            fontweight="bold",
        )
        sheet.text(left - 0.26, top + 0.145, panel.unit, color=GREY)
    for panel in panels:
        left = float(axes[panel.name].get_position().x0) * WIDTH
        if second:
            axes[panel.name + DIFFERENCES] = sheet.axes(left, bottom, width, _SECOND)
        if panel.schedules:
            above = sheet.axes(
                left - 0.26, top + _TITLES + 0.04, width + 0.26, bars_height
            )
            draw_schedules(above, panel.schedules)
    if second:
        sheet.text(_LEFT - 0.26, bottom + _SECOND + 0.07, second, color=GREY)
    if legend:
        from_top = 0.36 + (rows - 1) * _LEGEND / 2
        sheet.figure.legend(
            handles=line_handles(look),
            loc="center left",
            ncols=columns,
            handlelength=2.6,
            handletextpad=0.6,
            bbox_to_anchor=(0.12 / WIDTH, 1 - from_top / sheet.height),
            columnspacing=1.6,
            borderaxespad=0,
            borderpad=0,
        )
    if x_label:
        sheet.text(WIDTH / 2, sheet.foot + 0.035, x_label, ha="center")
    return sheet.finish(heading), axes


def _legend_columns(names: Collection[str]) -> int:
    """Return in how many columns a legend has these names: all in one row where they fit, else by the widest name."""
    widths = [inches(name) + 0.5 for name in names]
    if sum(widths) < WIDTH:
        return len(widths)
    return max(1, int((WIDTH - 0.24) / max(widths)))


def draw_schedules(
    ax: Axes, schedules: Sequence[Schedule], *, size: float = SMALLEST
) -> None:
    """Draw pretrainings as bars from left to right, one below the other, each stage with its objective.

    Args:
        ax: axes of their own.
        schedules: from top to bottom; a name stands left of its bar.
        size: points of the type.
    """
    name_widths = [inches(name) for name, _ in schedules]
    name_width = max(name_widths) * size / SMALLEST + 0.08
    axis_width = float(ax.get_position().width) * WIDTH
    lengths = [sum(steps for _, steps in stages) for _, stages in schedules]
    longest = max(lengths)
    # Steps begin at 0; the names stand left of it, in the axis' own unit.
    bars_width = max(axis_width - name_width, 0.1)
    left_edge = -longest * name_width / bars_width
    ax.set_xlim(left_edge, longest)
    ax.set_ylim(len(schedules) - 0.5, -0.5)
    ax.axis("off")
    for row, (name, stages) in enumerate(schedules):
        ax.text(left_edge, row, name, va="center", fontsize=size)
        start = 0.0
        for text, steps in stages:
            color = OBJECTIVE["CLM" if "CLM" in text else "MLM"]
            ax.barh(
                row,
                steps,
                left=start,
                height=0.82,
                color=color,
                edgecolor=WHITE,
                linewidth=0.8,
            )
            ax.text(
                start + steps / 2,
                row,
                text,
                va="center",
                ha="center",
                color=WHITE,
                fontsize=size,
                fontweight="bold",
            )
            start += steps


def line_handles(look: Mapping[str, Look]) -> list[Artist]:
    """Return legend entries of lines with markers."""
    return [
        Line2D(
            [],
            [],
            label=name,
            color=style.color,
            linestyle=style.dash,
            linewidth=1.2,
            marker=style.marker,
            markersize=4.0,
            markerfacecolor=WHITE,
            markeredgewidth=1.0,
        )
        for name, style in look.items()
    ]


def bend(
    ax: Axes, low: float, high: float, wide: float, *, ratios: bool = False
) -> None:
    """Make an x axis that is linear near no effect and bent farther out, with ticks that do not touch.

    An axis of ratios is logarithmic.

    Args:
        ax: the axes.
        low, high: what it has to show; it ends at the next ticks, at most 100 (or a factor of 10).
        wide: inches of the axis.
        ratios: whether no effect is 1, not 0.
    """
    place = math.log if ratios else math.asinh
    every = _FACTORS if ratios else _POINTS
    no_effect = 1 if ratios else 0
    left = [tick for tick in every if tick < no_effect and tick <= low]
    right = [tick for tick in every if tick > no_effect and tick >= high]
    first = left[-1] if left else every[0]
    last = right[0] if right else every[-1]
    if ratios:
        ax.set_xscale("log")
    else:
        # Effects of 0.1 and of 30 points share the axis: on a straight one only the large effects would be seen.
        ax.set_xscale("asinh", linear_width=1.0)
    ax.set_xlim(first, last)
    form = "{:g}" if ratios else "{:+g}"
    labels = {tick: form.format(tick).replace("-", "\u2212") for tick in every}
    labels[0.0] = "0"
    scale = wide / (place(last) - place(first))
    inches_of = {tick: place(tick) * scale for tick in every if first <= tick <= last}
    # Where ticks would touch, the ends and no effect are kept first, then the ticks farther out.
    outer_first = sorted(inches_of, key=lambda tick: -abs(inches_of[tick]))
    main = [tick for tick in outer_first if tick in (first, no_effect, last)]
    others = [tick for tick in outer_first if tick not in main]
    shown: list[float] = []
    for tick in main + others:
        room = max(inches(labels[tick]), 0.1) + 0.04
        distances = [abs(inches_of[tick] - inches_of[other]) for other in shown]
        if all(distance >= room for distance in distances):
            shown.append(tick)
    shown.sort()
    ax.set_xticks(shown, [labels[tick] for tick in shown])
    ax.set_xticks([], minor=True)
    ax.set_yticks([])
