"""The page of a figure: a heading, a row of panels, one x label, the caption with the source.

Sizes are in inches, so that every figure has the same type size; the height grows with the caption. Series are named
where they end, right of the last panel; only where no panel has them all, in a legend below the heading.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from benchmarks.protocol import TASKS
from paper_figures.drawing.style import GREY, SMALLEST

__all__ = [
    "CAPTION_LINE", "HEADING", "TITLE_SIZE", "Page", "Panel", "axis_limits", "caption_lines", "inches", "make_page",
    "task_panels", "wrapped", "write_caption", "write_heading",
]  # fmt: skip

_WIDTH = 7.2
_LEFT, _RIGHT = 0.38, 0.1
_HEAD, _LEGEND, _TITLES, _PLOT, _TICKS, _LABEL = 0.32, 0.17, 0.4, 1.62, 0.2, 0.17
_CAPTION_PAD = 0.08
HEADING, TITLE_SIZE = 8.8, 7.8
"""Points of a figure's heading and of a panel's title."""
CAPTION_LINE = 0.125
"""Inches from one line of a caption to the next."""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One panel's name and headings."""

    name: str
    """Its `panel` in the data."""
    title: str
    unit: str
    """What the y axis shows."""


@dataclass(frozen=True, kw_only=True)
class Page:
    """An empty figure and its axes."""

    figure: Figure
    axes: Mapping[str, Axes]
    """Axes by the panel's name."""


def task_panels(*, centred: bool = False) -> tuple[Panel, ...]:
    """Return the four panels of the paper, a task each; `centred` scores are differences in points."""
    unit = "\u2212 mean (points)" if centred else "(%)"
    return tuple(
        Panel(name=task.name, title=task.title, unit=f"{task.name}: {task.metric} {unit}")
        for task in TASKS.values()
    )


def inches(text: str, *, size: float = SMALLEST, bold: bool = False) -> float:
    """Return how wide a text is."""
    font = FontProperties(size=size, weight="bold" if bold else "normal")
    width, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return float(width) / 72


def caption_lines(caption: str) -> list[str]:
    """Return the caption in lines as wide as a page at most, broken at spaces alone: model names have hyphens."""
    return wrapped(caption, _WIDTH - 0.24)


def wrapped(text: str, width: float, *, size: float = SMALLEST, bold: bool = False) -> list[str]:
    """Return a text in lines of at most `width` inches, broken at spaces alone."""
    lines: list[str] = []
    for word in filter(None, text.split(" ")):  # a no-break space keeps words together
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and inches(longer, size=size, bold=bold) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def write_caption(
    figure: Figure,
    lines: Sequence[str],
    *,
    left: float = 0.1,
    bottom: float = 0.06,
    spacing: float = CAPTION_LINE,
) -> None:
    """Write what `caption_lines` returns below a figure as wide as a page; distances in inches."""
    width, height = figure.get_size_inches()
    for row, line in enumerate(lines):
        y = bottom + spacing * (len(lines) - 1 - row)
        figure.text(left / width, y / height, line, fontsize=SMALLEST, color=GREY)


def write_heading(figure: Figure, heading: str, *, left: float = 0.1) -> None:
    """Write the heading of a figure as wide as a page."""
    width, height = figure.get_size_inches()
    figure.text(left / width, 1 - 0.19 / height, heading, fontsize=HEADING, fontweight="bold", gid="heading")


def make_page(
    *,
    title: str,
    panels: Sequence[Panel],
    x_label: str,
    caption: str,
    handles: Sequence[Artist] = (),
    names: Sequence[str] = (),
    gap: float = 0.36,
) -> Page:
    """Return a page with empty panels.

    Args:
        title: the heading, such as `Figure 3`, a line break short.
        panels: left to right.
        x_label: one label below all panels; empty for none.
        caption: what is drawn and from where, wrapped here.
        handles: what the legend shows, with their labels.
        names: of the series that are written right of the last panel.
        gap: between two panels, in inches.
    """
    lines = caption_lines(caption)
    head = _HEAD + (_LEGEND if handles else 0.0)
    label = _LABEL if x_label else 0.0
    foot = _CAPTION_PAD + CAPTION_LINE * len(lines) + 0.06
    height = head + _TITLES + _PLOT + _TICKS + label + foot
    figure = Figure(figsize=(_WIDTH, height))
    right = max((inches(name, bold=True) + 0.14 for name in names), default=_RIGHT)
    width = (_WIDTH - _LEFT - right - gap * (len(panels) - 1)) / len(panels)
    bottom = foot + label + _TICKS
    axes = {}
    for index, panel in enumerate(panels):
        left = _LEFT + index * (width + gap)
        ax = figure.add_axes((left / _WIDTH, bottom / height, width / _WIDTH, _PLOT / height))
        top = bottom + _PLOT
        for offset, text, color, weight, size in (
            (0.245, panel.title, None, "bold", TITLE_SIZE),
            (0.105, panel.unit, GREY, "normal", SMALLEST),
        ):
            figure.text((left - 0.26) / _WIDTH, (top + offset) / height, text, fontsize=size, fontweight=weight,
                        color=color, va="baseline")  # fmt: skip
        axes[panel.name] = ax
    write_heading(figure, title, left=0.12)
    if handles:
        figure.legend(
            handles=list(handles), loc="center left", ncols=len(handles), handlelength=2.6, handletextpad=0.6,
            bbox_to_anchor=(0.12 / _WIDTH, 1 - 0.36 / height), columnspacing=1.6, borderaxespad=0, borderpad=0,
        )  # fmt: skip
    if x_label:
        middle = (_LEFT + _WIDTH - right) / 2 / _WIDTH
        figure.text(middle, (foot + 0.035) / height, x_label, ha="center", va="baseline", fontsize=SMALLEST)
    write_caption(figure, lines, left=0.12, bottom=0.07)
    return Page(figure=figure, axes=axes)


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
