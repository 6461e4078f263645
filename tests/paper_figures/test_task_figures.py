"""Figures of task averages: what is drawn in each panel, and of which models."""

from __future__ import annotations

import pytest

from analysis.sources import open_source
from paper_figures.drawing.style import CLM, MLM, paper_style
from paper_figures.drawing.x_positions import start_series
from paper_figures.figure_data import Position
from paper_figures.inputs import Inputs
from paper_figures.task_figures import Groups, Lines, task_figure
from pretraining.model_names import FIGURES, Model


def by_steps(model: Model) -> Position | None:
    return Position(series=start_series(model), x=model.steps / 1000)


def by_start(model: Model) -> Position | None:
    return Position(series=start_series(model), x="Base" if model.kind == "base" else "CPT")


@pytest.mark.parametrize(
    "marks", [Lines(x_label="K steps", ticks=lambda xs: [max(xs)]), Groups(groups=sorted)]
)
def test_a_figure_has_a_panel_for_each_task_and_names_its_series(marks: Lines | Groups) -> None:
    figure = task_figure(
        8,
        "Made up",
        tables=(14,),
        position=by_steps if isinstance(marks, Lines) else by_start,
        looks={"MLM start": MLM, "CLM start": CLM},
        marks=marks,
        seen="Something.",
        numbers=lambda data: f"{len(data)} points.",
        note="A note.",
        continued=True,
    )
    assert (figure.heading, figure.models, figure.tables) == ("Figure 8. Made up", FIGURES[8], (14,))
    data = figure.collect(Inputs(source=open_source("published")))
    assert figure.describe(data) == f"Something. {len(data)} points."
    with paper_style():
        drawn = figure.draw(data, "caption")
    assert len(drawn.axes) == 4
    assert not drawn.legends
    assert {text.get_text() for text in drawn.axes[-1].texts} == {"MLM start", "CLM start"}
    ticks = [label.get_text() for label in drawn.axes[0].get_xticklabels()]
    assert ticks == (["64"] if isinstance(marks, Lines) else ["Base", "CPT"])
