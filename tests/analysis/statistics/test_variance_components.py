"""Variance components against scipy's analysis of variance, closed forms, and their coverage."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from analysis.statistics.variance_components import variance_components


def test_f_and_p_are_those_of_the_analysis_of_variance() -> None:
    values = np.random.default_rng(0).normal(0, 1, (5, 4)) + np.arange(5)[:, None]
    found = variance_components(values)
    expected = stats.f_oneway(*values)
    assert (found.f, found.p) == pytest.approx((expected.statistic, expected.pvalue))
    assert found.within == pytest.approx(np.mean([row.var(ddof=1) for row in values]))
    assert found.between == pytest.approx(values.mean(axis=1).var(ddof=1) - found.within / 4)


def test_the_ends_of_the_ratio_are_where_f_is_at_its_quantiles() -> None:
    values = np.random.default_rng(1).normal(0, 1, (5, 3)) + 3 * np.arange(5)[:, None]
    found = variance_components(values)
    for end, tail in ((found.ratio_low, 0.975), (found.ratio_high, 0.025)):
        assert stats.f.cdf(found.f / (1 + 3 * end), 4, 10) == pytest.approx(tail)


@pytest.mark.parametrize("ratio", [0.0, 0.5, 4.0])
def test_the_interval_holds_the_ratio_in_95_of_100(ratio: float) -> None:
    rng = np.random.default_rng(2)
    held = 0
    for _ in range(2_000):
        values = rng.normal(0, np.sqrt(ratio), (5, 1)) + rng.normal(0, 1, (5, 5))
        found = variance_components(values)
        held += found.ratio_low <= ratio <= found.ratio_high
    # At 0 the lower end is cut off there, so that only the upper one can miss.
    assert held / 2_000 == pytest.approx(0.95 if ratio else 0.975, abs=0.015)


@given(st.floats(0.1, 10), st.floats(-50, 50))
def test_the_ratio_does_not_depend_on_unit_or_level(scale: float, shift: float) -> None:
    values = np.array([[1.0, 2.0, 4.0], [2.0, 3.5, 3.0], [5.0, 4.0, 7.0]])
    moved = variance_components(scale * values + shift)
    base = variance_components(values)
    assert (moved.ratio, moved.ratio_high) == pytest.approx((base.ratio, base.ratio_high), rel=1e-6)


def test_groups_without_differences_have_ratio_0_and_what_cannot_be_split_is_refused() -> None:
    alike = np.array([[1.0, 3.0], [3.0, 1.0], [2.0, 2.0]])
    found = variance_components(alike)
    assert found.ratio == 0 and found.between < 0 and found.p == pytest.approx(1.0)
    for values in (np.ones((1, 5)), np.ones((5, 1)), np.array([[1.0, np.nan], [1.0, 2.0]])):
        with pytest.raises(ValueError, match="two groups"):
            variance_components(values)
