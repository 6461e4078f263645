"""The example that comes with the package: drawn offline, and marked wherever it is shown."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from analysis.sources import EXAMPLE, open_source
from paper_figures.drawing.marks import draw_bars, draw_lines
from paper_figures.drawing.style import MLM
from paper_figures.figure_data import Inputs
from paper_figures.output.save import write_figure
from paper_figures.registry import get_figure


@pytest.mark.parametrize("number", range(1, 13))
def test_figures_of_the_example_say_what_it_is(number: int, tmp_path: Path) -> None:
    source = open_source("miniature")
    paths, data = write_figure(get_figure(number), Inputs(source=source), tmp_path, ("svg",))
    assert len(data)
    text = next(path for path in paths if path.suffix == ".svg").read_text()
    assert f"<title>MINIATURE. Figure {number}." in text
    assert re.search("MINIATURE: not the paper", text.replace("\u00a0", " "))


def test_the_curves_are_on_the_papers_axis() -> None:
    """420 steps of pretraining and 220 of continued pretraining stand where the paper has 42,000 and 22,000."""
    data = get_figure(12).collect(Inputs(source=open_source("miniature")))
    last = data[data["model"] == "610m-clm-dec42k-mlm40-64k"]["x"]
    assert 63 < last.max() <= 64 and last.min() < 1


def test_the_example_is_small() -> None:
    assert sum(path.stat().st_size for path in EXAMPLE.parent.rglob("*") if path.is_file()) < 600_000


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
