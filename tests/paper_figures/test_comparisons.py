"""Sentences on the points of a figure of lines."""

from typing import Any

import pandas as pd
import pytest

from paper_figures import comparisons


def test_best_points_name_the_series_of_a_task_that_lacks_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worse = {0, 4}
    monkeypatch.setattr(comparisons, "_clearly_worse", lambda *_: worse)
    points = [
        *(("SC", "210M", 20), ("SC", "210M", 40)),
        *(("SC", "610M", 20), ("SC", "610M", 40)),
        *(("TC", "610M", 20), ("TC", "610M", 40)),
    ]
    data = pd.DataFrame(points, columns=["panel", "series", "x"])
    inputs: Any = None
    said = comparisons.best_points(data, inputs, x_text="Best ratio")
    assert said == "Best ratio (210M, 610M): SC 40, any; TC 610M 40"
