"""Figures of task averages: what they collect from sources that lack models, tasks or seeds, and what is drawn."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.sources import open_source
from common.errors import UserError
from paper_figures.drawing.style import paper_style
from paper_figures.figure import FigureInputs
from paper_figures.words import alt_text, missing, missing_sentence
from pretraining.models import FIGURES
from tests.paper_figures.made_up import ALL_MODELS, from_runs, made_up_runs, paper_figure

SCORED = tuple(number for number in FIGURES if number not in (5, 7, 12))
FULL = made_up_runs()


@pytest.mark.parametrize("number", SCORED)
def test_a_complete_store_gives_every_model_of_the_figure(number: int) -> None:
    figure = paper_figure(number)
    data = figure.collect(from_runs(FULL))
    assert set(data["model"]) == set(FIGURES[number])
    assert missing(figure, data) == {}


@pytest.mark.parametrize("number", SCORED)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_holes_anywhere_are_left_out_and_named(number: int, seed: int) -> None:
    rng = np.random.default_rng([number, seed])
    kept = FULL[FULL["model"].isin(rng.choice(ALL_MODELS, 30, replace=False)) & (FULL["seed"] < 1 + 2 * seed)]
    kept = kept[~((kept["dataset"] == "nq") & (kept["model"] < "610m-f"))]
    figure, inputs = paper_figure(number), from_runs(kept)
    try:
        data = figure.collect(inputs)
    except UserError as error:
        assert str(error).startswith(
            f"Figure {number} cannot be drawn from runs.parquet: it has no task average"
        )
        return
    gaps = set(missing(figure, data))
    assert gaps | set(data["model"]) == set(FIGURES[number])
    if seed == 0:
        assert data["low"].isna().all()
    with paper_style():
        figure.draw(data, "", "")
    assert all(name in alt_text(figure, data, inputs) for name in gaps)


def test_the_order_of_runs_does_not_matter() -> None:
    shuffled = from_runs(FULL.sample(frac=1, random_state=3).reset_index(drop=True))
    assert shuffled.source.name == from_runs(FULL).source.name
    figure = paper_figure(6)
    one, two = figure.collect(shuffled), figure.collect(from_runs(FULL))
    assert one.drop(columns=["mean", "low", "high"]).equals(two.drop(columns=["mean", "low", "high"]))
    assert one["mean"].to_numpy() == pytest.approx(two["mean"].to_numpy())


def test_models_of_the_paper_stay_out_of_figures_that_do_not_show_them() -> None:
    """The late switch at 40K would be a 95 % share of CLM; the paper shows it in Figure 7 only."""
    data = paper_figure(6).collect(from_runs(FULL))
    assert "610m-clm-40k-mlm40-42k" not in set(data["model"])
    assert set(paper_figure(8).collect(from_runs(FULL))["series"]) == {"MLM start", "CLM start"}


def test_a_task_that_lacks_a_dataset_leaves_its_panel_empty() -> None:
    figure, inputs = paper_figure(2), from_runs(FULL[FULL["dataset"] != "record"])
    data = figure.collect(inputs)
    assert set(data["panel"]) == {"SC", "TC", "IR"}
    with paper_style():
        drawn = figure.draw(data, "", "")
    assert [text.get_text() for text in drawn.axes[2].texts] == ["not in this source"]
    assert "610m-clm-42k (QA)" in missing_sentence(missing(figure, data), "why", most=99)


def test_a_source_of_one_panel_of_figure_1_leaves_the_other_empty() -> None:
    figure = paper_figure(1)
    data = figure.collect(from_runs(made_up_runs(["610m-clm-10k-mlm40-42k"])))
    with paper_style():
        picture = figure.draw(data, "", "")
    assert set(data["panel"]) == {"SC: CLM share"}
    assert [text.get_text() for text in picture.axes[1].texts] == ["not in this source"]


def test_figure_11_leaves_a_gap_where_the_two_stage_model_is_missing() -> None:
    figure = paper_figure(11)
    with paper_style():
        drawn = figure.draw(figure.collect(FigureInputs(source=open_source("published"))), "", "")
    (line,) = [line for line in drawn.axes[0].lines if line.get_label() == "1B"]
    assert list(line.get_xdata()) == [0, 25, 100]  # type: ignore[arg-type]
    assert np.isnan(np.asarray(line.get_ydata(), float)).tolist() == [False, True, False]
