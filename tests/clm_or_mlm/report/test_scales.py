"""Axes: ends at 0 and 1, round ticks inside, order kept."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clm_or_mlm.report.scales import Scale, linear, logarithmic, near_zero, number

ENDS = st.floats(-1e5, 1e5, allow_nan=False)


@given(ENDS, st.floats(1e-3, 1e5))
def test_a_linear_axis_has_a_few_round_ticks_inside(low: float, span: float) -> None:
    scale = linear(low, low + span)
    assert scale.at(scale.low) == pytest.approx(0) and scale.at(scale.high) == pytest.approx(1)
    assert 1 <= len(scale.ticks) <= 7
    slack = 1e-6 * max(span, abs(low))
    assert all(scale.low - slack <= tick <= scale.high + slack for tick in scale.ticks)
    steps = {round(b - a, 6) for a, b in zip(scale.ticks, scale.ticks[1:], strict=False)}
    assert max(steps, default=0) - min(steps, default=0) <= slack


@given(st.floats(1e-3, 1e3), st.floats(1.01, 1e3))
def test_a_logarithmic_axis_is_linear_in_the_logarithm(low: float, ratio: float) -> None:
    scale = logarithmic(low, low * ratio)
    assert scale.at(low * math.sqrt(ratio)) == pytest.approx(0.5)
    assert all(low * 0.99 <= tick <= low * ratio * 1.01 for tick in scale.ticks)


@given(st.floats(1, 100), st.floats(0, 1))
def test_the_axis_around_zero_is_odd(reach: float, share: float) -> None:
    scale = near_zero(reach)
    assert scale.at(0) == pytest.approx(0.5)
    assert scale.at(share * reach) + scale.at(-share * reach) == pytest.approx(1)
    assert 0.0 in scale.ticks


def test_an_empty_range_is_widened_and_outliers_are_put_at_the_ends() -> None:
    scale = linear(3, 3)
    assert isinstance(scale, Scale) and scale.low < 3 < scale.high
    assert (scale.inside(-9), scale.inside(9)) == (scale.low, scale.high)


@pytest.mark.parametrize(
    ("value", "text"), [(40.0, "40"), (92.5, "92.5"), (-1.0, "\u22121"), (0.1 + 0.2, "0.3")]
)
def test_ticks_have_the_digits_they_need(value: float, text: str) -> None:
    assert number(value) == text
