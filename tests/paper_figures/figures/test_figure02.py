"""Figure 2: bars of both objectives by model size."""

from __future__ import annotations

import pytest

from paper_figures.figures.figure02 import position
from pretraining.model_names import parse


def at(name: str) -> tuple[str, float | str] | None:
    """Return the series and the x of a model."""
    there = position(parse(name))
    return None if there is None else (there.series, there.x)


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("610m-mlm40-42k", ("MLM", "610M")),
        ("1b-clm-42k", ("CLM", "1B")),
        ("610m-mlm30-42k", None),
        ("610m-mlm40-22k", None),
        ("610m-clm-10k-mlm40-42k", None),
        ("610m-clm-42k-1000", None),
    ],
)
def test_position(name: str, there: tuple[str, float | str] | None) -> None:
    assert at(name) == there
