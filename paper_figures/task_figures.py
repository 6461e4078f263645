"""Figures of task averages, a panel a task: lines (Figures 3, 4, 6, 9, 10, 11) or points in groups (2 and 8)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.protocol import TASKS
from paper_figures.drawing.labels import names_fit, write_names
from paper_figures.drawing.layout import make_page, task_panels
from paper_figures.drawing.marks import draw_groups, draw_lines, line_handles
from paper_figures.drawing.style import Look
from paper_figures.drawing.style import looks as looks_of
from paper_figures.drawing.x_positions import continued_only, expected_points
from paper_figures.figure_data import PositionRule, collect, refuse_empty
from paper_figures.figure_types import PaperFigure, XAxis
from paper_figures.inputs import Inputs
from pretraining.model_names import FIGURES

__all__ = ["Groups", "Lines", "task_figure"]


@dataclass(frozen=True, kw_only=True)
class Lines:
    """Every series is a line of markers."""

    x_label: str
    ticks: Callable[[set[float]], Sequence[float]] = sorted
    """Every x drawn or missing -> the ticks."""
    log_x: bool = False
    dodge: bool = True
    """Whether series stand next to each other at one x."""
    named: bool = True
    """Whether series are named; not where there is one."""

    def draw(
        self,
        axes: Mapping[str, Axes],
        data: pd.DataFrame,
        look: Mapping[str, Look],
        expected: dict[str, list[float]],
    ) -> None:
        """Draw the panels."""
        ticks = self.ticks({float(x) for x in data["x"]} | {x for xs in expected.values() for x in xs})
        for task, ax in axes.items():
            rows = data[data["panel"] == task]
            draw_lines(ax, rows, look, expected=expected, ticks=ticks, log_x=self.log_x, dodge=self.dodge)


@dataclass(frozen=True, kw_only=True)
class Groups:
    """Every series has a point in each group."""

    x_label: str = ""
    groups: Callable[[Iterable[str]], Sequence[str]]
    """Every x drawn -> the groups, left to right."""
    log_x: bool = False
    named: bool = True

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
            draw_groups(ax, data[data["panel"] == task], look, groups=groups)


def task_figure(
    name: int | str,
    title: str,
    *,
    models: tuple[str, ...] = (),
    tables: tuple[int, ...],
    position: PositionRule,
    looks: dict[str, Look],
    marks: Lines | Groups,
    seen: str,
    numbers: Callable[[pd.DataFrame], str],
    note: str,
    claim: str = "",
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
        claim: the finding that the figure shows, by whose verdict it is entitled.
        continued: whether it compares models with what continues them: base models that nothing continues are left
            out, unless their series is one of `looks`.
    """

    shown = FIGURES.get(name, models) if isinstance(name, int) else models

    def collected(inputs: Inputs) -> pd.DataFrame:
        data = collect(figure, position, inputs, others=continued)
        return refuse_empty(figure, continued_only(data, looks), inputs) if continued else data

    def draw(data: pd.DataFrame, caption: str) -> Figure:
        look = looks_of(list(dict.fromkeys(data["series"])), looks)
        last = list(TASKS)[-1]
        direct = marks.named and names_fit(data, last)
        page = make_page(title=figure.heading, panels=task_panels(), x_label=marks.x_label, caption=caption,
                         names=list(look) if direct else (),
                         handles=line_handles(look) if marks.named and not direct else ())  # fmt: skip
        marks.draw(page.axes, data, look, expected_points(figure.models, position))
        if direct:
            write_names(page.axes[last], data[data["panel"] == last], look)
        return page.figure

    def draw_panel(data: pd.DataFrame, task: str, ax: Axes) -> None:
        look = looks_of(list(dict.fromkeys(data["series"])), looks)
        marks.draw({task: ax}, data, look, expected_points(figure.models, position))
        [panel] = [panel for panel in task_panels() if panel.name == task]
        ax.set(title=panel.title, xlabel=marks.x_label, ylabel=panel.unit)
        if marks.named:
            ax.legend(handles=line_handles(look))

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
        claim=claim,
        crosses=isinstance(marks, Lines),
        x_axis=XAxis(
            label=marks.x_label,
            log=isinstance(marks, Lines) and marks.log_x,
            expected=expected_points(shown, position),
        ),
    )
    return figure
