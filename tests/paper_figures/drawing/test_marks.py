"""Lines, points in groups, what is missing, names of series, and which mark is which row of the CSV."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.sources import open_source
from paper_figures.drawing.marks import draw_groups, draw_lines, write_names
from paper_figures.drawing.style import CLM, EXTRA, MLM, paper_style
from paper_figures.figure import FIGURES, FigureInputs, point_id
from paper_figures.save import DrawnFigure
from tests.paper_figures.checker import drawn_texts


def lines_named(ax: Axes, name: str) -> list[Line2D]:
    return [line for line in ax.lines if line.get_label() == name]


def test_an_interval_beyond_all_scores_ends_in_an_arrow_at_the_axis() -> None:
    rows = pd.DataFrame({"x": ["610M"], "series": ["MLM"], "mean": [0.8], "low": [-40.0], "high": [101.9]})
    ax = Figure().subplots()
    draw_groups(ax, rows, {"MLM": MLM}, groups=["610M"])
    assert ax.get_ylim() == (0, 100)
    ends = lines_named(ax, "_end")
    assert [float(line.get_ydata()[0]) for line in ends] == [0, 100]  # type: ignore[index]
    assert [line.get_marker() for line in ends] == [7, 6]


def test_a_score_without_interval_has_a_mark_alone() -> None:
    rows = pd.DataFrame(
        {"x": [1.0], "series": "MLM", "mean": [50.0], "low": np.nan, "high": np.nan}, index=[7]
    )
    ax = Figure().subplots()
    draw_lines(ax, rows, {"MLM": MLM}, expected={})
    assert not ax.collections and not lines_named(ax, "_end")
    assert [line.get_gid() for line in ax.lines if line.get_gid()] == ["point-7"]


def test_an_x_without_any_score_has_its_tick_and_a_cross() -> None:
    rows = pd.DataFrame(
        {"x": [10.0, 40.0], "series": "MLM", "mean": [1.0, 2.0], "low": np.nan, "high": np.nan}
    )
    ax = Figure().subplots()
    draw_lines(ax, rows, {"MLM": MLM}, expected={"MLM": [1, 2, 5, 10, 20, 40]}, log_x=True)
    assert [float(line.get_xdata()[0]) for line in lines_named(ax, "_missing")] == [1, 2, 5, 20]  # type: ignore[index]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1", "2", "5", "10", "20", "40"]
    assert not len(ax.xaxis.get_minorticklocs())


def test_where_lines_are_steep_nothing_is_moved() -> None:
    rows = pd.DataFrame(
        {"x": [1.0, 1.0], "series": ["MLM", "CLM"], "mean": [50.0, 60.0], "low": np.nan, "high": np.nan}
    )
    for dodge, apart in ((True, 3.4), (False, 0.0)):
        figure = Figure()
        ax = figure.subplots()
        draw_lines(ax, rows, {"MLM": MLM, "CLM": CLM}, expected={}, dodge=dodge)
        one, two = (line for line in ax.lines if line.get_gid())
        shift = two.get_transform().transform((1, 60))[0] - one.get_transform().transform((1, 50))[0]
        assert 72 * shift / figure.dpi == pytest.approx(apart, abs=1e-6)


def test_a_point_alone_at_its_x_is_drawn_there_and_its_line_meets_it() -> None:
    rows = pd.DataFrame(
        {"x": [40.0, 40.0, 35.0], "series": ["MLM", "mine", "mine"], "mean": [50.0, 60.0, 55.0]}
    )
    rows = rows.assign(low=np.nan, high=np.nan)
    figure = Figure()
    ax = figure.subplots()
    draw_lines(ax, rows, {"MLM": MLM, "mine": EXTRA[0]}, expected={})
    places = {row: ax.transData.transform((x, y)) for row, x, y in rows[["x", "mean"]].itertuples()}
    half = 1.7 * figure.dpi / 72
    wanted = {0: places[0] - (half, 0), 1: places[1] + (half, 0), 2: places[2]}
    for line in ax.lines:
        if line.get_gid():
            drawn = line.get_transform().transform(line.get_xydata())[0]
            assert drawn == pytest.approx(wanted[int(str(line.get_gid()).removeprefix("point-"))])
    (line,) = lines_named(ax, "mine")
    path = line.get_transform().transform_path(line.get_path()).vertices
    assert path == pytest.approx(np.array([wanted[2], wanted[1]]))


LOOKS = dict(zip("abcd", EXTRA, strict=True))


@pytest.mark.parametrize(
    "ends", [(1, 1, 1, 1), (0, 0.1, 9.9, 10), (2, 4, 6, 8), (10, 10, 10, 0), (0, 0, 0, 0)]
)
def test_names_are_in_the_order_of_their_lines_and_apart(ends: tuple[float, ...]) -> None:
    rows = pd.DataFrame({"series": list("abcd"), "x": 1.0, "mean": ends})
    with paper_style():
        figure = Figure(figsize=(3, 2))
        ax = figure.subplots()
        ax.set_ylim(0, 10)
        write_names(ax, rows, LOOKS)
        boxes = {text.get_text(): box for text, box in drawn_texts(figure) if text.get_text() in LOOKS}
    middles = np.array([(boxes[name].y0 + boxes[name].y1) / 2 for name in "abcd"])
    assert np.diff(middles[np.argsort(ends, kind="stable")]).min() > 11
    points = 72 / figure.dpi
    low, high = ax.bbox.y0 * points, ax.bbox.y1 * points
    assert all(low - 1 <= middle * points <= high + 1 for middle in middles)
    if ends == (2, 4, 6, 8):  # nothing to move
        wanted = [float(ax.transData.transform((0, end))[1]) for end in ends]
        assert middles == pytest.approx(wanted, abs=2)


@pytest.mark.parametrize("name", ["1", "8", "claims"])
def test_every_row_of_the_csv_is_a_group_of_the_svg(name: str, tmp_path: Path) -> None:
    drawn = DrawnFigure.of(FIGURES[name].load(), FigureInputs(source=open_source("published")))
    svg, csv, *_ = drawn.save(tmp_path, ["svg"])
    rows, root = pd.read_csv(csv), ElementTree.parse(svg).getroot()
    ids = [str(element.get("id")) for element in root.iter("{http://www.w3.org/2000/svg}g")]
    points = [found for found in ids if re.fullmatch(r"point-\d+", found)]
    shown = rows.index if "effect" not in rows else rows.index[rows["effect"].notna()]
    assert sorted(points) == sorted(point_id(row) for row in shown)
