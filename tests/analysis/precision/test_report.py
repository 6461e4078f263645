"""Simulated coverages, by dataset and by shape, in every format."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from analysis.precision.coverage import KINDS, TARGETS, simulate
from analysis.precision.report import coverage_document, shapes_document
from analysis.precision.shapes import SHAPES, simulate_shapes
from analysis.sources import PUBLISHED
from common.tables import show


def test_every_format_shows_every_target_and_interval() -> None:
    frame = simulate(PUBLISHED, trials=100, resamples=100, seed=0)
    document = coverage_document(frame, 100, "published")
    for name in ("text", "markdown"):
        text = show(document, name)
        assert "variances from published; 100 trials a dataset (standard error 2.2)" in text
        assert text.count("MS MARCO") == len(TARGETS)
        assert all(kind in text for kind in KINDS)
    assert len(json.loads(show(document, "json"))) == len(frame)
    assert show(document, "csv").splitlines()[0] == ",".join(frame.columns)


@pytest.fixture(scope="module")
def shapes() -> pd.DataFrame:
    return simulate_shapes(trials=100, resamples=100, seed=0)


def test_every_shape_has_a_table_and_few_seeds_are_in_parentheses(shapes: pd.DataFrame) -> None:
    text = show(shapes_document(shapes, 100), "text")
    assert all(f"\n{name}: {shape.words}.\n" in text for name, shape in SHAPES.items())
    share = shapes.query("shape == 'normal' and n_seeds == 2 and interval == 't'")["coverage"].iloc[0]
    assert f"({100 * share:.1f})" in text
    assert "| seeds | paper | t |" in show(shapes_document(shapes, 100), "markdown")


def test_the_numbers_are_there_as_data(shapes: pd.DataFrame) -> None:
    head = "shape,n_seeds,interval,used,coverage,width,mean_width"
    assert show(shapes_document(shapes, 100), "csv").splitlines()[0] == head
    assert len(json.loads(show(shapes_document(shapes, 100), "json"))) == len(shapes)
