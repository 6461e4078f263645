"""Figure 8: bars before and after 22K steps of continued pretraining."""

from __future__ import annotations

import pytest

from paper_figures.figures.figure08 import position
from pretraining.model_names import parse


def at(name: str) -> tuple[str, float | str] | None:
    """Return the series and the x of a model."""
    there = position(parse(name))
    return None if there is None else (there.series, there.x)


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("610m-mlm40-42k", ("MLM start", "Base")),
        ("610m-clm-dec42k-mlm40-64k", ("CLM start", "CPT")),
        ("610m-clm-dec42k-mlm40-54k", None),
        ("1b-clm-42k", None),
        ("610m-clm-dec42k-mlm20-64k", None),
    ],
)
def test_position(name: str, there: tuple[str, float | str] | None) -> None:
    assert at(name) == there
