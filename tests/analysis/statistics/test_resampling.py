"""All resamples listed once stand for the list with repetitions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.statistics.resampling import (
    MOST_ENUMERATED,
    Resamples,
    all_or_drawn,
    draw_picks,
    every_resample,
    interpolated_quantiles,
    mean_in_order,
    resampled_means,
    smallest_reaching,
)

SHARES = [0.0, 0.025, 0.3, 0.5, 0.77, 0.975, 0.99, 1.0]


@pytest.mark.parametrize("shape", [(2, 3, 7), (4, 5), (6,)])
def test_quantiles_of_repeated_values_are_numpys_along_the_last_axis(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    values, counts = rng.normal(size=shape), rng.integers(1, 5, shape[-1])
    found = interpolated_quantiles(values, counts, SHARES)
    assert found.shape == (*shape[:-1], len(SHARES))
    for place in np.ndindex(shape[:-1]):
        expected = np.quantile(np.repeat(values[place], counts), SHARES)
        assert found[place] == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_every_row_of_a_block_can_have_shares_of_its_own() -> None:
    rng = np.random.default_rng(2)
    values, counts = rng.normal(size=(2, 3, 7)), rng.integers(1, 5, 7)
    shares = rng.random((2, 3, 4))
    found = interpolated_quantiles(values, counts, shares)
    assert found.shape == (2, 3, 4)
    for place in np.ndindex(2, 3):
        expected = np.quantile(np.repeat(values[place], counts), shares[place])
        assert found[place] == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_a_value_that_occurs_alone_is_all_of_its_quantiles() -> None:
    assert interpolated_quantiles(np.array([3.5]), np.array([1]), [0.0, 0.4, 1.0]).tolist() == [3.5] * 3
    assert interpolated_quantiles(np.array([3.5]), np.array([9]), [0.0, 0.4, 1.0]).tolist() == [3.5] * 3


def reached(values: np.ndarray, counts: np.ndarray, share: float) -> float:
    """The smallest value up to which `share` of the occurrences are, from the list written out."""
    for value in sorted(values):
        if sum(n for v, n in zip(values, counts, strict=True) if v <= value) >= share * sum(counts):
            return float(value)
    raise AssertionError


@pytest.mark.parametrize("share", [0.0, 0.25, 0.3, 0.5, 0.625, 0.95, 1.0])
@pytest.mark.parametrize("shape", [(2, 3, 8), (4, 5), (6,)])
def test_the_smallest_value_that_reaches_a_share_is_found_in_every_row(
    shape: tuple[int, ...], share: float
) -> None:
    rng = np.random.default_rng(3)
    values, counts = rng.integers(1, 6, shape) + 0.5, rng.integers(0, 4, shape)
    counts[..., 2] = 1
    found = smallest_reaching(values, counts, share)
    assert found.shape == shape[:-1]
    for place in np.ndindex(shape[:-1]):
        assert found[place] == reached(values[place], counts[place], share)


@pytest.mark.parametrize(
    ("share", "expected"), [(0.25, 1.0), (0.26, 2.0), (0.5, 2.0), (0.75, 3.0), (1.0, 4.0)]
)
def test_a_share_that_a_value_reaches_exactly_is_reached(share: float, expected: float) -> None:
    assert smallest_reaching(np.array([4.0, 2.0, 1.0, 3.0]), np.ones(4, dtype=np.int64), share) == expected


def test_rounding_of_a_share_skips_no_value() -> None:
    """0.1 + 0.2 is a little more than three of ten; the third is meant."""
    assert smallest_reaching(np.arange(1.0, 11.0), np.ones(10, dtype=np.int64), 0.1 + 0.2) == 3.0


def test_no_share_at_all_is_reached_by_the_smallest_value_whether_it_occurs_or_not() -> None:
    assert smallest_reaching(np.array([5.0, 7.0, 6.0]), np.array([0, 2, 1]), 0.0) == 5.0


def test_where_nothing_occurs_zero_stands_in() -> None:
    values = np.array([[5.0, 7.0, 6.0], [5.0, 7.0, 6.0], [-5.0, -7.0, -6.0]])
    counts = np.array([[0, 0, 0], [0, 1, 0], [0, 0, 0]])
    assert smallest_reaching(values, counts, 0.5).tolist() == [0.0, 7.0, 0.0]


def test_drawn_resamples_take_every_seed_equally_often() -> None:
    picks = draw_picks(4, 30_000, np.random.default_rng(0))
    assert picks.shape == (30_000, 4)
    for column in picks.T:
        values, counts = np.unique(column, return_counts=True)
        assert values.tolist() == [0, 1, 2, 3]
        assert counts / 30_000 == pytest.approx(0.25, abs=4 * (0.25 * 0.75 / 30_000) ** 0.5)
    assert abs(np.corrcoef(picks[:, 0], picks[:, 3])[0, 1]) < 4 / 30_000**0.5


def test_the_total_counts_repeated_resamples() -> None:
    assert Resamples(picks=np.zeros((3, 2), dtype=np.int64), counts=np.array([1, 4, 2])).total == 7


def test_means_of_resamples_keep_the_axes_before_the_seeds() -> None:
    values, picks = np.random.default_rng(4).normal(size=(2, 3, 4)), every_resample(4).picks
    found = resampled_means(values, picks)
    assert found.shape == (2, 3, len(picks))
    for row, model, resample in np.ndindex(found.shape):
        expected = sum(values[row, model, seed] for seed in picks[resample]) / 4
        assert found[row, model, resample] == pytest.approx(expected, rel=1e-12)


def test_a_mean_is_summed_in_the_order_of_its_columns() -> None:
    big, small = np.array([1e16]), np.array([1.0])
    assert mean_in_order([big, small, -big], 3).tolist() == [0.0]
    assert mean_in_order([big, -big, small], 3).tolist() == [1 / 3]


@pytest.mark.parametrize("count", range(1, MOST_ENUMERATED + 1))
def test_every_resample_occurs_as_often_as_in_the_full_list(count: int) -> None:
    found = every_resample(count)
    assert found.total == count**count
    if count <= 5:
        listed: dict[tuple[int, ...], int] = {}
        for picks in itertools.product(range(count), repeat=count):
            key = tuple(sorted(picks))
            listed[key] = listed.get(key, 0) + 1
        assert {tuple(row): int(n) for row, n in zip(found.picks, found.counts, strict=True)} == listed


def test_few_seeds_are_enumerated_and_many_are_drawn() -> None:
    def draw(count: int) -> np.ndarray:
        return draw_picks(count, 50, np.random.default_rng(0))

    assert all_or_drawn(6, draw) is every_resample(6)
    many = all_or_drawn(7, draw)
    assert many.picks.shape == (50, 7) and many.total == 50


@given(
    st.lists(st.tuples(st.floats(-5, 5), st.integers(1, 6)), min_size=1, max_size=30),
    st.floats(0, 1),
)
def test_quantiles_are_numpys_of_the_repeated_values(pairs: list[tuple[float, int]], share: float) -> None:
    values, counts = np.array([v for v, _ in pairs]), np.array([n for _, n in pairs])
    repeated = np.repeat(values, counts)
    found = interpolated_quantiles(values, counts, [share])
    assert found[0] == pytest.approx(np.quantile(repeated, share), abs=1e-9)
    reached = smallest_reaching(values, counts, share)
    assert (repeated <= reached).mean() >= share - 1e-9
    assert (repeated < reached).mean() <= share + 1e-9


def test_each_row_has_its_own_order_and_shares() -> None:
    values = np.random.default_rng(0).normal(size=(4, 9))
    counts = np.arange(1, 10)
    shares = np.linspace(0.1, 0.9, 8).reshape(4, 2)
    found = interpolated_quantiles(values, counts, shares)
    for row, ends in enumerate(found):
        assert ends == pytest.approx(np.quantile(np.repeat(values[row], counts), shares[row]))


def test_means_of_resamples_are_those_of_the_picked_seeds() -> None:
    values = np.random.default_rng(1).normal(size=(3, 5))
    picks = every_resample(5).picks
    np.testing.assert_allclose(resampled_means(values, picks), values[:, picks].mean(axis=2), rtol=1e-12)
