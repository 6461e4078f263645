"""Coverages by shape in every format."""

from __future__ import annotations

import json

import pytest

from analysis.precision.shapes import SHAPES, simulate_shapes
from analysis.precision.shapes_report import FORMATS, ShapesReport


@pytest.fixture(scope="module")
def report() -> ShapesReport:
    return ShapesReport(frame=simulate_shapes(trials=100, resamples=100, seed=0), trials=100)


def test_every_shape_has_a_table_and_few_seeds_are_in_parentheses(report: ShapesReport) -> None:
    text = FORMATS["text"].show(report)
    assert all(f"\n{name}: {shape.words}.\n" in text for name, shape in SHAPES.items())
    share = report.frame.query("shape == 'normal' and n_seeds == 2 and interval == 't'")["coverage"].iloc[0]
    assert f"({100 * share:.1f})" in text
    assert "| seeds | paper | t |" in FORMATS["markdown"].show(report)


def test_the_numbers_are_there_as_data(report: ShapesReport) -> None:
    head = "shape,n_seeds,interval,used,coverage,width,mean_width"
    assert FORMATS["csv"].show(report).splitlines()[0] == head
    assert len(json.loads(FORMATS["json"].show(report))) == len(report.frame)
