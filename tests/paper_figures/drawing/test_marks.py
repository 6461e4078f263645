"""Lines, bars and empty panels."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from paper_figures.drawing.marks import draw_bars, draw_lines
from paper_figures.drawing.style import MLM, paper_style
from pretraining.study import FIGURES
from tests.paper_figures.made_up import from_runs, made_up_runs, paper_figure


def test_no_interval_leaves_the_bars_panel() -> None:
    """Scores near 0 have intervals that reach below it, where the axis ends."""
    rows = pd.DataFrame({"x": ["610M"], "series": ["MLM"], "mean": [0.8], "low": [-0.4], "high": [1.9]})
    figure = Figure()
    ax = figure.subplots()
    draw_bars(ax, rows, {"MLM": MLM}, groups=["610M"])
    caps = {str(line.get_label()): line.get_ydata() for line in ax.get_lines()}
    assert ax.get_ylim()[0] == 0
    assert np.isnan(np.asarray(caps["_low"])).all() and np.asarray(caps["_high"]) == [1.9]


def test_absent_scores_are_told_inside_the_panel_alone() -> None:
    rows = pd.DataFrame(
        {"x": [10.0, 40.0], "series": "MLM", "mean": [1.0, 2.0], "low": np.nan, "high": np.nan}
    )
    ax = Figure().subplots()
    draw_lines(ax, rows, {"MLM": MLM}, expected={"MLM": [1, 2, 5, 10, 20, 40]}, ticks=[10, 40], log_x=True)
    assert [text.xy[0] for text in ax.texts] == [20]
    assert not len(ax.xaxis.get_minorticklocs())


def test_two_points_at_one_place_are_both_drawn() -> None:
    """`42000` and `42k` are two names of one design; nothing is lost when a store has both."""
    figure, inputs = paper_figure(3), from_runs(made_up_runs((*FIGURES[3], "610m-mlm40-42000")))
    data = figure.collect(inputs)
    with paper_style():
        drawn = figure.draw(data, "caption")
    (line,) = [line for line in drawn.axes[0].lines if line.get_label() == "610M"]
    rows = data[(data["panel"] == "SC") & (data["series"] == "610M")]
    assert sorted(np.asarray(line.get_ydata(), float)) == pytest.approx(sorted(rows["mean"]))
    assert len(rows) == 5
