"""The carve is the datasets library's, row by row; the halves are a seeded draw."""

from __future__ import annotations

import datasets
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.datasets.readers.reader import carve, halve


def assert_as_the_library(rows: int) -> None:
    library = datasets.Dataset.from_dict({"row": list(range(rows))}).train_test_split(
        train_size=0.95, seed=42
    )
    train, validation = carve(rows)
    assert train.tolist() == library["train"]["row"][:]
    assert validation.tolist() == library["test"]["row"][:]


@pytest.mark.parametrize("rows", [2, 19, 20, 21, 8_999, 67_349])
def test_carve_is_the_librarys(rows: int) -> None:
    assert_as_the_library(rows)


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 3_000))
def test_carve_is_the_librarys_for_any_size(rows: int) -> None:
    assert_as_the_library(rows)


def test_carve_sizes_of_the_paper() -> None:
    """The released SST-2 validation scores are multiples of 1 / 3,368."""
    train, validation = carve(67_349)
    assert (len(train), len(validation)) == (63_981, 3_368)
    assert sorted([*train, *validation]) == list(range(67_349))


@given(st.sets(st.text(min_size=1, max_size=4), min_size=1, max_size=50), st.integers(0, 5))
def test_halves(ids: set[str], seed: int) -> None:
    chosen = halve(ids, seed)
    assert chosen <= ids
    assert len(chosen) == round(len(ids) / 2)
    assert chosen == halve(sorted(ids, reverse=True), seed), "the order of the ids does not matter"
