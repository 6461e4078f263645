"""The page of a figure: a heading with its legend, a row of panels, one x label, the caption with the source.

Sizes are in inches, so that every figure has the same type size; the height grows with the caption.
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
from paper_figures.drawing.style import GREY

__all__ = ["Page", "Panel", "axis_limits", "caption_lines", "make_page", "task_panels", "write_caption"]

_WIDTH = 7.2
_LEFT, _RIGHT = 0.36, 0.08
_HEAD, _TITLES, _PLOT, _TICKS, _LABEL = 0.34, 0.38, 1.62, 0.19, 0.15
_CAPTION_LINE, _CAPTION_PAD = 0.112, 0.08
_CAPTION_SIZE = 5.6


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


def caption_lines(caption: str) -> list[str]:
    """Return the caption in lines as wide as a page at most, broken at spaces alone: model names have hyphens."""
    lines: list[str] = []
    font = FontProperties(size=_CAPTION_SIZE)
    for word in caption.split():
        longer = f"{lines[-1]} {word}" if lines else word
        width, _, _ = text_to_path.get_text_width_height_descent(longer, font, ismath=False)
        if lines and width / 72 <= _WIDTH - 0.24:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def write_caption(
    figure: Figure, lines: Sequence[str], *, left: float = 0.1, bottom: float = 0.05, spacing: float = 0.1
) -> None:
    """Write what `caption_lines` returns below a figure as wide as a page; distances in inches."""
    width, height = figure.get_size_inches()
    for row, line in enumerate(lines):
        y = bottom + spacing * (len(lines) - 1 - row)
        figure.text(left / width, y / height, line, fontsize=_CAPTION_SIZE, color=GREY)


def make_page(
    *,
    title: str,
    panels: Sequence[Panel],
    x_label: str,
    caption: str,
    handles: Sequence[Artist] = (),
    gap: float = 0.36,
) -> Page:
    """Return a page with empty panels.

    Args:
        title: the heading, such as `Figure 3`, a line break short.
        panels: left to right.
        x_label: one label below all panels; empty for none.
        caption: what is drawn and from where, wrapped here.
        handles: what the legend shows, with their labels.
        gap: between two panels, in inches.
    """
    lines = caption_lines(caption)
    labels = [str(handle.get_label()) for handle in handles]
    one_line = 0.073 * len(title) + sum(0.56 + 0.058 * len(text) for text in labels) < _WIDTH
    head = _HEAD if one_line else _HEAD + 0.2
    label = _LABEL if x_label else 0.0
    foot = _CAPTION_PAD + _CAPTION_LINE * len(lines) + 0.05
    height = head + _TITLES + _PLOT + _TICKS + label + foot
    figure = Figure(figsize=(_WIDTH, height))
    width = (_WIDTH - _LEFT - _RIGHT - gap * (len(panels) - 1)) / len(panels)
    bottom = foot + label + _TICKS
    axes = {}
    for index, panel in enumerate(panels):
        left = _LEFT + index * (width + gap)
        ax = figure.add_axes((left / _WIDTH, bottom / height, width / _WIDTH, _PLOT / height))
        top = bottom + _PLOT
        for offset, text, color, weight, size in (
            (0.235, panel.title, None, "bold", 7.6),
            (0.105, panel.unit, GREY, "normal", 6.6),
        ):
            figure.text((left - 0.24) / _WIDTH, (top + offset) / height, text, fontsize=size, fontweight=weight,
                        color=color, va="baseline")  # fmt: skip
        axes[panel.name] = ax
    figure.text(0.12 / _WIDTH, 1 - 0.2 / height, title, fontsize=8.6, fontweight="bold", va="baseline")
    if handles:
        figure.legend(
            handles=list(handles), loc="center right", ncols=len(handles), handlelength=2.6, handletextpad=0.6,
            bbox_to_anchor=(1 - 0.1 / _WIDTH, 1 - (0.165 if one_line else 0.39) / height),
            columnspacing=1.6, borderaxespad=0, borderpad=0,
        )  # fmt: skip
    if x_label:
        middle = (_LEFT + _WIDTH - _RIGHT) / 2 / _WIDTH
        figure.text(middle, (foot + 0.03) / height, x_label, ha="center", va="baseline", fontsize=7.2)
    write_caption(figure, lines, left=0.12, bottom=0.07, spacing=_CAPTION_LINE)
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
