"""Hours of training: measured sizes, one of them left out; published bounds for small ones."""

from __future__ import annotations

import pytest

from pretraining.paper_settings import SHAPES, Shape
from pretraining.plan.devices import DEVICES
from pretraining.plan.flops import model_flops_per_token
from pretraining.plan.speed import H100, MEASURED, Speed, reached


@pytest.mark.parametrize("size", MEASURED)
def test_a_measured_size_that_is_left_out_is_met_within_15_percent(size: str) -> None:
    counted = H100.tokens_per_second(SHAPES[size], predicted=0.4) / reached("H100")
    assert MEASURED[size] / (counted * reached("H100", size)) == pytest.approx(1, abs=0.15)
    assert H100.tokens_per_second(SHAPES[size], predicted=0.4) == pytest.approx(MEASURED[size], rel=0.05)


@pytest.mark.parametrize(
    ("hidden", "layers", "least", "most"), [(512, 16, 1.3, 1.5), (512, 12, 1.3, 1.5), (256, 5, 1.7, 2.0)]
)
def test_small_networks_take_longer_than_at_40_percent(
    hidden: int, layers: int, least: float, most: float
) -> None:
    """Bodies of 67, 50 and 5 million parameters: 1.4 to 1.5 and 1.85 to 1.97 times as long, by a count of shapes."""
    heads = hidden // 64
    shape = Shape(hidden=hidden, layers=layers, heads=heads, kv_heads=heads, mlp=4 * hidden, vocab=32_768)
    flops = model_flops_per_token(shape, predicted=0.4)
    speed = H100.tokens_per_second(shape, predicted=0.4, pass_tokens=98_304)  # more is not bound by the host
    assert least < 0.4 / (speed * flops / 989.4e12) < most


def test_clm_costs_more_than_mlm_and_a_given_share_is_kept() -> None:
    shape = SHAPES["210m"]
    mlm, clm = (H100.tokens_per_second(shape, predicted=share) for share in (0.4, 1.0))
    assert 1.13 < mlm / clm < 1.45
    given = Speed(device=DEVICES["L40S"], mfu=0.25).tokens_per_second(shape, predicted=0.4)
    assert given * model_flops_per_token(shape, predicted=0.4) == pytest.approx(0.25 * 362.05e12)


def test_short_passes_are_bound_by_the_host() -> None:
    tiny = Shape(hidden=64, layers=4, heads=2, kv_heads=2, mlp=192, vocab=512)
    one, other = (H100.tokens_per_second(tiny, predicted=0.4, pass_tokens=size) for size in (1_000, 2_000))
    assert other == pytest.approx(2 * one)


def test_the_papers_device_is_as_fast_as_the_paper_says() -> None:
    """81,000 hours for 15 base models of 42,000 steps: 11.6 % of the peak by the published FLOPs."""
    speed = Speed(device=DEVICES["MI250X"])
    hours = sum(
        42_000 * 2_373_120 / speed.tokens_per_second(SHAPES[size], predicted=share) / 3_600
        for size in SHAPES
        for share in (0.2, 0.3, 0.4, 0.5, 1.0)
    )
    assert hours == pytest.approx(81_000)
