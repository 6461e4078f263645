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
        decided = [row for row in rows if not row.missing and math.isfinite(row.effect)]
        if not decided:
            return None
        are_ratios = decided[0].unit.startswith("ratio")

        def scaled(value: float) -> float:
            """Return a value on the axis' scale, 0 for no effect: bent, linear or, of ratios, logarithmic."""
            if are_ratios:
                return math.log(value) if value > 0 else -math.inf
            return math.asinh(value) if bent else value

        def mirrored(row: FindingRow, *values: float) -> list[float]:
            """Return values on that scale in order, with the other sign where the claim is below a number."""
            sign = (
                -1
                if math.isinf(row.region_low) and math.isfinite(row.region_high)
                else 1
            )
            return sorted(
                sign * scaled(value) for value in values if not math.isnan(value)
            )

        bars = [mirrored(row, row.low, row.effect, row.high) for row in decided]
        finite = [0.0, *(end for bar in bars for end in bar if math.isfinite(end))]
        margin = 0.05 * (max(finite) - min(finite) or 1.0)
        left, right = min(finite) - margin, max(finite) + margin

        def percent(coordinate: float) -> float:
            """Return how far from the axis' left end that is, in percent of it; beyond its ends, the end."""
            return round(
                100 * (min(max(coordinate, left), right) - left) / (right - left), 2
            )

        marks = {
            row.label: Mark(
                row=row,
                label=_words(row),
                counted=row.mark in (HOLDS.name, FAILS.name),
                at=percent(mirrored(row, row.effect)[0]),
                low=percent(bar[0]),
                high=percent(bar[-1]),
                claim=[
                    percent(end)
                    for end in mirrored(row, row.region_low, row.region_high)
                ],
            )
            for row, bar in zip(decided, bars, strict=True)
        }
        ticks: dict[float, str] = {}
        candidates = [
            value
            for value in (_RATIOS if are_ratios else _TICKS)
            if left <= scaled(value) <= right
        ]
        # No effect first, then the outermost, then those between for which there is room.
        for value in sorted(
            candidates, key=lambda value: (scaled(value) != 0, -abs(scaled(value)))
        ):
            if all(abs(percent(scaled(value)) - other) >= _APART for other in ticks):
                text = f"{value:g}" if are_ratios or not value else f"{value:+g}"
                ticks[percent(scaled(value))] = text.replace("-", "\u2212")
        return cls(
            marks=marks,
            ticks=sorted(ticks.items()),
            zero=percent(0.0),
            bent=bent and not are_ratios,
        )


def _words(row: FindingRow) -> str:
    """Return what a tap on a mark shows: comparison, effect, what is claimed unless that is `> 0`, and outcome."""
    claimed = "" if row.claimed == "> 0" else f" (claimed {row.claimed})"
    return (
        f"{row.label}: {format_effect(row)} {row.unit}{claimed}, {row.outcome}".replace(
            "-", "\u2212"
        )
    )
