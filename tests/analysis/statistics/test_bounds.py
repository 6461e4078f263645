"""Intervals against closed forms, scipy and statsmodels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.weightstats import DescrStatsW

from analysis.statistics import bounds
from analysis.statistics.instance_bootstrap import resample_instances

CELLS = np.random.default_rng(7).normal(85, 2, size=(20, 5))


def test_paper_interval_is_its_formula() -> None:
    low, high = bounds.normal_bounds(CELLS)
    for cell, lowest, highest in zip(CELLS, low, high, strict=True):
        mean = sum(cell) / 5
        sd = (sum((value - mean) ** 2 for value in cell) / 4) ** 0.5
        assert lowest == pytest.approx(mean - 1.96 * sd / 5**0.5)
        assert highest == pytest.approx(mean + 1.96 * sd / 5**0.5)


def test_t_interval_equals_statsmodels() -> None:
    low, high = bounds.t_bounds(CELLS)
    for cell, ends in zip(CELLS, zip(low, high, strict=True), strict=True):
        assert ends == pytest.approx(DescrStatsW(cell).tconfint_mean(0.05))


@pytest.mark.parametrize(
    ("name", "method"), [("percentile", bounds.percentile_bounds), ("BCa", bounds.bca_bounds)]
)
@pytest.mark.parametrize("count", [5, 12, 40])
def test_bootstraps_equal_scipy_within_resampling_error(name, method, count) -> None:
    values = np.random.default_rng(count).gamma(2.0, size=count)
    picks = bounds.resample_seeds(count, 60_000, np.random.default_rng(0))
    low, high = method(values, picks)
    theirs = stats.bootstrap(
        (values,), np.mean, method=name, n_resamples=60_000, rng=np.random.default_rng(1)
    )
    width = theirs.confidence_interval.high - theirs.confidence_interval.low
    assert float(low) == pytest.approx(theirs.confidence_interval.low, abs=0.03 * width)
    assert float(high) == pytest.approx(theirs.confidence_interval.high, abs=0.03 * width)


def test_percentile_interval_of_five_seeds_equals_full_enumeration() -> None:
    """All 5^5 resamples of five values are few enough to list."""
    values = CELLS[0]
    every = np.stack(np.meshgrid(*[np.arange(5)] * 5), axis=-1).reshape(-1, 5)
    low, high = bounds.percentile_bounds(values, every)
    assert [low, high] == pytest.approx(np.quantile(values[every].mean(axis=1), [0.025, 0.975]).tolist())


@given(st.lists(st.floats(0, 100), min_size=5, max_size=5), st.floats(-50, 50))
def test_adding_a_constant_shifts_every_interval(cell: list[float], shift: float) -> None:
    values = np.array(cell)
    picks = bounds.resample_seeds(5, 200, np.random.default_rng(3))
    for method in (bounds.normal_bounds, bounds.t_bounds):
        assert np.allclose(np.array(method(values + shift)), np.array(method(values)) + shift, atol=1e-9)
    moved = np.array(bounds.percentile_bounds(values + shift, picks))
    assert np.allclose(moved, np.array(bounds.percentile_bounds(values, picks)) + shift, atol=1e-9)


def test_one_seed_has_no_interval() -> None:
    one = np.array([[80.0]])
    picks = bounds.resample_seeds(1, 100, np.random.default_rng(0))
    for ends in (
        bounds.normal_bounds(one),
        bounds.t_bounds(one),
        bounds.percentile_bounds(one, picks),
        bounds.bca_bounds(one, picks),
    ):
        assert np.isnan(np.array(ends)).all()


def test_equal_seeds_have_an_interval_of_no_width() -> None:
    same = np.full(5, 71.5)
    picks = bounds.resample_seeds(5, 500, np.random.default_rng(0))
    for method in (bounds.percentile_bounds, bounds.bca_bounds):
        assert np.array(method(same, picks)).tolist() == [71.5, 71.5]


def test_cells_do_not_depend_on_their_neighbours() -> None:
    picks = bounds.resample_seeds(5, 1000, np.random.default_rng(0))
    for method in (bounds.percentile_bounds, bounds.bca_bounds):
        together = np.array(method(CELLS, picks))
        alone = np.array([method(cell, picks) for cell in CELLS]).T
        assert (together == alone).all()


def test_hierarchical_interval_is_wider_than_either_part() -> None:
    rng = np.random.default_rng(3)
    skill = rng.normal(0.8, 0.01, size=5)
    scores = (rng.random((5, 500)) < skill[:, None]).astype(float)
    resampled = resample_instances(scores, 4_000, np.random.default_rng(0))
    picks = bounds.resample_seeds(5, 4_000, np.random.default_rng(1))
    both = np.ptp(bounds.hierarchical_bounds(resampled, picks))
    seeds = np.ptp(bounds.percentile_bounds(scores.mean(axis=1), picks))
    instances = np.ptp(np.quantile(resampled.mean(axis=1), [0.025, 0.975]))
    assert both > seeds
    assert both > instances


def test_bca_of_values_that_differ_by_rounding_alone_is_their_value() -> None:
    picks = bounds.resample_seeds(2, 1_000, np.random.default_rng(0))
    values = np.array([[50.0, np.nextafter(50.0, 51.0)]])
    low, high = bounds.bca_bounds(values, picks)
    assert low == pytest.approx(50.0) and high == pytest.approx(50.0)
