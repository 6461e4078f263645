"""Where figures draw models, those of the paper and models of one's own."""

from __future__ import annotations

import pytest

from common.errors import UserError
from paper_figures.figures import averages
from paper_figures.figures.averages import clm_share, objective_series, training_flops
from paper_figures.figures.overview import position_by_share
from paper_figures.figures.task_figures import find_model, size_rank
from pretraining.model_names import OBJECTIVES, ObjectiveName, parse
from tests.paper_figures.made_up import ALL_MODELS, STEP_FLOPS, from_runs, made_up_runs, paper_figure

OWN: dict[tuple[int, str], tuple[str, float | str]] = {
    (3, "610m-mlm60-42k"): ("610M", 60.0),
    (3, "2b-mlm40-42k"): ("2B", 40.0),
    (2, "2b-mlm40-42k"): ("MLM", "2B"),
    (4, "610m-mlm40-42k-30000"): ("MLM", 30.0),
    (6, "610m-clm-8k-mlm40-32k"): ("32K steps", 25.0),
    (8, "610m-mlm20-dec42k-mlm40-64k"): ("MLM 20 % start", "CPT"),
    (8, "610m-mlm20-42k"): ("MLM 20 % start", "Base"),
    (9, "610m-mlm20-dec42k-mlm40-64k"): ("MLM 20 % start", 22.0),
    (11, "1b-clm-21k-mlm40-42k"): ("1B", 50.0),
}
"""By figure and model: series and x. The paper's own are in `test_published`."""
ELSEWHERE = {
    averages.by_size: "610m-mlm30-42k 610m-mlm40-22k 610m-clm-10k-mlm40-42k 610m-clm-42k-1000",
    averages.by_ratio: "610m-mlm40-22k 610m-clm-42k 610m-clm-40k-mlm20-42k",
    averages.by_steps: "610m-mlm40-42k",
    averages.at_610m: "1b-clm-42k 610m-clm-dec42k-mlm40-64k 610m-clm-10k-mlm20-42k",
    averages.at_1b: "610m-clm-42k 1b-clm-42k-1000",
    averages.before_and_after: "610m-clm-dec42k-mlm40-54k 1b-clm-42k 610m-clm-dec42k-mlm20-64k",
    averages.by_length: "1b-clm-42k 610m-clm-10k-mlm40-42k",
    position_by_share: "610m-clm-3k-mlm40-12k",
}


def test_a_figure_does_not_place_models_of_others() -> None:
    for rule, names in ELSEWHERE.items():
        assert [name for name in names.split() if rule(parse(name)) is not None] == []


@pytest.mark.parametrize(("number", "model"), OWN)
def test_own_models_take_their_place(number: int, model: str) -> None:
    data = paper_figure(number).collect(from_runs(made_up_runs((*ALL_MODELS, *(name for _, name in OWN)))))
    rows = data[data["model"] == model]
    assert len(rows) == 4
    assert set(zip(rows["series"], rows["x"], strict=True)) == {OWN[number, model]}


def test_flops_grow_with_steps_alone() -> None:
    one, two = (training_flops(parse(f"610m-{objective}-42k-1000")) for objective in ("clm", "mlm40"))
    assert one == two == pytest.approx(1000 * STEP_FLOPS)
    assert training_flops(parse("610m-clm-42k-2000")) == 2 * one


@pytest.mark.parametrize(
    ("name", "share"),
    [
        ("610m-clm-5k-mlm40-22k", 25), ("610m-clm-17k-mlm40-22k", 75), ("610m-clm-32k-mlm40-42k", 75),
        ("610m-clm-4k-mlm40-42k", 100 * 4 / 42), ("610m-clm-11k-mlm40-42k", 100 * 11 / 42),
        ("610m-clm-3k-mlm20-12k", None), ("610m-mlm40-42k", 0), ("610m-clm-dec42k-mlm40-64k", None),
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
        assert averages.by_ratio(parse("610m-rtd20-42k")) is None
    finally:
        OBJECTIVES.pop("rtd")
    assert series == ["RTD 20 %", "RTD", "1B RTD 20 %", "MLM 20 %", "CLM"]


def test_names_outside_the_scheme_are_no_points() -> None:
    assert find_model("bert-base-uncased") is None
    assert find_model("4b-mlm15-42k") is not None
    assert [size_rank(size) for size in ("210m", "1.5b", "giant")] == [210e6, 1.5e9, float("inf")]
