from __future__ import annotations

import math

from analysis.comparisons.differences import Difference
from analysis.comparisons.forest import forest_lines
from analysis.comparisons.scopes import Scope


def row(effect: float, low: float = math.nan, high: float = math.nan) -> Difference:
    return Difference(
        first="a", second="b", scope=Scope("SC", "sst2"), effect=effect, low=low, high=high, margin=0.5
    )


def test_a_line_has_the_interval_around_the_effect_and_zero_in_the_middle():
    axis, line, mirrored, single, legend = forest_lines([row(2.0, 1.0, 3.0), row(-2.0, -3.0, -1.0), row(0.1)])
    cells, turned = line[7:].ljust(61), mirrored[7:].ljust(61)
    assert cells[30] == ":"
    assert 30 < cells.index("|") < cells.index("o") < cells.rindex("|")
    assert turned.replace(".", "").replace(" ", "") == cells.replace(".", "").replace(" ", "")[::-1]
    assert legend.strip().startswith("o A - B")
    assert single.count("o") == 1 and "|" not in single
    assert axis.strip().startswith("-3.15") and axis.endswith("+3.15")


def test_nothing_known_draws_nothing():
    assert forest_lines([row(math.nan)]) == []
