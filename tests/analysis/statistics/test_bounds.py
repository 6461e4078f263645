"""Intervals against closed forms, scipy and statsmodels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.weightstats import DescrStatsW

from analysis.statistics import bounds
from analysis.statistics.bounds import Bounds
from analysis.statistics.instance_bootstrap import resample_instances
from analysis.statistics.intervals import INTERVALS, Sample
from analysis.statistics.resampling import (
    Resamples,
    all_or_drawn,
    draw_picks,
    every_resample,
    resampled_means,
)

CELLS = np.random.default_rng(7).normal(85, 2, size=(20, 5))


def percentile(values: np.ndarray, resamples: Resamples) -> Bounds:
    return bounds.percentile_bounds(resampled_means(values, resamples.picks), resamples)


def bca(values: np.ndarray, resamples: Resamples) -> Bounds:
    return bounds.bca_bounds(values, resampled_means(values, resamples.picks), resamples)


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


@pytest.mark.parametrize(("name", "method"), [("percentile", percentile), ("BCa", bca)])
@pytest.mark.parametrize("count", [5, 12, 40])
def test_bootstraps_equal_scipy_within_resampling_error(name, method, count) -> None:
    values = np.random.default_rng(count).gamma(2.0, size=count)
    drawn = all_or_drawn(count, lambda seeds: draw_picks(seeds, 60_000, np.random.default_rng(0)))
    low, high = method(values, drawn)
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
    low, high = percentile(values, every_resample(5))
    assert [low, high] == pytest.approx(np.quantile(values[every].mean(axis=1), [0.025, 0.975]).tolist())


def test_bca_of_the_released_cell_is_that_of_all_its_resamples() -> None:
    """Drawn resamples gave a low end of 90.711, 90.619 and 90.711 with the generator's seeds 1, 2 and 3."""
    values = np.array([801, 797, 798, 793, 797]) * 100 / 872
    every = np.stack(np.meshgrid(*[np.arange(5)] * 5), axis=-1).reshape(-1, 5)
    listed = Resamples(picks=every, counts=np.ones(len(every), dtype=np.int64))
    assert np.array(bca(values, every_resample(5))) == pytest.approx(np.array(bca(values, listed)), abs=1e-9)


@pytest.mark.parametrize("count", [5, 12, 40])
def test_the_expanded_interval_cuts_off_less_by_hesterbergs_formula(count: int) -> None:
    tail = stats.norm.cdf(-np.sqrt(count / (count - 1)) * stats.t.ppf(0.975, count - 1))
    assert bounds.expanded_tail(count) == pytest.approx(tail)
    values = np.random.default_rng(1).normal(size=count)
    drawn = all_or_drawn(count, lambda seeds: draw_picks(seeds, 20_000, np.random.default_rng(0)))
    means = resampled_means(values, drawn.picks)
    low, high = bounds.percentile_bounds(means, drawn, bounds.expanded_tail(count))
    expected = np.quantile(np.repeat(means, drawn.counts), [tail, 1 - tail])
    assert [low, high] == pytest.approx(expected.tolist())


@given(st.lists(st.floats(0, 100), min_size=5, max_size=5), st.floats(-50, 50))
def test_adding_a_constant_shifts_every_interval(cell: list[float], shift: float) -> None:
    values = np.array(cell)
    for method in (bounds.normal_bounds, bounds.t_bounds):
        assert np.allclose(np.array(method(values + shift)), np.array(method(values)) + shift, atol=1e-9)
    moved = np.array(percentile(values + shift, every_resample(5)))
    assert np.allclose(moved, np.array(percentile(values, every_resample(5))) + shift, atol=1e-9)


def test_one_seed_has_no_interval() -> None:
    one = np.array([[80.0]])
    for interval in INTERVALS.values():
        if not interval.needs_instances:
            ends = interval.bounds(
                Sample(values=one, pick=lambda seeds: np.zeros((100, seeds), dtype=np.int64))
            )
            assert np.isnan(np.array(ends)).all()


def test_equal_seeds_have_an_interval_of_no_width() -> None:
    same = np.full(5, 71.5)
    for method in (percentile, bca):
        assert np.array(method(same, every_resample(5))).tolist() == [71.5, 71.5]


def test_cells_do_not_depend_on_their_neighbours() -> None:
    for method in (percentile, bca):
        together = np.array(method(CELLS, every_resample(5)))
        alone = np.array([method(cell, every_resample(5)) for cell in CELLS]).T
        assert (together == alone).all()


def test_hierarchical_interval_is_wider_than_either_part() -> None:
    rng = np.random.default_rng(3)
    skill = rng.normal(0.8, 0.01, size=5)
    scores = (rng.random((5, 500)) < skill[:, None]).astype(float)
    resampled = resample_instances(scores, 4_000, np.random.default_rng(0))
    picks = draw_picks(5, 4_000, np.random.default_rng(1))
    both = np.ptp(bounds.hierarchical_bounds(resampled, picks))
    seeds = np.ptp(percentile(scores.mean(axis=1), every_resample(5)))
    instances = np.ptp(np.quantile(resampled.mean(axis=1), [0.025, 0.975]))
    assert both > seeds
    assert both > instances


def test_bca_of_values_that_differ_by_rounding_alone_is_their_value() -> None:
    values = np.array([[50.0, np.nextafter(50.0, 51.0)]])
    low, high = bca(values, every_resample(2))
    assert low == pytest.approx(50.0) and high == pytest.approx(50.0)
