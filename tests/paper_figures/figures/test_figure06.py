"""Figure 6: points by the share of CLM on a line of their budget."""

from __future__ import annotations

import pytest

from paper_figures.figures.figure06 import position
from pretraining.model_names import parse


def at(name: str) -> tuple[str, float | str] | None:
    """Return the series and the x of a model."""
    there = position(parse(name))
    return None if there is None else (there.series, there.x)


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("610m-clm-3k-mlm40-12k", ("12K steps", 25.0)),
        ("610m-mlm40-22k", ("22K steps", 0.0)),
        ("610m-clm-42k", ("42K steps", 100.0)),
        ("1b-clm-42k", None),
        ("610m-clm-dec42k-mlm40-64k", None),
        ("610m-clm-10k-mlm20-42k", None),
    ],
)
def test_position(name: str, there: tuple[str, float | str] | None) -> None:
    assert at(name) == there
