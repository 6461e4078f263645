"""Figure 4: checkpoints by step on a line of their objective."""

from __future__ import annotations

import pytest

from paper_figures.figures.figure04 import position
from pretraining.model_names import parse


def at(name: str) -> tuple[str, float | str] | None:
    """Return the series and the x of a model."""
    there = position(parse(name))
    return None if there is None else (there.series, there.x)


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("610m-mlm40-42k-1000", ("MLM", 1.0)),
        ("610m-clm-42k-40000", ("CLM", 40.0)),
        ("610m-mlm20-42k-5000", ("MLM 20 %", 5.0)),
        ("1b-clm-42k-5000", ("1B CLM", 5.0)),
        ("610m-mlm40-42k", None),
    ],
)
def test_position(name: str, there: tuple[str, float | str] | None) -> None:
    assert at(name) == there
