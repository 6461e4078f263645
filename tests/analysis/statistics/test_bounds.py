"""Intervals against closed forms, scipy and statsmodels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.weightstats import DescrStatsW

from analysis.statistics import intervals
from analysis.statistics.instance_bootstrap import resample_instances

CELLS = np.random.default_rng(7).normal(85, 2, size=(20, 5))


def test_paper_interval_is_its_formula() -> None:
    low, high = intervals.paper_interval(CELLS)
    for cell, lowest, highest in zip(CELLS, low, high, strict=True):
        mean = sum(cell) / 5
        sd = (sum((value - mean) ** 2 for value in cell) / 4) ** 0.5
        assert lowest == pytest.approx(mean - 1.96 * sd / 5**0.5)
        assert highest == pytest.approx(mean + 1.96 * sd / 5**0.5)


def test_t_interval_equals_statsmodels() -> None:
    low, high = intervals.t_interval(CELLS)
    for cell, bounds in zip(CELLS, zip(low, high, strict=True), strict=True):
        assert bounds == pytest.approx(DescrStatsW(cell).tconfint_mean(0.05))


@pytest.mark.parametrize(
    ("name", "method"), [("percentile", intervals.percentile_interval), ("BCa", intervals.bca_interval)]
)
@pytest.mark.parametrize("count", [5, 12, 40])
def test_bootstraps_equal_scipy_within_resampling_error(name, method, count) -> None:
    values = np.random.default_rng(count).gamma(2.0, size=count)
    picks = intervals.resample_seeds(count, 60_000, np.random.default_rng(0))
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
    low, high = intervals.percentile_interval(values, every)
    assert [low, high] == pytest.approx(np.quantile(values[every].mean(axis=1), [0.025, 0.975]).tolist())


@given(st.lists(st.floats(0, 100), min_size=5, max_size=5), st.floats(-50, 50))
def test_adding_a_constant_shifts_every_interval(cell: list[float], shift: float) -> None:
    values = np.array(cell)
    picks = intervals.resample_seeds(5, 200, np.random.default_rng(3))
    for method in (intervals.paper_interval, intervals.t_interval):
        assert np.allclose(np.array(method(values + shift)), np.array(method(values)) + shift, atol=1e-9)
    moved = np.array(intervals.percentile_interval(values + shift, picks))
    assert np.allclose(moved, np.array(intervals.percentile_interval(values, picks)) + shift, atol=1e-9)


def test_one_seed_has_no_interval() -> None:
    one = np.array([[80.0]])
    picks = intervals.resample_seeds(1, 100, np.random.default_rng(0))
    for bounds in (
        intervals.paper_interval(one),
        intervals.t_interval(one),
        intervals.percentile_interval(one, picks),
        intervals.bca_interval(one, picks),
    ):
        assert np.isnan(np.array(bounds)).all()


def test_equal_seeds_have_an_interval_of_no_width() -> None:
    same = np.full(5, 71.5)
    picks = intervals.resample_seeds(5, 500, np.random.default_rng(0))
    for method in (intervals.percentile_interval, intervals.bca_interval):
        assert np.array(method(same, picks)).tolist() == [71.5, 71.5]


def test_cells_do_not_depend_on_their_neighbours() -> None:
    picks = intervals.resample_seeds(5, 1000, np.random.default_rng(0))
    for method in (intervals.percentile_interval, intervals.bca_interval):
        together = np.array(method(CELLS, picks))
        alone = np.array([method(cell, picks) for cell in CELLS]).T
        assert (together == alone).all()


def test_instance_resamples_have_the_binomial_spread() -> None:
    scores = np.zeros((1, 400))
    scores[0, :300] = 1
    means = resample_instances(scores, 20_000, np.random.default_rng(0))[:, 0]
    assert means.mean() == pytest.approx(0.75, abs=0.001)
    assert means.std() == pytest.approx((0.75 * 0.25 / 400) ** 0.5, rel=0.03)


def test_instance_resamples_equal_a_plain_loop() -> None:
    rng = np.random.default_rng(11)
    scores = rng.random((3, 17))
    ours = resample_instances(scores, 50, np.random.default_rng(5))
    [child] = np.random.default_rng(5).spawn(1)
    draws = child.integers(0, 17, size=(50, 17), dtype=np.uint32)
    loop = [[float(np.mean([row[pick] for pick in draw])) for row in scores] for draw in draws]
    assert np.allclose(ours, loop, atol=1e-11)


def test_paired_runs_share_resamples_and_unpaired_do_not() -> None:
    scores = np.tile(np.random.default_rng(1).random(200), (2, 1))
    paired = resample_instances(scores, 5_000, np.random.default_rng(2))
    assert (paired[:, 0] == paired[:, 1]).all()
    unpaired = resample_instances(scores, 5_000, np.random.default_rng(2), paired=False)
    assert abs(np.corrcoef(unpaired.T)[0, 1]) < 0.05
    assert sorted(unpaired[:, 0]) == sorted(paired[:, 0])


def test_hierarchical_interval_is_wider_than_either_part() -> None:
    rng = np.random.default_rng(3)
    skill = rng.normal(0.8, 0.01, size=5)
    scores = (rng.random((5, 500)) < skill[:, None]).astype(float)
    resampled = resample_instances(scores, 4_000, np.random.default_rng(0))
    picks = intervals.resample_seeds(5, 4_000, np.random.default_rng(1))
    both = np.ptp(intervals.hierarchical_interval(resampled, picks))
    seeds = np.ptp(intervals.percentile_interval(scores.mean(axis=1), picks))
    instances = np.ptp(np.quantile(resampled.mean(axis=1), [0.025, 0.975]))
    assert both > seeds
    assert both > instances


def test_bca_of_values_that_differ_by_rounding_alone_is_their_value() -> None:
    picks = intervals.resample_seeds(2, 1_000, np.random.default_rng(0))
    values = np.array([[50.0, np.nextafter(50.0, 51.0)]])
    low, high = intervals.bca_interval(values, picks)
    assert low == pytest.approx(50.0) and high == pytest.approx(50.0)
