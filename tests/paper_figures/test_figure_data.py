"""What figures collect from sources that lack models, tasks or seeds."""

from __future__ import annotations

import numpy as np
import pytest

from common.errors import UserError
from paper_figures.drawing.style import paper_style
from paper_figures.figure_data import collect, find_model, missing, size_rank
from paper_figures.output.captions import alt_text, caption, missing_sentence
from pretraining.model_names import FIGURES
from tests.paper_figures.made_up import ALL_MODELS, from_runs, made_up_runs, paper_figure

SCORED = tuple(number for number in FIGURES if number != 12)
FULL = made_up_runs()


@pytest.mark.parametrize("number", SCORED)
def test_a_complete_store_gives_every_model_of_the_figure(number: int) -> None:
    figure, inputs = paper_figure(number), from_runs(FULL)
    data = figure.collect(inputs)
    names = {name for model in data["model"] for name in model.split()}
    assert names == set(FIGURES[number])
    if number not in (5, 7):
        assert missing(figure, data) == ()
    with paper_style():
        figure.draw(data, caption(figure, data, inputs))


@pytest.mark.parametrize("number", [n for n in SCORED if n not in (5, 7)])
@pytest.mark.parametrize("seed", range(3))
def test_holes_anywhere_are_left_out_and_named(number: int, seed: int) -> None:
    rng = np.random.default_rng([number, seed])
    kept = FULL[FULL["model"].isin(rng.choice(ALL_MODELS, 30, replace=False)) & (FULL["seed"] < 1 + 2 * seed)]
    kept = kept[~((kept["dataset"] == "nq") & (kept["model"] < "610m-f"))]
    figure, inputs = paper_figure(number), from_runs(kept)
    try:
        data = figure.collect(inputs)
    except UserError as error:
        assert str(error).startswith(
            f"Figure {number} cannot be drawn from runs.parquet: it holds no task average"
        )
        return
    gaps = {gap.model for gap in missing(figure, data)}
    assert gaps | set(data["model"]) == set(FIGURES[number])
    assert not gaps - set(FIGURES[number])
    if seed == 0:
        assert data["low"].isna().all()
    with paper_style():
        figure.draw(data, caption(figure, data, inputs))
    for name in gaps:
        assert name in alt_text(figure, data, inputs)


def test_names_outside_the_scheme_are_no_points() -> None:
    assert find_model("bert-base-uncased") is None
    assert find_model("4b-mlm15-42k") is not None
    assert [size_rank(size) for size in ("210m", "1.5b", "giant")] == [210e6, 1.5e9, float("inf")]


def test_the_order_of_runs_does_not_matter() -> None:
    shuffled = from_runs(FULL.sample(frac=1, random_state=3).reset_index(drop=True))
    assert shuffled.name == from_runs(FULL).name
    figure = paper_figure(6)
    one, two = figure.collect(shuffled), figure.collect(from_runs(FULL))
    assert one.drop(columns=["mean", "low", "high"]).equals(two.drop(columns=["mean", "low", "high"]))
    assert one["mean"].to_numpy() == pytest.approx(two["mean"].to_numpy())


def test_collect_without_any_point_may_be_asked_to_be_quiet() -> None:
    inputs = from_runs(made_up_runs(["1b-clm-42k"]))
    assert collect(paper_figure(6), lambda _: None, inputs, required=False).empty


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
        drawn = figure.draw(data, "caption")
    assert [text.get_text() for text in drawn.axes[2].texts] == ["not in this source"]
    assert "610m-clm-42k (QA)" in missing_sentence(missing(figure, data), "why", most=99)
