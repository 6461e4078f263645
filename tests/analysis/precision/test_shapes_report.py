"""Coverages by shape in every format."""

from __future__ import annotations

import json

import pytest

from analysis.precision.shapes import SHAPES, simulate_shapes
from analysis.precision.shapes_report import ShapesReport, shapes_document
from common.tables import show


@pytest.fixture(scope="module")
def report() -> ShapesReport:
    return ShapesReport(frame=simulate_shapes(trials=100, resamples=100, seed=0), trials=100)


def test_every_shape_has_a_table_and_few_seeds_are_in_parentheses(report: ShapesReport) -> None:
    text = show(shapes_document(report), "text")
    assert all(f"\n{name}: {shape.words}.\n" in text for name, shape in SHAPES.items())
    share = report.frame.query("shape == 'normal' and n_seeds == 2 and interval == 't'")["coverage"].iloc[0]
    assert f"({100 * share:.1f})" in text
    assert "| seeds | paper | t |" in show(shapes_document(report), "markdown")


def test_the_numbers_are_there_as_data(report: ShapesReport) -> None:
    head = "shape,n_seeds,interval,used,coverage,width,mean_width"
    assert show(shapes_document(report), "csv").splitlines()[0] == head
    assert len(json.loads(show(shapes_document(report), "json"))) == len(report.frame)
