"""All resamples listed once stand for the list with repetitions; drawn ones depend on nothing but their seed."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from analysis.statistics.resampling import (
    MOST_ENUMERATED,
    Resampling,
    every_resample,
)

HOW = Resampling(resamples=30_000, seed=3)


@pytest.mark.parametrize("count", range(1, MOST_ENUMERATED + 1))
def test_every_resample_occurs_as_often_as_in_the_full_list(count: int) -> None:
    found = every_resample(count)
    assert found.counts.sum() == count**count
    if count <= 5:
        listed = Counter(tuple(sorted(picks)) for picks in itertools.product(range(count), repeat=count))
        assert {tuple(row): int(n) for row, n in zip(found.picks, found.counts, strict=True)} == listed


def test_few_seeds_are_enumerated_and_many_are_drawn_equally_often() -> None:
    assert HOW.of_seeds(6) is every_resample(6)
    many = HOW.of_seeds(7)
    assert many.picks.shape == (30_000, 7) and many.counts.sum() == 30_000
    for column in many.picks.T:
        values, counts = np.unique(column, return_counts=True)
        assert values.tolist() == list(range(7))
        assert counts / 30_000 == pytest.approx(1 / 7, abs=5 * (6 / 49 / 30_000) ** 0.5)
    assert abs(np.corrcoef(many.picks[:, 0], many.picks[:, 3])[0, 1]) < 4 / 30_000**0.5


def test_a_generator_gives_the_same_for_its_purpose_and_seed_whatever_was_drawn_before() -> None:
    drawn = HOW.rng(1, 2).random(5)
    HOW.rng(7).random(3)
    assert (HOW.rng(1, 2).random(5) == drawn).all()
    for other in (HOW.rng(1, 3), HOW.rng(1), Resampling(resamples=30_000, seed=4).rng(1, 2)):
        assert not (other.random(5) == drawn).any()
    assert (HOW.of_seeds(8).picks == HOW.of_seeds(8).picks).all()
