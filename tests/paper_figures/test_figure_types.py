"""The kinds of figures: what they are called, and what they need."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from analysis.sources import Source, open_source
from analysis.statistics.scores_table import Settings
from paper_figures.inputs import Inputs
from paper_figures.registry import FIGURES
from tests.paper_figures.made_up import paper_figure


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


def test_losses_of_the_sources_own_logs_go_by_its_name() -> None:
    assert paper_figure(12).given_as(Inputs(source=open_source("miniature"))) == "miniature"


def test_losses_are_of_logs_and_everything_else_of_the_source() -> None:
    inputs = Inputs(source=Source(label="published"), logs=Path("my/logs"))
    assert (paper_figure(12).source_name(inputs), paper_figure(12).given_as(inputs)) == ("logs", "my/logs")
    assert (paper_figure(3).source_name(inputs), paper_figure(3).given_as(inputs)) == (
        "published",
        "published",
    )
