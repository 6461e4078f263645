"""Figures of task averages, a panel a task: of lines (Figures 3, 4, 6, 9, 10, 11) or of grouped bars (2 and 8)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from paper_figures.drawing.layout import make_page, task_panels
from paper_figures.drawing.marks import bar_handles, draw_bars, draw_lines, line_handles
from paper_figures.drawing.style import Look
from paper_figures.drawing.style import looks as looks_of
from paper_figures.drawing.x_positions import continued_only, expected_points
from paper_figures.figure_data import PositionRule, collect, refuse_empty
from paper_figures.figure_types import PaperFigure, XAxis
from paper_figures.inputs import Inputs
from pretraining.study import FIGURES

__all__ = ["Bars", "Lines", "task_figure"]


@dataclass(frozen=True, kw_only=True)
class Lines:
    """Every series is a line of markers."""

    x_label: str
    ticks: Callable[[set[float]], Sequence[float]] = sorted
    """Every x drawn -> the ticks."""
    log_x: bool = False
    legend: bool = True

    def handles(self, look: Mapping[str, Look]) -> Sequence[Artist]:
        """Return what the legend shows."""
        return line_handles(look) if self.legend else ()

    def draw(
        self,
        axes: Mapping[str, Axes],
        data: pd.DataFrame,
        look: Mapping[str, Look],
        expected: dict[str, list[float]],
    ) -> None:
        """Draw the panels."""
        ticks = self.ticks({float(x) for x in data["x"]})
        for task, ax in axes.items():
            rows = data[data["panel"] == task]
            draw_lines(ax, rows, look, expected=expected, ticks=ticks, log_x=self.log_x)


@dataclass(frozen=True, kw_only=True)
class Bars:
    """Every series has a bar in each group."""

    x_label: str = ""
    groups: Callable[[Iterable[str]], Sequence[str]]
    """Every x drawn -> the groups, left to right."""

    def handles(self, look: Mapping[str, Look]) -> Sequence[Artist]:
        """Return what the legend shows."""
        return bar_handles(look)

    def draw(
        self,
        axes: Mapping[str, Axes],
        data: pd.DataFrame,
        look: Mapping[str, Look],
        expected: dict[str, list[float]],
    ) -> None:
        """Draw the panels."""
        del expected
        groups = self.groups(dict.fromkeys(data["x"]))
        for task, ax in axes.items():
            draw_bars(ax, data[data["panel"] == task], look, groups=groups)


def task_figure(
    name: int | str,
    title: str,
    *,
    models: tuple[str, ...] = (),
    tables: tuple[int, ...],
    position: PositionRule,
    looks: dict[str, Look],
    marks: Lines | Bars,
    seen: str,
    numbers: Callable[[pd.DataFrame], str],
    note: str,
    continued: bool = False,
) -> PaperFigure:
    """Return a figure with a panel for each task.

    Args:
        name: the paper's number, or a number or word for a figure of your own.
        title: what it shows, in a few words.
        models: the models that it shows; with a number those of the paper's figure.
        tables: the paper's tables that hold its cells.
        position: where it draws a model.
        looks: how the paper's series look.
        marks: what is drawn of a series.
        seen: what the picture is, a sentence of the alt text.
        numbers: data -> further sentences of the alt text.
        note: a sentence of the caption on how to read it.
        continued: whether it compares models with what continues them: base models that nothing continues are left
            out, unless their series is one of `looks`.
    """

    shown = FIGURES.get(name, models) if isinstance(name, int) else models

    def collected(inputs: Inputs) -> pd.DataFrame:
        data = collect(figure, position, inputs, others=continued)
        return refuse_empty(figure, continued_only(data, looks), inputs) if continued else data

    def draw(data: pd.DataFrame, caption: str) -> Figure:
        look = looks_of(list(dict.fromkeys(data["series"])), looks)
        page = make_page(title=figure.heading, panels=task_panels(), x_label=marks.x_label, caption=caption,
                         handles=marks.handles(look))  # fmt: skip
        marks.draw(page.axes, data, look, expected_points(figure.models, position))
        return page.figure

    def draw_panel(data: pd.DataFrame, task: str, ax: Axes) -> None:
        look = looks_of(list(dict.fromkeys(data["series"])), looks)
        marks.draw({task: ax}, data, look, expected_points(figure.models, position))
        [panel] = [panel for panel in task_panels() if panel.name == task]
        ax.set(title=panel.title, xlabel=marks.x_label, ylabel=panel.unit)
        if handles := marks.handles(look):
            ax.legend(handles=list(handles))

    figure = PaperFigure(
        name=str(name),
        title=title,
        collect=collected,
        draw=draw,
        draw_panel=draw_panel,
        describe=lambda data: f"{seen} {numbers(data)}",
        models=shown,
        tables=tables,
        note=note,
        x_axis=XAxis(
            label=marks.x_label,
            log=isinstance(marks, Lines) and marks.log_x,
            expected=expected_points(shown, position),
        ),
    )
    return figure
