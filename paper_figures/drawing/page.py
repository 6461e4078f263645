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
"""Width of every figure, in inches."""
_HEADING = 8.8
"""Type size of what stands above a figure, in points."""
TITLE_SIZE = 7.8
"""Type size of a panel's title, in points."""
DIFFERENCES = ": differences"
"""The end of the name of a panel of the second row; before it stands the name of the panel above."""
_POINTS = (-100, -30, -10, -3, -1, 0, 1, 3, 10, 30, 100)
_FACTORS = (0.1, 0.2, 0.5, 1, 2, 5, 10)
"""The ticks that a bent axis may have: of points, and of ratios."""
_LEFT, _RIGHT = 0.38, 0.1
"""Inches left of the first panel and right of the last."""
_TITLE_LEFT = 0.26
"""Inches by which the title and the unit of a panel begin left of it, above the labels of its y axis."""
_EDGE = 0.12
"""Inches of the margins left and right of the heading, the legend and the caption."""
_HEAD, _LEGEND, _TITLES, _PLOT, _TICKS, _LABEL = 0.32, 0.17, 0.44, 1.62, 0.2, 0.17
"""Heights in inches, from top to bottom of a page: the heading, a row of the legend, the titles of the panels, the
panels, the labels of their ticks, the label of the x axis."""
_SECOND, _BETWEEN, _BAR = 0.95, 0.34, 0.15
"""Heights in inches: panels of the second row, the room between both rows, and the bar of a schedule."""
_WORDS = 40
"""A line of a caption never has more words."""
_LINE = 0.128
"""Inches from a line of the caption to the next."""

Schedule = tuple[str, Sequence[tuple[str, float]]]
"""What a bar is called, and the stages of a pretraining: `CLM` or `MLM`, and its steps."""


@cache
def inches(text: str, *, bold: bool = False) -> float:
    """Return how wide a text is in the smallest type size."""
    font = FontProperties(size=SMALLEST, weight="bold" if bold else "normal")
    # matplotlib gives points, 72 to the inch.
    width, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return float(width) / 72


def wrapped(text: str, width: float) -> list[str]:
    """Return a text in lines of at most `width` inches, broken only at spaces and where the text has a new line.

    A word that is wider than that has a line to itself.
    """
    lines: list[str] = []
    for part in text.split("\n"):
        # Split at plain spaces only: a no-break space keeps its words together.
        words = [word for word in part.split(" ") if word]
        while words:
            # How many words follow the first one in its line? To measure a text is slow, so the answer is found by
            # halving. For numbers 1, 2, 3 and so on, the key says whether so many words after the first are too wide:
            # False for small numbers, then True. `bisect` counts the False, and so the words that still fit.
            numbers = range(1, min(len(words), _WORDS))
            following = bisect(
                numbers,
                False,
                key=lambda number: inches(" ".join(words[: number + 1])) > width,
            )
            in_line = 1 + following
            lines.append(" ".join(words[:in_line]))
            words = words[in_line:]

    return lines


class Sheet:
    """A figure as wide as a page; lengths are in inches, from its left and its lower edge."""

    def __init__(self, caption: str, *, body: float, below: float = 0.08) -> None:
        """Create a page without panels.

        Args:
            caption: wrapped here; it is written by `finish`. If it begins with a finding, a new line ends the finding.
            body: height of all that is above the caption.
            below: room between the caption and what is above it.
        """
        width = WIDTH - 2 * _EDGE
        self._lines = wrapped(caption, width)
        # How many lines, from the first, are the finding.
        self._finding = 0
        if "\n" in caption:
            finding, _, _ = caption.partition("\n")
            self._finding = len(wrapped(finding, width))
        # Besides the lines and the room above them, 0.06 inches are left for the lower margin of the page.
        self.foot = below + 0.06 + _LINE * len(self._lines)
        """Height of the caption: from the lower edge of the page to what is drawn."""
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
            # `inches` measures in the smallest type size.
            heading_width = inches(heading, bold=True) * _HEADING / SMALLEST
            # The heading begins at `_EDGE` (0.12 inches) and ends at least 0.05 inches before the right edge.
            share = min(1.0, (WIDTH - 0.17) / heading_width)
            size = max(SMALLEST, _HEADING * share)

        # The heading stands 0.19 inches below the upper edge, the caption's last line 0.07 above the lower
        # edge.
        self.text(
            _EDGE,
            self.height - 0.19,
            heading,
            fontsize=size,
            fontweight="bold",
            gid="heading",
        )
        for row, line in enumerate(self._lines):
            ink = INK if row < self._finding else GREY
            lines_below = len(self._lines) - row - 1
            bottom = 0.07 + _LINE * lines_below
            self.text(_EDGE, bottom, line, color=ink, gid="caption")

        return self.figure


@contextmanager
def without_words(figure: Figure) -> Iterator[float]:
    """Hide a figure's heading and caption within this block; yield the height of the hidden caption, in points."""
    words = [text for text in figure.texts if text.get_gid() in ("heading", "caption")]
    for text in words:
        text.set_visible(False)
    # Each line of the caption is a text of its own.
    caption_lines = [text for text in words if text.get_gid() == "caption"]
    yield 72 * _LINE * len(caption_lines)
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
    """Return the four panels of the paper, one for each task.

    With `centred`, the y axis shows scores minus their mean, in points; else scores in percent.
    """
    # U+2212 is the minus sign.
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
        look: the looks of the series that are named, by their names; empty where none is.
        legend: whether a legend below the heading names them. If not, there is room for their names right of one panel,
            where `marks.write_names` writes them later.
        named: which panel that is, counted from 0.
        gap: between two panels, in inches.
        second: what a second row of panels shows, whose names end in `DIFFERENCES`; empty for none.
    """
    # The page. Heights are from the heading down; what a page does not have is 0 high.
    # Without names, a legend has no column: `max` below only avoids a division by 0.
    columns = _legend_columns(look)
    legend_rows = math.ceil(len(look) / max(columns, 1)) if legend else 0
    # All panels begin at one height, below the highest block of bars.
    bars_height = _BAR * max(len(panel.schedules) for panel in panels)
    label_height = _LABEL if x_label else 0.0
    second_height = (_BETWEEN + _SECOND) if second else 0.0
    head_height = _HEAD + legend_rows * _LEGEND + bars_height
    if bars_height:
        head_height += 0.08  # room between the bars and what is above them
    body = head_height + _TITLES + _PLOT + second_height + _TICKS + label_height
    sheet = Sheet(caption, body=body)

    # The panels. All are equally wide; the names of series and the gaps take their width from all.
    names_width = 0.0
    if look and not legend:
        # A name begins 6 points (0.08 inches) right of the panel (`marks.write_names`); the rest is room after it.
        names_width = max(inches(name, bold=True) + 0.2 for name in look)

    panels_width = WIDTH - _LEFT - _RIGHT - names_width - gap * (len(panels) - 1)
    width = panels_width / len(panels)
    # The lower edge of the lowest row of panels, and the upper edge of the first.
    bottom = sheet.foot + label_height + _TICKS
    top = bottom + second_height + _PLOT
    axes = {}
    for index, panel in enumerate(panels):
        left = _LEFT + index * (width + gap)
        # The names of the series stand between the panel `named` and the next one.
        if index > named:
            left += names_width
        axes[panel.name] = sheet.axes(left, bottom + second_height, width, _PLOT)
        # Above the panel, within the height `_TITLES`: the title, and below the title the unit.
        sheet.text(
            left - _TITLE_LEFT,
            top + 0.285,
            panel.title,
            fontsize=TITLE_SIZE,
            fontweight="bold",
        )
        sheet.text(left - _TITLE_LEFT, top + 0.145, panel.unit, color=GREY)

    # The second row, and the bars of schedules above the titles.
    # In a loop of its own, so that the first axes of the figure are the panels of the first row, left to right.
    for panel in panels:
        left = float(axes[panel.name].get_position().x0) * WIDTH
        if second:
            axes[panel.name + DIFFERENCES] = sheet.axes(left, bottom, width, _SECOND)
        if panel.schedules:
            above = sheet.axes(
                left - _TITLE_LEFT,
                top + _TITLES + 0.04,
                width + _TITLE_LEFT,
                bars_height,
            )
            draw_schedules(above, panel.schedules)

    # The words for all panels: what the second row shows, the legend, the label of the x axis.
    if second:
        sheet.text(_LEFT - _TITLE_LEFT, bottom + _SECOND + 0.07, second, color=GREY)
    if legend:
        # From the upper edge of the page to the middle of the legend.
        from_top = 0.36 + (legend_rows - 1) * _LEGEND / 2
        sheet.figure.legend(
            handles=line_handles(look),
            loc="center left",
            ncols=columns,
            handlelength=2.6,
            handletextpad=0.6,
            bbox_to_anchor=(_EDGE / WIDTH, 1 - from_top / sheet.height),
            columnspacing=1.6,
            borderaxespad=0,
            borderpad=0,
        )

    if x_label:
        sheet.text(WIDTH / 2, sheet.foot + 0.035, x_label, ha="center")
    return sheet.finish(heading), axes


def _legend_columns(names: Collection[str]) -> int:
    """Return how many columns a legend of these names has.

    If all fit into one row, a column for each; else as many as the page has room for, each as wide as the widest name.
    """
    # Left of each name stand its line and marker, and right of it is some room: 0.5 inches together.
    widths = [inches(name) + 0.5 for name in names]
    if sum(widths) < WIDTH:
        return len(widths)
    return max(1, int((WIDTH - 2 * _EDGE) / max(widths)))


def draw_schedules(
    ax: Axes, schedules: Sequence[Schedule], *, size: float = SMALLEST
) -> None:
    """Draw pretrainings as bars from left to right, one below the other, each stage with its objective.

    Args:
        ax: axes that show nothing else.
        schedules: from top to bottom; a name stands left of its bar.
        size: type size, in points.
    """
    # The axes. `inches` measures in the smallest type size.
    name_widths = [inches(name) for name, _ in schedules]
    name_width = max(name_widths) * size / SMALLEST + 0.08
    axis_width = float(ax.get_position().width) * WIDTH
    lengths = [sum(steps for _, steps in stages) for _, stages in schedules]
    longest = max(lengths)

    # The x axis is in steps. The bars begin at step 0, so that the names left of them are at negative steps: as many as
    # are as wide as the widest name, when the longest bar takes the rest of the width.
    bars_width = max(axis_width - name_width, 0.1)
    left_edge = -longest * name_width / bars_width
    ax.set_xlim(left_edge, longest)

    # A bar has its middle at 0, 1, 2 and so on, counted from the top.
    ax.set_ylim(len(schedules) - 0.5, -0.5)
    ax.axis("off")

    # The bars, each with its name and a text in each stage.
    for row, (name, stages) in enumerate(schedules):
        ax.text(left_edge, row, name, va="center", fontsize=size)
        first_step = 0.0
        for text, steps in stages:
            # A stage's text may say more than its objective, such as `MLM (CPT)`.
            color = OBJECTIVE["CLM" if "CLM" in text else "MLM"]
            ax.barh(
                row,
                steps,
                left=first_step,
                height=0.82,
                color=color,
                edgecolor=WHITE,
                linewidth=0.8,
            )
            ax.text(
                first_step + steps / 2,
                row,
                text,
                va="center",
                ha="center",
                color=WHITE,
                fontsize=size,
                fontweight="bold",
            )
            first_step += steps


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
    """Set the scale, the limits and the ticks of an x axis of effects, so that small and large effects can be read.

    An axis of differences is linear near 0 and logarithmic farther out (asinh); an axis of ratios is logarithmic.

    Args:
        ax: the axes.
        low, high: the least and the largest effect that it has to show. It ends at the next ticks, at most at 100
            points or a factor of 10.
        wide: width of the axis, in inches.
        ratios: whether effects are ratios, so that 1 is no effect, in place of differences, for which it is 0.
    """
    # From an effect to its place on the axis, as the scale that is set below has it.
    scaled = math.log if ratios else math.asinh
    all_ticks = _FACTORS if ratios else _POINTS  # rising
    no_effect = 1 if ratios else 0

    # The axis ends at the nearest ticks that are beyond both the effects and no effect, or at the outermost ones.
    left = [tick for tick in all_ticks if tick < no_effect and tick <= low]
    right = [tick for tick in all_ticks if tick > no_effect and tick >= high]
    first = left[-1] if left else all_ticks[0]
    last = right[0] if right else all_ticks[-1]
    if ratios:
        ax.set_xscale("log")
    else:
        # Effects of 0.1 and of 30 points share the axis: on a straight one only the large effects would be seen.
        ax.set_xscale("asinh", linear_width=1.0)

    ax.set_xlim(first, last)
    form = "{:g}" if ratios else "{:+g}"
    # U+2212 is the minus sign.
    labels = {tick: form.format(tick).replace("-", "\u2212") for tick in all_ticks}
    labels[0.0] = "0"  # not +0; an axis of ratios has no such tick

    # Which ticks have room? First where each tick is, in inches from no effect.
    inches_of_unit = wide / (scaled(last) - scaled(first))
    inches_of = {}
    for tick in all_ticks:
        if first <= tick <= last:
            inches_of[tick] = scaled(tick) * inches_of_unit

    # If ticks would touch, both ends and no effect are shown, then the ticks farther out as far as there is room.
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
