"""Where figures draw models, those of the paper and models of one's own."""

from __future__ import annotations

import pytest

from common.errors import UserError
from paper_figures.drawing.style import paper_style
from paper_figures.drawing.x_positions import clm_share, objective_series
from paper_figures.figures import figure03
from paper_figures.output.captions import caption
from pretraining.model_names import OBJECTIVES, ObjectiveName, parse
from tests.paper_figures.made_up import ALL_MODELS, from_runs, made_up_runs, paper_figure

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
    figure, inputs = paper_figure(number), from_runs(made_up_runs((*ALL_MODELS, *OWN)))
    data = figure.collect(inputs)
    rows = data[data["model"] == model]
    assert len(rows) == 4
    assert set(rows["series"]) == {series}
    assert set(rows["x"]) == {x}
    with paper_style():
        figure.draw(data, caption(figure, data, inputs))


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
