"""Names right of a panel: by their lines, never on each other, within the panel's height."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from paper_figures.drawing.labels import names_fit, write_names
from paper_figures.drawing.style import EXTRA, paper_style
from tests.paper_figures.checker import drawn_texts

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


def test_only_a_panel_with_every_series_names_them() -> None:
    data = pd.DataFrame({"panel": ["SC", "SC", "IR"], "series": ["a", "b", "a"]})
    assert names_fit(data, "SC") and not names_fit(data, "IR")
