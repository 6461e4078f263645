"""Panels drawn from data: kinds and places follow the data, and nothing touches or leaves the drawing."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

import pandas as pd
import pytest

from analysis.sources import open_source
from clm_or_mlm.report.panels import HEIGHT, WIDTH, Panel, draw_panels
from paper_figures.figure_data import COLUMNS
from paper_figures.inputs import Inputs
from tests.paper_figures.made_up import paper_figure


def panels_of(number: int, source: str = "published") -> tuple[list[Panel], pd.DataFrame]:
    figure = paper_figure(number)
    data = figure.collect(Inputs(source=open_source(source)))
    axis = figure.x_axis
    return draw_panels(data, x_label=axis.label, log_x=axis.log, expected=axis.expected), data


def frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    base = {"panel": "SC", "model": "m", "n_seeds": 5, "interval": "t", "source": "s"}
    return pd.DataFrame([base | row for row in rows], columns=COLUMNS)


CASES = [
    *((number, "published") for number in (1, 2, 3, 4, 6, 8, 9, 10, 11)),
    *((number, "miniature") for number in (3, 5, 6, 7)),
]


@pytest.mark.parametrize(("number", "source"), CASES)
def test_every_point_is_there_inside_and_says_its_numbers(number: int, source: str) -> None:
    panels, data = panels_of(number, source)
    marks = [mark for panel in panels for mark in panel.marks]
    assert len(marks) == len(data)
    for panel in panels:
        for mark in panel.marks:
            assert panel.left - 6 <= mark.x <= panel.right + 6 and 0 < mark.y <= panel.bottom + 0.01
            assert "\n" in mark.tip


@pytest.mark.parametrize(("number", "source"), CASES)
def test_labels_do_not_touch_nor_leave_the_drawing(number: int, source: str) -> None:
    panels, _ = panels_of(number, source)
    for panel in panels:
        for (above, _, _), (below, _, _) in pairwise(panel.labels):
            assert below - above >= 11.5
        for y, _, text in panel.labels:
            assert 0 < y <= HEIGHT - 30 and panel.right + 8 + 6.2 * len(text) <= WIDTH + 3
        for (a, one), (b, other) in combinations(panel.x_ticks, 2):
            assert abs(a - b) > 3 * (len(one) + len(other))
        assert all(0 <= y <= panel.bottom + 0.01 for y, _ in panel.y_ticks)


def test_panels_of_one_metric_share_their_range() -> None:
    panels, _ = panels_of(1)
    assert [panel.title for panel in panels] == ["CLM share", "CPT"]
    assert panels[0].y_ticks == panels[1].y_ticks
    heights = {mark.tip.splitlines()[2]: mark.y for panel in panels for mark in panel.marks}
    assert heights["610m-mlm40-42k"] == next(
        m.y for m in panels[0].marks if "610m-mlm40-42k" in m.tip.splitlines()
    )


def test_places_are_linear_in_the_scores_and_series_stand_apart() -> None:
    panels, _ = panels_of(3)
    panel = panels[0]
    points = [(float(m.tip.split(": ")[1].split(" ")[0]), m.y) for m in panel.marks]
    (a, low), (b, high) = min(points), max(points)
    for score, y in points:
        assert y == pytest.approx(low + (score - a) / (b - a) * (high - low), abs=0.2)
    assert len({mark.x for mark in panel.marks}) == len(panel.marks)  # no series hides another
    assert {look for look, _ in panel.lines} == {"ramp0", "ramp1", "ramp2"}


def test_no_line_is_drawn_across_a_missing_point() -> None:
    panels, _ = panels_of(11)
    assert [panel.lines for panel in panels] == [[]] * 4  # its middle is in no table
    rows = frame(
        [{"series": "MLM", "x": x, "mean": 80 + x, "low": 79 + x, "high": 81 + x} for x in (1, 2, 4)]
    )
    [panel] = draw_panels(rows, x_label="", log_x=False, expected={"MLM": [1, 2, 3, 4]})
    assert [len(corners.split()) for _, corners in panel.lines] == [2]
    [panel] = draw_panels(rows, x_label="", log_x=False, expected={})
    assert [len(corners.split()) for _, corners in panel.lines] == [3]


def test_mlm_and_clm_keep_their_colours() -> None:
    for number in (2, 8):
        panels, _ = panels_of(number)
        assert {mark.look for mark in panels[0].marks} == {"mlm", "clm"}
        assert {mark.shape for mark in panels[0].marks} == {"circle", "square"}


def test_wide_intervals_do_not_flatten_the_means() -> None:
    rows = frame(
        [
            {"series": "MLM", "x": 1, "mean": 50, "low": -400, "high": 500},
            {"series": "MLM", "x": 2, "mean": 60, "low": 59, "high": 61},
        ]
    )
    [panel] = draw_panels(rows, x_label="", log_x=False, expected={})
    one, two = panel.marks
    assert one.y - two.y > 30 and one.low is not None and one.low <= panel.bottom


def test_single_scores_stand_next_to_their_spread() -> None:
    panels, _ = panels_of(5, "miniature")
    panel = panels[0]
    singles = [mark for mark in panel.marks if mark.small]
    spreads = [mark for mark in panel.marks if not mark.small]
    assert len(spreads) == 2 and len(singles) == 8
    assert all("standard deviation" in mark.tip and "n = 4 scores" in mark.tip for mark in spreads)
    assert panel.zero is not None and panel.unit.endswith("(points)")


def test_training_losses_are_curves_with_bands() -> None:
    panels, data = panels_of(12, "miniature")
    assert [panel.title for panel in panels] == list(dict.fromkeys(data["panel"]))
    for panel in panels:
        assert len(panel.lines) == len(panel.bands) == 2
        assert 20 < len(panel.marks) <= 200 and all(mark.look.endswith("ghost") for mark in panel.marks)
        assert panel.x_label == "Step (thousands)"
