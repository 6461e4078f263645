"""Lines, points in groups, what is missing, names of series, and which mark is which row of the CSV."""

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from paper_figures.drawing.marks import draw_groups, draw_lines, write_names
from paper_figures.drawing.style import EXTRA, MLM, paper_style
from paper_figures.figure import point_id
from tests.paper_figures.checker import drawn_texts
from tests.paper_figures.drawn import collected, files

PAPERS = "610m-mlm40-42k"
SVG = "{http://www.w3.org/2000/svg}"


def of_mlm(**columns: object) -> pd.DataFrame:
    """Rows of one series of a model of the paper, without intervals but for those given."""
    return pd.DataFrame(
        {"series": "MLM", "model": PAPERS, "low": np.nan, "high": np.nan, **columns}
    )


def lines_named(ax: Axes, name: str) -> list[Line2D]:
    return [line for line in ax.lines if line.get_label() == name]


def test_interval_beyond_all_scores_ends_in_an_arrow() -> None:
    rows = of_mlm(x=["610M"], mean=[0.8], low=[-40.0], high=[101.9])
    ax = Figure().subplots()
    draw_groups(ax, rows, {"MLM": MLM}, groups=["610M"])
    assert ax.get_ylim() == (0, 100)
    ends = lines_named(ax, "_end")
    assert [float(line.get_ydata()[0]) for line in ends] == [0, 100]  # type: ignore[index]
    assert [line.get_marker() for line in ends] == [7, 6]


def test_a_score_without_interval_has_a_mark_alone() -> None:
    rows = of_mlm(x=[1.0], mean=[50.0]).set_axis([7])
    ax = Figure().subplots()
    draw_lines(ax, rows, {"MLM": MLM}, expected={})
    assert not ax.collections and not lines_named(ax, "_end")
    assert [line.get_gid() for line in ax.lines if line.get_gid()] == ["point-7"]


def test_an_x_without_any_score_has_its_tick_and_a_cross() -> None:
    rows = of_mlm(x=[10.0, 40.0], mean=[1.0, 2.0])
    ax = Figure().subplots()
    draw_lines(
        ax, rows, {"MLM": MLM}, expected={"MLM": [1, 2, 5, 10, 20, 40]}, log_x=True
    )
    assert [float(line.get_xdata()[0]) for line in lines_named(ax, "_missing")] == [
        1,
        2,
        5,
        20,
    ]  # type: ignore[index]
    assert [label.get_text() for label in ax.get_xticklabels()] == [
        "1",
        "2",
        "5",
        "10",
        "20",
        "40",
    ]
    assert not len(ax.xaxis.get_minorticklocs())


def test_added_models_interval_widens_no_axis() -> None:
    rows = pd.DataFrame(
        {
            "x": [1.0, 1.0],
            "series": ["MLM", "mine"],
            "model": ["610m-mlm40-42k", "mine"],
            "mean": [84.0, 86.0],
            "low": [83.0, 40.0],
            "high": [85.0, 100.0],
        }
    )
    ax = Figure().subplots()
    draw_lines(ax, rows, {"MLM": MLM, "mine": EXTRA[0]}, expected={})
    low, high = ax.get_ylim()
    assert 80 < low < 83 and 86 < high < 90
    assert [float(line.get_ydata()[0]) for line in lines_named(ax, "_end")] == [
        low,
        high,
    ]  # type: ignore[index]


def test_right_supports() -> None:
    """A mark of the SVG is right of the line of no effect exactly where its effect is on the claimed side."""
    data = collected("claims").data
    turned = data["region_high"].eq(0) & np.isneginf(data["region_low"])
    assert turned.any()
    side = data["effect"].where(~turned, -data["effect"])
    for axes in ElementTree.parse(files("claims")["svg"]).getroot().iter(f"{SVG}g"):
        if not str(axes.get("id")).startswith("axes_"):
            continue
        marks, lines = {}, []
        for group in axes.iter(f"{SVG}g"):
            for path in group.findall(f"{SVG}path"):
                ends = re.fullmatch(
                    r"M ([\d.]+) [\d.]+\s+L ([\d.]+) [\d.]+\s*", path.get("d", "")
                )
                if (
                    ends
                    and ends[1] == ends[2]
                    and "stroke-width: 0.8" in path.get("style", "")
                ):
                    lines.append(float(ends[1]))
            if found := re.fullmatch(r"point-(\d+)", str(group.get("id"))):
                [use] = group.iter(f"{SVG}use")
                marks[int(found[1])] = float(use.get("x", "nan"))
        [zero] = set(lines)
        assert marks
        for row, x in marks.items():
            assert (x > zero) == (side[row] > 0), data.loc[row]


LOOKS = dict(zip("abcd", EXTRA, strict=True))


@pytest.mark.parametrize(
    "ends",
    [(1, 1, 1, 1), (0, 0.1, 9.9, 10), (2, 4, 6, 8), (10, 10, 10, 0), (0, 0, 0, 0)],
)
def test_names_are_in_the_order_of_their_lines_and_apart(
    ends: tuple[float, ...],
) -> None:
    rows = pd.DataFrame({"series": list("abcd"), "x": 1.0, "mean": ends})
    with paper_style():
        figure = Figure(figsize=(3, 2))
        ax = figure.subplots()
        ax.set_ylim(0, 10)
        write_names(ax, rows, LOOKS)
        boxes = {
            text.get_text(): box
            for text, box in drawn_texts(figure)
            if text.get_text() in LOOKS
        }
    middles = np.array([(boxes[name].y0 + boxes[name].y1) / 2 for name in "abcd"])
    assert np.diff(middles[np.argsort(ends, kind="stable")]).min() > 11
    points = 72 / figure.dpi
    low, high = ax.bbox.y0 * points, ax.bbox.y1 * points
    assert all(low - 1 <= middle * points <= high + 1 for middle in middles)
    if ends == (2, 4, 6, 8):  # nothing to move
        wanted = [float(ax.transData.transform((0, end))[1]) for end in ends]
        assert middles == pytest.approx(wanted, abs=2)


@pytest.mark.parametrize("name", ["1", "6", "8", "claims", "answer"])
def test_every_row_of_the_csv_is_a_group_of_the_svg(name: str) -> None:
    rows, root = (
        pd.read_csv(files(name)["csv"]),
        ElementTree.parse(files(name)["svg"]).getroot(),
    )
    ids = [str(element.get("id")) for element in root.iter(f"{SVG}g")]
    points = [found for found in ids if re.fullmatch(r"point-\d+", found)]
    shown = rows.index if "effect" not in rows else rows.index[rows["effect"].notna()]
    assert sorted(points) == sorted(point_id(row) for row in shown)
