"""Figure 9: points by the length of continued pretraining on a line of their start."""

from __future__ import annotations

import pytest

from paper_figures.figures.figure09 import position
from pretraining.model_names import parse


def at(name: str) -> tuple[str, float | str] | None:
    """Return the series and the x of a model."""
    there = position(parse(name))
    return None if there is None else (there.series, there.x)


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("610m-mlm40-42k", ("MLM start", 0.0)),
        ("610m-clm-dec42k-mlm40-44k", ("CLM start", 2.0)),
        ("610m-clm-dec42k-mlm40-64k", ("CLM start", 22.0)),
        ("1b-clm-42k", None),
        ("610m-clm-10k-mlm40-42k", None),
    ],
)
def test_position(name: str, there: tuple[str, float | str] | None) -> None:
    assert at(name) == there
