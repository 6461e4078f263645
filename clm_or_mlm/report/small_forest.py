"""A small forest: comparisons as marks on one axis, of which right supports what is claimed, for a page to place."""

from __future__ import annotations

import math
from dataclasses import dataclass

from analysis.claims.judged import JudgedFinding
from analysis.claims.verdicts import FAILS, HOLDS, outcome_of
from analysis.claims.wording import format_effect
from analysis.evidence.contrasts import Result

_TICKS = (-30.0, -10.0, -5.0, -3.0, -1.0, -0.3, 0.0, 0.3, 1.0, 3.0, 5.0, 10.0, 30.0)
_RATIOS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_APART = 12.0
"""Percent of the axis between two ticks."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A comparison on the axis; places are percent of it, from the left."""

    result: Result
    at: float
    low: float
    high: float
    counted: bool
    """Whether the verdict counts it as holding or failing."""
    claim: list[float]
    """Where the claimed region begins and ends."""

    @property
    def outcome(self) -> str:
        """What the comparison says on its own."""
        return outcome_of(self.result.p_for, self.result.p_against).name

    @property
    def label(self) -> str:
        """What a tap shows: comparison, effect, what is claimed unless that is `> 0`, and outcome."""
        result = self.result
        claimed = "" if result.claimed == "> 0" else f" (claimed {result.claimed})"
        words = f"{result.label}: {format_effect(result)} {result.unit}{claimed}, {self.outcome}"
        return words.replace("-", "\u2212")


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
    def of(cls, judged: JudgedFinding, *, bent: bool = True) -> SmallForest | None:
        """Return the forest of a finding's comparisons that are known, of one unit; None where none is.

        Args:
            judged: whose comparisons stand from top to bottom.
            bent: whether the axis is linear near no effect and then logarithmic, as in `figure claims`.
        """
        decided = [
            result
            for result in judged.known_comparisons
            if math.isfinite(result.effect)
        ]
        if not decided:
            return None
        are_ratios = decided[0].unit.startswith("ratio")

        def scaled(value: float) -> float:
            """Return a value on the axis' scale, 0 for no effect: bent, linear or, of ratios, logarithmic."""
            if are_ratios:
                return math.log(value) if value > 0 else -math.inf
            return math.asinh(value) if bent else value

        def mirrored(result: Result, *values: float) -> list[float]:
            """Return values on that scale in order, with the other sign where the claim is below a number."""
            claimed = result.comparison
            is_below = math.isinf(claimed.low) and math.isfinite(claimed.high)
            sign = -1 if is_below else 1
            return sorted(
                sign * scaled(value) for value in values if not math.isnan(value)
            )

        bars = [mirrored(one, one.low, one.effect, one.high) for one in decided]
        finite = [0.0, *(end for bar in bars for end in bar if math.isfinite(end))]
        margin = 0.05 * (max(finite) - min(finite) or 1.0)
        left, right = min(finite) - margin, max(finite) + margin

        def percent(coordinate: float) -> float:
            """Return how far from the axis' left end that is, in percent of it; beyond its ends, the end."""
            return round(
                100 * (min(max(coordinate, left), right) - left) / (right - left), 2
            )

        marks = {
            one.label: Mark(
                result=one,
                counted=judged.marks[one.label] in (HOLDS.name, FAILS.name),
                at=percent(mirrored(one, one.effect)[0]),
                low=percent(bar[0]),
                high=percent(bar[-1]),
                claim=[
                    percent(end)
                    for end in mirrored(one, one.comparison.low, one.comparison.high)
                ],
            )
            for one, bar in zip(decided, bars, strict=True)
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
