"""The words of a figure: where its numbers come from, and what is not drawn."""

from __future__ import annotations

import numpy as np

from analysis.sources import Source
from paper_figures.drawing.style import paper_style
from paper_figures.inputs import Inputs
from paper_figures.output.captions import caption, source_sentence
from pretraining.model_names import FIGURES
from tests.paper_figures.made_up import from_runs, made_up_runs, paper_figure

FULL = made_up_runs()


def test_a_missing_model_breaks_the_line_and_is_named_in_the_caption() -> None:
    figure, inputs = paper_figure(3), from_runs(FULL[FULL["model"] != "610m-mlm30-42k"])
    data = figure.collect(inputs)
    with paper_style():
        drawn = figure.draw(data, caption(figure, data, inputs))
    (line,) = [line for line in drawn.axes[0].lines if line.get_label() == "610M"]
    assert np.isnan(np.asarray(line.get_ydata(), float)).tolist() == [False, True, False, False]
    assert "Not drawn: 610m-mlm30-42k, which the source lacks." in caption(figure, data, inputs)


def test_the_caption_counts_what_is_drawn_so_that_more_runs_beside_it_change_nothing() -> None:
    figure = paper_figure(8)
    few, many = (
        Source(label="released", runs=made_up_runs(names))
        for names in (FIGURES[8], dict.fromkeys(FIGURES[8] + FIGURES[2]))
    )
    one, two = (Inputs(source=source) for source in (few, many))
    assert source_sentence(figure, figure.collect(one), one) == source_sentence(
        figure, figure.collect(two), two
    )
