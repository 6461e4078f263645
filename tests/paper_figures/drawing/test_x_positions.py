"""Sources that lack models, tasks or seeds, and sources with models of one's own."""

from __future__ import annotations

import numpy as np
import pytest

from common.errors import UserError
from paper_figures.drawing.style import paper_style
from paper_figures.drawing.x_positions import clm_share
from paper_figures.figure_data import collect, find_model, missing, size_rank
from paper_figures.output.captions import alt_text, caption, missing_sentence
from paper_figures.registry import NUMBERS, get_figure
from pretraining.study import FIGURES, parse
from tests.paper_figures.made_up import ALL_MODELS, from_runs, made_up_runs

SCORED = tuple(number for number in NUMBERS if number != 12)
FULL = made_up_runs()


@pytest.mark.parametrize("number", SCORED)
def test_a_complete_store_gives_every_model_of_the_figure(number: int) -> None:
    figure, inputs = get_figure(number), from_runs(FULL)
    data = figure.collect(inputs)
    names = {name for model in data["model"] for name in model.split()}
    assert names == set(FIGURES[number])
    if number not in (5, 7):
        assert missing(number, data) == ()
    with paper_style():
        figure.draw(data, caption(figure, data, inputs))


@pytest.mark.parametrize("number", [n for n in SCORED if n not in (5, 7)])
@pytest.mark.parametrize("seed", range(3))
def test_holes_anywhere_are_left_out_and_named(number: int, seed: int) -> None:
    rng = np.random.default_rng([number, seed])
    kept = FULL[FULL["model"].isin(rng.choice(ALL_MODELS, 30, replace=False)) & (FULL["seed"] < 1 + 2 * seed)]
    kept = kept[~((kept["dataset"] == "nq") & (kept["model"] < "610m-f"))]
    figure, inputs = get_figure(number), from_runs(kept)
    try:
        data = figure.collect(inputs)
    except UserError as error:
        assert str(error).startswith(
            f"Figure {number} cannot be drawn from runs.parquet: it holds no task average"
        )
        return
    gaps = {gap.model for gap in missing(number, data)}
    assert gaps | set(data["model"]) == set(FIGURES[number])
    assert not gaps - set(FIGURES[number])
    if seed == 0:
        assert data["low"].isna().all()
    with paper_style():
        figure.draw(data, caption(figure, data, inputs))
    for name in gaps:
        assert name in alt_text(figure, data, inputs)


def test_a_missing_model_breaks_the_line_and_is_named_in_the_caption() -> None:
    figure, inputs = get_figure(3), from_runs(FULL[FULL["model"] != "610m-mlm30-42k"])
    data = figure.collect(inputs)
    with paper_style():
        drawn = figure.draw(data, caption(figure, data, inputs))
    (line,) = [line for line in drawn.axes[0].lines if line.get_label() == "610M"]
    assert np.isnan(np.asarray(line.get_ydata(), float)).tolist() == [False, True, False, False]
    assert "Not drawn: 610m-mlm30-42k, which the source lacks." in caption(figure, data, inputs)


def test_a_task_that_lacks_a_dataset_leaves_its_panel_empty() -> None:
    figure, inputs = get_figure(2), from_runs(FULL[FULL["dataset"] != "record"])
    data = figure.collect(inputs)
    assert set(data["panel"]) == {"SC", "TC", "IR"}
    with paper_style():
        drawn = figure.draw(data, "caption")
    assert [text.get_text() for text in drawn.axes[2].texts] == ["not in this source"]
    assert "610m-clm-42k (QA)" in missing_sentence(missing(2, data), "why", most=99)


OWN = (
    "610m-mlm60-42k", "2b-mlm40-42k", "610m-mlm40-42k-30000", "610m-clm-8k-mlm40-32k", "610m-mlm20-dec42k-mlm40-64k",
    "1b-clm-21k-mlm40-42k",
)  # fmt: skip


@pytest.mark.parametrize(
    ("number", "model", "series", "x"),
    [
        (3, "610m-mlm60-42k", "610M", 60.0),
        (3, "2b-mlm40-42k", "2B", 40.0),
        (2, "2b-mlm40-42k", "MLM", "2B"),
        (4, "610m-mlm40-42k-30000", "MLM", 30.0),
        (6, "610m-clm-8k-mlm40-32k", "32K steps", 25.0),
        (8, "610m-mlm20-dec42k-mlm40-64k", "MLM 20 % start", "CPT"),
        (8, "610m-mlm20-42k", "MLM 20 % start", "Base"),
        (9, "610m-mlm20-dec42k-mlm40-64k", "MLM 20 % start", 22.0),
        (11, "1b-clm-21k-mlm40-42k", "1B", 50.0),
    ],
)
def test_own_models_take_their_place(number: int, model: str, series: str, x: float | str) -> None:
    figure, inputs = get_figure(number), from_runs(made_up_runs((*ALL_MODELS, *OWN)))
    data = figure.collect(inputs)
    rows = data[data["model"] == model]
    assert len(rows) == 4
    assert set(rows["series"]) == {series}
    assert set(rows["x"]) == {x}
    with paper_style():
        figure.draw(data, caption(figure, data, inputs))


def test_two_points_at_one_place_are_both_drawn() -> None:
    """`42000` and `42k` are two names of one design; nothing is lost when a store has both."""
    figure, inputs = get_figure(3), from_runs(made_up_runs((*FIGURES[3], "610m-mlm40-42000")))
    data = figure.collect(inputs)
    with paper_style():
        drawn = figure.draw(data, "caption")
    (line,) = [line for line in drawn.axes[0].lines if line.get_label() == "610M"]
    rows = data[(data["panel"] == "SC") & (data["series"] == "610M")]
    assert sorted(np.asarray(line.get_ydata(), float)) == pytest.approx(sorted(rows["mean"]))
    assert len(rows) == 5


def test_models_of_the_paper_stay_out_of_figures_that_do_not_show_them() -> None:
    """The late switch at 40K would be a 95 % share of CLM; the paper shows it in Figure 7 only."""
    data = get_figure(6).collect(from_runs(FULL))
    assert "610m-clm-40k-mlm40-42k" not in set(data["model"])
    assert set(get_figure(8).collect(from_runs(FULL))["series"]) == {"MLM start", "CLM start"}


def test_names_outside_the_scheme_are_no_points() -> None:
    assert find_model("bert-base-uncased") is None
    assert find_model("4b-mlm15-42k") is not None
    assert [size_rank(size) for size in ("210m", "1.5b", "giant")] == [210e6, 1.5e9, float("inf")]


@pytest.mark.parametrize(
    ("name", "share"),
    [
        ("610m-clm-5k-mlm40-22k", 25), ("610m-clm-17k-mlm40-22k", 75), ("610m-clm-32k-mlm40-42k", 75),
        ("610m-clm-4k-mlm40-42k", 100 * 4 / 42), ("610m-clm-11k-mlm40-42k", 100 * 11 / 42),
        ("610m-clm-3k-mlm20-12k", None), ("610m-mlm40-42k", 0),
        ("610m-clm-dec42k-mlm40-64k", None),
    ],
)  # fmt: skip
def test_shares_of_clm_are_nominal_for_the_papers_splits(name: str, share: float | None) -> None:
    assert clm_share(parse(name)) == (None if share is None else pytest.approx(share, abs=1e-9))


def test_the_order_of_runs_does_not_matter() -> None:
    shuffled = from_runs(FULL.sample(frac=1, random_state=3).reset_index(drop=True))
    assert shuffled.name == from_runs(FULL).name
    figure = get_figure(6)
    one, two = figure.collect(shuffled), figure.collect(from_runs(FULL))
    assert one.drop(columns=["mean", "low", "high"]).equals(two.drop(columns=["mean", "low", "high"]))
    assert one["mean"].to_numpy() == pytest.approx(two["mean"].to_numpy())


def test_collect_without_any_point_may_be_asked_to_be_quiet() -> None:
    inputs = from_runs(made_up_runs(["1b-clm-42k"]))
    assert collect(6, lambda _: None, inputs, required=False).empty


@pytest.mark.parametrize("number", [1, 8, 9])
def test_an_own_base_that_nothing_continues_is_no_figure_of_its_own(number: int) -> None:
    with pytest.raises(UserError, match=f"Figure {number} cannot be drawn from "):
        get_figure(number).collect(from_runs(made_up_runs(["610m-mlm60-42k"])))
