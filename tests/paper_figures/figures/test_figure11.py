"""Figure 11: one line at 1B, of which the published tables hold the two ends."""

from __future__ import annotations

import numpy as np

from analysis.sources import open_source
from paper_figures.drawing.style import paper_style
from paper_figures.inputs import Inputs
from tests.paper_figures.made_up import paper_figure


def test_figure_11_leaves_a_gap_where_the_two_stage_model_is_missing() -> None:
    figure = paper_figure(11)
    with paper_style():
        drawn = figure.draw(figure.collect(Inputs(source=open_source("published"))), "caption")
    (line,) = [line for line in drawn.axes[0].lines if line.get_label() == "1B"]
    assert list(line.get_xdata()) == [0, 25, 100]  # type: ignore[arg-type]
    assert np.isnan(np.asarray(line.get_ydata(), float)).tolist() == [False, True, False]
