"""Figure 5: what its spread leaves out."""

from __future__ import annotations

import pandas as pd
import pytest

from common.errors import UserError
from paper_figures.drawing.style import paper_style
from pretraining.model_names import FIGURES
from tests.paper_figures.made_up import from_runs, made_up_runs, paper_figure

RUNS = made_up_runs(FIGURES[5])


def test_figure_5_leaves_out_the_large_rates_and_scores_that_lack_a_dataset() -> None:
    wild = RUNS.copy()
    wild.loc[wild["lr"] > 1e-4, "test_score"] = 0.0
    columns = ["panel", "series", "model", "x", "mean", "low", "high"]
    one, two = (paper_figure(5).collect(from_runs(runs))[columns] for runs in (wild, RUNS))
    pd.testing.assert_frame_equal(one, two)
    holed = RUNS[~((RUNS.dataset == "sst2") & (RUNS.lr == 5e-5) & (RUNS.model == "610m-clm-42k"))]
    data = paper_figure(5).collect(from_runs(holed))
    counts = data[(data["panel"] == "SC") & (data["interval"] == "single")].groupby("x").size()
    assert counts.to_dict() == {"MLM": 20, "CLM": 15}


def test_a_source_without_the_models_is_refused_in_one_sentence() -> None:
    with pytest.raises(UserError, match=r"no task average .* of 610m-mlm40-42k, 610m-clm-42k$"):
        paper_figure(5).collect(from_runs(made_up_runs(["1b-clm-42k"])))


def test_a_single_score_has_no_spread_and_is_drawn_all_the_same() -> None:
    one = RUNS[(RUNS.seed == 0) & (RUNS.lr == 1e-5) & (RUNS.model == "610m-clm-42k")]
    figure = paper_figure(5)
    data = figure.collect(from_runs(one))
    assert data.loc[data["interval"] == "sd", "high"].isna().all()
    with paper_style():
        figure.draw(data, "caption")
