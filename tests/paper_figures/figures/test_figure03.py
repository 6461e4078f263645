"""Figure 3: points by masking ratio on a line of their size."""

from __future__ import annotations

import pytest

from paper_figures.figures.figure03 import position
from pretraining.model_names import parse


def at(name: str) -> tuple[str, float | str] | None:
    """Return the series and the x of a model."""
    there = position(parse(name))
    return None if there is None else (there.series, there.x)


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("610m-mlm20-42k", ("610M", 20.0)),
        ("210m-mlm50-42k", ("210M", 50.0)),
        ("610m-mlm40-22k", None),
        ("610m-clm-42k", None),
        ("610m-clm-40k-mlm20-42k", None),
    ],
)
def test_position(name: str, there: tuple[str, float | str] | None) -> None:
    assert at(name) == there
