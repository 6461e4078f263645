"""Where figures draw models, those of the paper and models of one's own."""

import pandas as pd
import pytest

from analysis.sources import PUBLISHED
from common.errors import UserError
from paper_figures.figure import FigureInputs
from paper_figures.figures import figures2_11
from paper_figures.figures.figure1 import position_by_share
from paper_figures.figures.figures2_11 import (
    clm_share,
    objective_series,
    training_flops,
)
from paper_figures.figures.task_figures import size_rank
from paper_figures.words import alt_text, caption
from pretraining.models import OBJECTIVES, Objective
from pretraining.paper_models import find_model, parse
from tests.paper_figures.made_up import (
    ALL_MODELS,
    STEP_FLOPS,
    from_runs,
    made_up_runs,
    paper_figure,
)

OWN: dict[tuple[int, str], tuple[str, float | str]] = {
    (3, "610m-mlm60-42k"): ("610M", 60.0),
    (3, "2b-mlm40-42k"): ("2B", 40.0),
    (2, "2b-mlm40-42k"): ("MLM", "2B"),
    (4, "610m-mlm40-42k-30000"): ("MLM", 30.0),
    (2, "toy-s-clm-60-mlm25-120"): ("toy-s-clm-60-mlm25-120", "TOY-S"),
    (2, "bert-base-uncased"): ("bert-base-uncased", "Others"),
    (3, "toy-s-mlm15-120"): ("TOY-S, 120 steps", 15.0),
    (4, "my-2b-clm-42k-500"): ("MY-2B CLM", 0.5),
    (6, "610m-clm-8k-mlm40-32k"): ("32K steps", 25.0),
    (6, "610m-clm-21k-mlm15-42k"): ("MLM 15 %, 42K steps", 50.0),
    (6, "toy-s-clm-60-mlm25-120"): ("TOY-S, MLM 25 %, 120 steps", 50.0),
    (6, "610m-mlm40to15-42k"): ("MLM 40 to 15 %, 42K steps", 0.0),
    (6, "610m-clm-21k-mlm50to40-42k"): ("MLM 50 to 40 %, 42K steps", 50.0),
    (6, "610m-clm-11k-mlm40-22k-clm-44k"): ("CLM + MLM 40 % + CLM, 44K steps", 75.0),
    (6, "610m-mlm40-11k-clm-22k-mlm40-44k"): (
        "MLM 40 % + CLM + MLM 40 %, 44K steps",
        25.0,
    ),
    (11, "1b-clm-21k-mlm40to15-42k"): ("1B, MLM 40 to 15 %", 50.0),
    (2, "610m-mlm50to40-42k"): ("610m-mlm50to40-42k", "610M"),
    (8, "610m-mlm20-dec42k-mlm40-64k"): ("MLM 20 % start", "CPT"),
    (8, "610m-mlm20-42k"): ("MLM 20 % start", "Base"),
    (8, "2b-clm-dec42k-mlm40-64k"): ("2B CLM start", "CPT"),
    (9, "610m-mlm20-dec42k-mlm40-64k"): ("MLM 20 % start", 22.0),
    (11, "1b-clm-21k-mlm40-42k"): ("1B", 50.0),
    (11, "2b-clm-42k"): ("2B", 100.0),
}
"""By figure and model: series and x. The paper's own are in `test_published`."""
ELSEWHERE = {
    figures2_11.by_size: "610m-clm-42k-1000",
    figures2_11.by_ratio: "610m-clm-42k 610m-clm-40k-mlm20-42k 610m-mlm40to15-42k",
    figures2_11.by_steps: "610m-mlm40-42k",
    figures2_11.at_610m: "610m-clm-dec42k-mlm40-64k 610m-mlm40-21k-mlm20-42k",
    figures2_11.at_1b: "1b-clm-42k-1000",
    figures2_11.before_and_after: "610m-clm-dec42k-mlm40-54k 610m-clm-dec42k-mlm20-64k "
    "610m-clm-dec42k-mlm40to20-64k",
    figures2_11.by_length: "610m-clm-22k 610m-clm-10k-mlm40-42k",
    position_by_share: "610m-clm-3k-mlm40-12k",
}


def test_a_figure_does_not_place_models_of_others() -> None:
    for rule, names in ELSEWHERE.items():
        assert [name for name in names.split() if rule(parse(name)) is not None] == []


@pytest.fixture(scope="module")
def all_models() -> FigureInputs:
    return from_runs(made_up_runs((*ALL_MODELS, *(name for _, name in OWN))))


@pytest.mark.parametrize(("number", "model"), OWN)
def test_own_models_take_their_place(
    number: int, model: str, all_models: FigureInputs
) -> None:
    data = paper_figure(number).collect(all_models)
    rows = data[data["model"] == model]
    assert len(rows) == 4
    assert set(zip(rows["series"], rows["x"], strict=True)) == {OWN[number, model]}


def test_flops_grow_with_steps_alone() -> None:
    one, two = (
        training_flops(parse(f"610m-{objective}-42k-1000"))
        for objective in ("clm", "mlm40")
    )
    assert one == two == pytest.approx(1000 * STEP_FLOPS)
    assert training_flops(parse("610m-clm-42k-2000")) == 2 * one


@pytest.mark.parametrize(
    ("name", "share"),
    [
        ("610m-clm-5k-mlm40-22k", 25),
        ("610m-clm-17k-mlm40-22k", 75),
        ("610m-clm-32k-mlm40-42k", 75),
        ("610m-clm-4k-mlm40-42k", 100 * 4 / 42),
        ("610m-clm-11k-mlm40-42k", 100 * 11 / 42),
        ("610m-clm-3k-mlm20-12k", 25),
        ("610m-mlm40-42k", 0),
        ("610m-clm-dec42k-mlm40-64k", None),
    ],
)
def test_shares_of_clm_are_nominal_for_the_papers_splits(
    name: str, share: float | None
) -> None:
    assert clm_share(parse(name)) == (
        None if share is None else pytest.approx(share, abs=1e-9)
    )


def test_own_models_stand_among_printed_points() -> None:
    own, figure = "toy-s-clm-60-mlm25-120", paper_figure(6)
    inputs = from_runs(made_up_runs([own, "610m-mlm40-42k"]))
    data, printed = (
        figure.collect(inputs),
        figure.collect(FigureInputs(source=PUBLISHED)),
    )
    assert dict(zip(data["model"], data["source"], strict=True)) == {
        name: inputs.source.name if name in (own, "610m-mlm40-42k") else "published"
        for name in (*figure.models, own)
    }
    columns = ["panel", "model", "mean", "low", "high", "n_seeds"]
    same, there = (
        rows[rows["model"].isin({*printed["model"]} - {"610m-mlm40-42k"})][
            columns
        ].reset_index(drop=True)
        for rows in (data, printed)
    )
    pd.testing.assert_frame_equal(same, there)
    assert "(720 runs of 2 models)" in alt_text(figure, data, inputs)
    assert "published Tables 10\u201313" in alt_text(figure, data, inputs)
    assert own in caption(figure, data, inputs)


@pytest.mark.parametrize(
    ("number", "model"),
    [
        (8, "610m-mlm60-42k"),
        (9, "610m-mlm60-42k"),
        (1, "toy-s-clm-60-mlm25-120"),
        (3, "toy-s-clm-60-mlm25-120"),
        (4, "bert-base-uncased"),
        (10, "toy-s-clm-42k-1000"),
    ],
)
def test_an_own_model_without_a_place_is_no_figure_of_its_own(
    number: int, model: str
) -> None:
    with pytest.raises(UserError, match=rf"Figure {number} \(.+\) cannot show {model}"):
        paper_figure(number).collect(from_runs(made_up_runs([model])))


def test_an_own_model_without_a_task_average_is_named() -> None:
    runs = made_up_runs(["mine"])
    with pytest.raises(
        UserError,
        match=r"it has no task average of mine; an average needs all three datasets of a task",
    ):
        paper_figure(2).collect(from_runs(runs[runs["dataset"] == "sst2"]))


def test_a_made_up_objective_is_named_as_it_is_called() -> None:
    OBJECTIVES.register(Objective(name="rtd", has_ratio=True, prepare="made.up:rtd"))
    try:
        names = (
            "610m-rtd20-42k",
            "610m-rtd40-42k",
            "1b-rtd20-42k",
            "610m-mlm20-42k",
            "610m-clm-42k",
        )
        series = [objective_series(parse(name)) for name in names]
        assert figures2_11.by_ratio(parse("610m-rtd20-42k")) is None
    finally:
        OBJECTIVES.pop("rtd")
    assert series == ["RTD 20 %", "RTD", "1B RTD 20 %", "MLM 20 %", "CLM"]


def test_names_outside_the_scheme_are_no_points() -> None:
    assert find_model("bert-base-uncased") is None
    assert find_model("4b-mlm15-42k") is not None and find_model("4b-mlm15-42z") is None
    assert find_model("my-own-study.s-mlm15-42k").size == "my-own-study.s"  # type: ignore[union-attr]
    assert [size_rank(size) for size in ("210m", "1.5b", "giant")] == [
        210e6,
        1.5e9,
        float("inf"),
    ]
