"""Intervals against closed forms, scipy and statsmodels."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.weightstats import DescrStatsW

from analysis.statistics import bounds
from analysis.statistics.bounds import Bounds
from analysis.statistics.instance_bootstrap import resample_instances
from analysis.statistics.interval_kinds import INTERVALS, Sample
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


BATCH = np.random.default_rng(11).gamma(2.0, size=(2, 3, 4))
"""Leading axes of different lengths, so that an axis that is counted from the wrong end is seen."""


def cells_of(batch: np.ndarray) -> list[tuple[int, ...]]:
    return list(itertools.product(*map(range, batch.shape[:2])))


def test_the_standard_error_is_scipys_along_the_seeds() -> None:
    assert bounds.standard_error(BATCH) == pytest.approx(stats.sem(BATCH, axis=-1))
    assert bounds.standard_error(np.array([1.0, 4.0])) == pytest.approx(1.5)  # half the difference of two


@pytest.mark.parametrize("method", [bounds.normal_bounds, bounds.t_bounds])
def test_single_seeds_have_no_bounds_whatever_stands_before_them(method) -> None:
    for ends in (*method(BATCH[..., :1]), bounds.standard_error(BATCH[..., :1])):
        assert ends.shape == (2, 3) and np.isnan(ends).all()


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_students_bounds_are_scipys_at_every_level(count: int, level: float) -> None:
    values = BATCH[..., :count]
    theirs = stats.t.interval(level, count - 1, values.mean(axis=-1), stats.sem(values, axis=-1))
    assert np.array(bounds.t_bounds(values, level)) == pytest.approx(np.array(theirs))


def listed(count: int) -> Resamples:
    """Every resample with its order, each once."""
    picks = np.array(list(itertools.product(range(count), repeat=count)))
    return Resamples(picks=picks, counts=np.ones(len(picks), dtype=np.int64))


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95])
@pytest.mark.parametrize("cell", [[1, 2, 4, 8, 32], [-16, 3, 5, 5, 6], [0, 0, 0, 1, 7], [3, 9, 10]])
def test_bca_is_scipys_of_the_same_resamples(cell: list[int], level: float) -> None:
    """Whole numbers, since scipy compares means exactly and would see rounding where resamples hold every seed."""
    values = np.array(cell, dtype=np.float64)
    resamples = every_resample(len(cell))
    means = resampled_means(values, resamples.picks)
    distribution = resampled_means(values, listed(len(cell)).picks)
    theirs = stats.bootstrap(
        (values,), np.mean, method="BCa", confidence_level=level, n_resamples=0,
        bootstrap_result=SimpleNamespace(bootstrap_distribution=distribution),
    ).confidence_interval  # fmt: skip
    found = np.array(bounds.bca_bounds(values, means, resamples, level))
    assert found == pytest.approx(np.array([theirs.low, theirs.high]), rel=1e-9)


def test_bca_and_percentile_bounds_are_along_the_seeds() -> None:
    for method in (percentile, bca):
        low, high = method(BATCH, every_resample(4))
        for cell in cells_of(BATCH):
            assert (low[cell], high[cell]) == method(BATCH[cell], every_resample(4))


def corrections(values: np.ndarray, means: np.ndarray, resamples: Resamples) -> Bounds:
    return bounds.bca_corrections(values, means, resamples, values - values.mean(axis=-1, keepdims=True))


def test_the_acceleration_of_a_mean_is_its_skewness_by_six_roots_of_n() -> None:
    resamples = every_resample(4)
    _, acceleration = corrections(BATCH, resampled_means(BATCH, resamples.picks), resamples)
    assert acceleration == pytest.approx(stats.skew(BATCH, axis=-1) / (6 * 4**0.5))


@pytest.mark.parametrize(
    ("means", "counts", "share"),
    [
        ([-1, 0, 1], [1, 1, 1], 0.5),
        ([-1, 0, 1], [4, 1, 1], 4.5 / 6),
        ([1, 0, -1], [1, 2, 5], 6 / 8),
        ([0, 0, 1], [1, 2, 1], 1.5 / 4),
        ([9e-13, -9e-13, -1.1e-12, 1.1e-12, 3.0], [2, 2, 3, 1, 1], 5 / 9),
    ],
)
def test_the_bias_is_the_normal_quantile_of_the_share_below_with_ties_counted_half(means, counts, share):
    """What differs from the mean by rounding alone, 1e-12 of numbers about 1, is a tie."""
    resamples = Resamples(picks=np.zeros((len(means), 2), dtype=np.int64), counts=np.array(counts))
    bias, _ = corrections(np.array([-2.0, 2.0]), np.array(means, dtype=np.float64), resamples)
    assert float(bias) == pytest.approx(stats.norm.ppf(share), abs=1e-9)


def test_equal_seeds_have_neither_bias_nor_acceleration_beside_others_that_do() -> None:
    values = np.array([[0.0, 0.0, 3.0], [71.5, 71.5, 71.5], [1e3, 1e3 + 5e-10, 1e3], [0.0, 5e-12, 0.0]])
    resamples = every_resample(3)
    bias, acceleration = corrections(values, resampled_means(values, resamples.picks), resamples)
    assert bias[1:3].tolist() == acceleration[1:3].tolist() == [0, 0]
    assert (bias[[0, 3]] != 0).all() and (acceleration[[0, 3]] > 0).all()


def test_scores_count_as_equal_by_a_share_of_large_ones_and_by_a_fixed_step_of_small_ones() -> None:
    assert bounds.rounding_of(np.array([0.0, -0.5, 1.0, 50.0, -200.0])) == pytest.approx(
        [1e-12, 1e-12, 1e-12, 5e-11, 2e-10], rel=1e-9, abs=0
    )


def test_without_acceleration_the_shares_are_shifted_by_twice_the_bias() -> None:
    bias = np.array([[0.0, 0.3, -0.2]])
    shares = bounds.accelerated_shares(bias, np.zeros((1, 3)), 0.9)
    assert shares.shape == (1, 3, 2)
    assert shares[0, 0] == pytest.approx([0.05, 0.95])
    for place, one in enumerate(bias[0]):
        assert shares[0, place] == pytest.approx(stats.norm.cdf(2 * one + stats.norm.ppf([0.05, 0.95])))


@pytest.mark.parametrize("seeds", [1, 2, 4])
@pytest.mark.parametrize("level", [0.5, 0.95])
def test_hierarchical_bounds_are_quantiles_over_rows_of_the_mean_of_the_picked_seeds(
    seeds: int, level: float
) -> None:
    rng = np.random.default_rng(5)
    resampled, picks = rng.normal(size=(2, 3, 9, seeds)), draw_picks(seeds, 9, rng)
    low, high = bounds.hierarchical_bounds(resampled, picks, level)
    assert low.shape == high.shape == (2, 3)
    for cell in cells_of(resampled):
        rows = zip(resampled[cell], picks, strict=True)
        means = [sum(row[pick] for pick in picked) / seeds for row, picked in rows]
        expected = np.quantile(means, [0.5 - level / 2, 0.5 + level / 2])
        assert [low[cell], high[cell]] == pytest.approx(expected.tolist())
