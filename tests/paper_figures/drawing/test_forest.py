from __future__ import annotations

import math

from paper_figures.drawing.forest import Row, draw_forest
from paper_figures.drawing.style import paper_style


def test_every_row_has_its_name_numbers_and_interval():
    rows = [
        Row(name="SST-2", effect=0.3, low=-0.6, high=1.2, region=(-0.5, 0.5), word="open"),
        Row(name="QQP", effect=-2.8, low=math.nan, high=math.nan, region=(-0.5, 0.5), word="one seed"),
        Row(
            name="SC average",
            effect=30.0,
            low=29.0,
            high=31.0,
            region=(-0.5, 0.5),
            word="ahead",
            is_summary=True,
        ),
    ]
    with paper_style():
        figure = draw_forest(rows, "a minus b", "A caption.")
    texts = {text.get_text() for text in figure.texts}
    assert {
        "SST-2",
        "QQP",
        "SC average",
        "a minus b",
        "+0.30 [\u22120.60, +1.20]",
        "\u22122.80",
        "ahead",
    } <= texts
    ax = figure.axes[0]
    intervals = [line.get_xdata() for line in ax.lines if len(set(line.get_xdata())) == 2]
    assert [list(ends) for ends in intervals] == [[-0.6, 1.2], [29.0, 31.0]]
    low, high = ax.get_xlim()
    assert low == -high and high > 31


def test_effects_of_zero_leave_room_on_both_sides_of_it():
    same = Row(name="SQuAD", effect=0.0, low=0.0, high=0.0, region=(math.nan, math.nan), word="equal")
    unknown = Row(name="NQ", effect=math.nan, low=math.nan, high=math.nan, region=(math.nan, math.nan))
    with paper_style():
        for rows in ([same, unknown], [unknown]):
            low, high = draw_forest(rows, "a minus b", "A caption.").axes[0].get_xlim()
            assert low == -high and high > 0
