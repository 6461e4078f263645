"""The page of a figure: a heading, panels or rows, the caption with the source.

Sizes are in inches, so that every figure has the same type size; the height grows with the caption. Series are named
where they end, right of the last panel; only where no panel has them all, in a legend below the heading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from benchmarks.protocol import TASKS
from paper_figures.drawing.style import GREY, SMALLEST

__all__ = [
    "TITLE_SIZE", "WIDTH", "Panel", "Sheet", "axis_limits", "caption_lines", "inches", "make_page", "spaced",
    "task_panels", "wrapped",
]  # fmt: skip

WIDTH = 7.2
"""Inches of every figure."""
TITLE_SIZE = 7.8
"""Points of a panel's title."""
_LEFT, _RIGHT = 0.38, 0.1
_HEAD, _LEGEND, _TITLES, _PLOT, _TICKS, _LABEL = 0.32, 0.17, 0.4, 1.62, 0.2, 0.17


@cache
def inches(text: str, *, bold: bool = False) -> float:
    """Return how wide a text of the smallest size is."""
    font = FontProperties(size=SMALLEST, weight="bold" if bold else "normal")
    width, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return float(width) / 72


def caption_lines(caption: str) -> list[str]:
    """Return the caption in lines as wide as a page at most, broken at spaces alone: model names have hyphens."""
    return wrapped(caption, WIDTH - 0.24)


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
        self._lines, self._spacing = caption_lines(caption), spacing
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
        """Write what stands above the picture."""
        self.text(left, self.height - 0.19, heading, fontsize=8.8, fontweight="bold", gid="heading")

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
    handles: Sequence[Artist] = (),
    names: Sequence[str] = (),
    gap: float = 0.36,
) -> tuple[Figure, dict[str, Axes]]:
    """Return a page and its empty panels by name.

    Args:
        heading: what stands above it.
        panels: left to right.
        x_label: one label below all panels; empty for none.
        caption: what is drawn and from where, wrapped here.
        handles: what the legend shows, with their labels.
        names: of the series that are written right of the last panel.
        gap: between two panels, in inches.
    """
    head = _HEAD + (_LEGEND if handles else 0.0)
    label = _LABEL if x_label else 0.0
    sheet = Sheet(caption, body=head + _TITLES + _PLOT + _TICKS + label, below=0.08, above=0.06)
    right = max((inches(name, bold=True) + 0.14 for name in names), default=_RIGHT)
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
    if handles:
        sheet.figure.legend(
            handles=list(handles), loc="center left", ncols=len(handles), handlelength=2.6, handletextpad=0.6,
            bbox_to_anchor=(0.12 / WIDTH, 1 - 0.36 / sheet.height), columnspacing=1.6, borderaxespad=0, borderpad=0,
        )  # fmt: skip
    if x_label:
        sheet.text((_LEFT + WIDTH - right) / 2, sheet.foot + 0.035, x_label, ha="center")
    sheet.write_caption(left=0.12, bottom=0.07)
    return sheet.figure, axes


def axis_limits(
    low: float, high: float, *, least: float, below: float = 0.06, above: float = 0.06
) -> tuple[float, float]:
    """Return limits around [low, high].

    Args:
        low: smallest value drawn.
        high: largest value drawn.
        least: smallest span of the values, so that a small difference does not fill the panel.
        below: room below, as a share of the span.
        above: room above, as a share of the span.
    """
    span = max(high - low, least)
    middle = (low + high) / 2
    return min(low, middle - span / 2) - below * span, max(high, middle + span / 2) + above * span


def spaced(
    ticks: Iterable[float], place: Callable[[float], float], text: Callable[[float], str], *, gap: float
) -> list[float]:
    """Return the ticks whose labels do not touch, sorted; a tick goes before those that follow it.

    Args:
        ticks: in the order in which they are tried.
        place: tick -> where it is, in inches.
        text: tick -> its label.
        gap: inches between two labels at least.
    """
    shown: list[float] = []
    for tick in ticks:
        if all(
            abs(place(tick) - place(other)) > (inches(text(tick)) + inches(text(other))) / 2 + gap
            for other in shown
        ):
            shown.append(tick)
    return sorted(shown)
