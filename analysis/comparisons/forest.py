"""A forest plot of characters: each scope's difference with its interval around zero."""

from __future__ import annotations

import math
from collections.abc import Sequence

from analysis.comparisons.differences import Difference

__all__ = ["forest_lines"]

_WIDTH = 61


def forest_lines(differences: Sequence[Difference]) -> list[str]:
    """Return one line per scope, the interval as `|--o--|` on one axis, and a legend; dots end the equivalence region.

    The axis is linear near zero and logarithmic beyond a point, so that an SC and a QA difference both show.
    """
    known = [one for one in differences if not math.isnan(one.effect)]
    if not known:
        return []
    ends = [abs(end) for one in known for end in (one.effect, one.margin, one.low, one.high) if end == end]
    reach = 1.05 * max(ends)
    width = max(len(one.scope.title) for one in known)
    half = _WIDTH // 2
    axis = f"{-reach:+.2f}".ljust(half) + "0" + f"{reach:+.2f}".rjust(half)
    rows = [f"{one.scope.title:{width}}  {_row(one, reach)}" for one in known]
    return [
        " " * (width + 2) + axis,
        *rows,
        f"{'':{width}}  o A - B, |-| its interval, : zero, . ends of the region",
    ]


def _row(one: Difference, reach: float) -> str:
    def place(value: float) -> int:
        return round((math.asinh(value) / math.asinh(reach) + 1) / 2 * (_WIDTH - 1))

    cells = [" "] * _WIDTH
    for end in (-one.margin, one.margin):
        cells[place(end)] = "."
    cells[place(0.0)] = ":"
    if not math.isnan(one.low):
        low, high = place(one.low), place(one.high)
        cells[low : high + 1] = "-" * (high - low + 1)
        cells[low] = cells[high] = "|"
    cells[place(one.effect)] = "o"
    return "".join(cells).rstrip()
