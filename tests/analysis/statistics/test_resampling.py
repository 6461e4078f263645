"""All resamples listed once stand for the list with repetitions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.statistics.resampling import (
    MOST_ENUMERATED,
    all_or_drawn,
    draw_picks,
    every_resample,
    interpolated_quantiles,
    resampled_means,
    smallest_reaching,
)


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
