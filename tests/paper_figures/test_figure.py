"""What a figure is called, and what it is drawn from."""

from __future__ import annotations

import pandas as pd

from analysis.sources import Source
from analysis.statistics.scores_table import Settings
from benchmarks.protocol import AVERAGE
from paper_figures.figure import Inputs
from paper_figures.registry import FIGURES
from tests.paper_figures.made_up import from_runs, made_up_runs, paper_figure


def test_headings_and_file_names() -> None:
    assert paper_figure(3).heading == "Figure 3. MLM masking ratio by model size"
    assert (paper_figure(3).label, paper_figure(3).stem) == ("Figure 3", "figure3")
    claims = FIGURES["claims"].load()
    assert (claims.heading, claims.stem) == ("Which findings survive a test", "claims")


def test_every_figure_takes_the_interval_that_suits_the_source() -> None:
    runs = Source(label="mine", runs=pd.DataFrame())
    assert Inputs(source=runs, settings=Settings(interval="bca")).settings.interval == "bca"
    assert Inputs(source=runs).settings.interval == "studentised"
    assert Inputs(source=Source(label="published")).settings.interval == "t"


def test_averages_are_of_tasks_and_say_where_from() -> None:
    inputs = from_runs(made_up_runs(["610m-clm-42k"]))
    assert inputs.averages["task"].tolist() == ["SC", "TC", "QA", "IR"]
    assert set(inputs.averages["dataset"]) == {AVERAGE}
    assert set(inputs.averages["source"]) == {inputs.name}
    assert inputs.averages is inputs.averages
