"""Where figures draw models, those of the paper and models of one's own."""

from __future__ import annotations

import pytest

from common.errors import UserError
from paper_figures.figures import continued, figure03, objective, two_stage
from paper_figures.figures.objective import training_flops
from paper_figures.figures.overview import position_by_share
from paper_figures.positions import clm_share, objective_series, size_rank
from paper_figures.task_figures import find_model
from pretraining.model_names import OBJECTIVES, ObjectiveName, parse
from tests.paper_figures.made_up import ALL_MODELS, STEP_FLOPS, from_runs, made_up_runs, paper_figure

OWN = (
    "610m-mlm60-42k", "2b-mlm40-42k", "610m-mlm40-42k-30000", "610m-clm-8k-mlm40-32k", "610m-mlm20-dec42k-mlm40-64k",
    "1b-clm-21k-mlm40-42k",
)  # fmt: skip
RULES = {
    2: objective.by_size, 3: figure03.position, 4: objective.by_steps, 6: two_stage.at_610m,
    8: continued.before_and_after, 9: continued.by_length,
}  # fmt: skip
OF_PAPER: dict[int, dict[str, tuple[str, float | str] | None]] = {
    2: {
        "610m-mlm40-42k": ("MLM", "610M"), "1b-clm-42k": ("CLM", "1B"), "610m-mlm30-42k": None,
        "610m-mlm40-22k": None, "610m-clm-10k-mlm40-42k": None, "610m-clm-42k-1000": None,
    },
    3: {
        "610m-mlm20-42k": ("610M", 20.0), "210m-mlm50-42k": ("210M", 50.0), "610m-mlm40-22k": None,
        "610m-clm-42k": None, "610m-clm-40k-mlm20-42k": None,
    },
    4: {
        "610m-mlm40-42k-1000": ("MLM", 1.0), "610m-clm-42k-40000": ("CLM", 40.0),
        "610m-mlm20-42k-5000": ("MLM 20 %", 5.0), "1b-clm-42k-5000": ("1B CLM", 5.0), "610m-mlm40-42k": None,
    },
    6: {
        "610m-clm-3k-mlm40-12k": ("12K steps", 25.0), "610m-mlm40-22k": ("22K steps", 0.0),
        "610m-clm-42k": ("42K steps", 100.0), "1b-clm-42k": None, "610m-clm-dec42k-mlm40-64k": None,
        "610m-clm-10k-mlm20-42k": None,
    },
    8: {
        "610m-mlm40-42k": ("MLM start", "Base"), "610m-clm-dec42k-mlm40-64k": ("CLM start", "CPT"),
        "610m-clm-dec42k-mlm40-54k": None, "1b-clm-42k": None, "610m-clm-dec42k-mlm20-64k": None,
    },
    9: {
        "610m-mlm40-42k": ("MLM start", 0.0), "610m-clm-dec42k-mlm40-44k": ("CLM start", 2.0),
        "610m-clm-dec42k-mlm40-64k": ("CLM start", 22.0), "1b-clm-42k": None, "610m-clm-10k-mlm40-42k": None,
    },
}  # fmt: skip
"""By figure and model: series and x."""


@pytest.mark.parametrize("number", OF_PAPER)
def test_a_figure_places_its_models_and_no_others(number: int) -> None:
    found = {name: RULES[number](parse(name)) for name in OF_PAPER[number]}
    assert {name: at and (at.series, at.x) for name, at in found.items()} == OF_PAPER[number]


def test_the_line_of_figure_1_is_the_full_budget_of_figure_6() -> None:
    there = position_by_share(parse("610m-clm-10k-mlm40-42k"))
    assert there is not None and (there.series, there.x) == ("42K steps", 25.0)
    assert position_by_share(parse("610m-clm-3k-mlm40-12k")) is None


def test_flops_grow_with_steps_alone() -> None:
    one, two = (training_flops(parse(f"610m-{objective}-42k-1000")) for objective in ("clm", "mlm40"))
    assert one == two == pytest.approx(1000 * STEP_FLOPS)
    assert training_flops(parse("610m-clm-42k-2000")) == 2 * one


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
    data = paper_figure(number).collect(from_runs(made_up_runs((*ALL_MODELS, *OWN))))
    rows = data[data["model"] == model]
    assert len(rows) == 4
    assert set(rows["series"]) == {series}
    assert set(rows["x"]) == {x}


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


@pytest.mark.parametrize("number", [1, 8, 9])
def test_an_own_base_that_nothing_continues_is_no_figure_of_its_own(number: int) -> None:
    with pytest.raises(UserError, match=f"Figure {number} cannot be drawn from "):
        paper_figure(number).collect(from_runs(made_up_runs(["610m-mlm60-42k"])))


def test_a_made_up_objective_is_named_as_it_is_called() -> None:
    OBJECTIVES.register(ObjectiveName(name="rtd", has_ratio=True))
    try:
        names = ("610m-rtd20-42k", "610m-rtd40-42k", "1b-rtd20-42k", "610m-mlm20-42k", "610m-clm-42k")
        series = [objective_series(parse(name)) for name in names]
        assert figure03.position(parse("610m-rtd20-42k")) is None
    finally:
        OBJECTIVES.pop("rtd")
    assert series == ["RTD 20 %", "RTD", "1B RTD 20 %", "MLM 20 %", "CLM"]


def test_names_outside_the_scheme_are_no_points() -> None:
    assert find_model("bert-base-uncased") is None
    assert find_model("4b-mlm15-42k") is not None
    assert [size_rank(size) for size in ("210m", "1.5b", "giant")] == [210e6, 1.5e9, float("inf")]
