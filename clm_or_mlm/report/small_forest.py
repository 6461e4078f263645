"""A small forest: comparisons as marks on one axis, of which right supports what is claimed, for a page to place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from analysis.claims.frame import FindingRow
from analysis.claims.verdicts import FAILS, HOLDS
from analysis.claims.wording import format_effect

_TICKS = (-30.0, -10.0, -5.0, -3.0, -1.0, -0.3, 0.0, 0.3, 1.0, 3.0, 5.0, 10.0, 30.0)
_RATIOS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_APART = 12.0
"""Percent of the axis between two ticks."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A comparison on the axis; places are percent of it, from the left."""

    row: FindingRow
    label: str
    """What a tap shows."""
    at: float
    low: float
    high: float
    counted: bool
    """Whether the verdict counts it as holding or failing."""
    claim: list[float]
    """Where the claimed region begins and ends."""


@dataclass(frozen=True, kw_only=True)
class SmallForest:
    """Marks, one below the other, and the ticks of their axis."""

    marks: dict[str, Mark]
    """By the comparison's label."""
    ticks: list[tuple[float, str]]
    """Percent of the axis and text."""
    zero: float
    """Where no effect is."""
    bent: bool

    @classmethod
    def of(cls, rows: Sequence[FindingRow], *, bent: bool = True) -> SmallForest | None:
        """Return the forest of those comparisons that are known, of one unit; None where none is.

        Args:
            rows: from top to bottom.
            bent: whether the axis is linear near no effect and then logarithmic, as in `figure claims`.
        """
        known = [one for one in rows if not one.missing and math.isfinite(one.effect)]
        if not known:
            return None
        are_ratios = known[0].unit.startswith("ratio")

        def place(value: float) -> float:
            """Return where a value is on the axis: bent, linear or, of ratios, logarithmic."""
            if are_ratios:
                return math.log(value) if value > 0 else -math.inf
            return math.asinh(value) if bent else value

        def turned(one: FindingRow, *values: float) -> list[float]:
            """Return places in order, mirrored where the claim is below a number."""
            sign = -1 if math.isinf(one.region_low) and math.isfinite(one.region_high) else 1
            return sorted(sign * place(value) for value in values if not math.isnan(value))

        bars = [turned(one, one.low, one.effect, one.high) for one in known]
        finite = [0.0, *(end for bar in bars for end in bar if math.isfinite(end))]
        room = 0.05 * (max(finite) - min(finite) or 1.0)
        first, last = min(finite) - room, max(finite) + room

        def percent(placed: float) -> float:
            """Return how far a place is from the axis' left end; beyond its ends, the end."""
            return round(100 * (min(max(placed, first), last) - first) / (last - first), 2)

        marks = {
            one.label: Mark(
                row=one,
                label=_words(one),
                counted=one.mark in (HOLDS.name, FAILS.name),
                at=percent(turned(one, one.effect)[0]),
                low=percent(bar[0]),
                high=percent(bar[-1]),
                claim=[percent(end) for end in turned(one, one.region_low, one.region_high)],
            )
            for one, bar in zip(known, bars, strict=True)
        }
        ticks: dict[float, str] = {}
        # No effect first, then the outermost, then those between for which there is room.
        candidates = [value for value in (_RATIOS if are_ratios else _TICKS) if first <= place(value) <= last]
        for value in sorted(candidates, key=lambda value: (place(value) != 0, -abs(place(value)))):
            if all(abs(percent(place(value)) - other) >= _APART for other in ticks):
                text = f"{value:g}" if are_ratios or not value else f"{value:+g}"
                ticks[percent(place(value))] = text.replace("-", "\u2212")
        return cls(marks=marks, ticks=sorted(ticks.items()), zero=percent(0.0), bent=bent and not are_ratios)


def _words(row: FindingRow) -> str:
    """Return what a tap on a mark shows: comparison, effect, what is claimed unless that is `> 0`, and outcome."""
    claimed = "" if row.claimed == "> 0" else f" (claimed {row.claimed})"
    return f"{row.label}: {format_effect(row)} {row.unit}{claimed}, {row.outcome}".replace("-", "\u2212")
