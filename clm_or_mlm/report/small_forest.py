"""A small forest: comparisons as marks on one axis, of which right supports what is claimed, for a page to place."""

from __future__ import annotations

import math
from collections.abc import Iterable
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


@dataclass(kw_only=True)
class _Axis:
    """The axis of a forest: 0 on its scale is no effect."""

    are_ratios: bool
    bent: bool
    left: float = 0.0
    """Its ends, on its scale."""
    right: float = 0.0

    def scaled(self, value: float) -> float:
        """Return a value on the axis' scale: bent, linear or, of ratios, logarithmic."""
        if self.are_ratios:
            return math.log(value) if value > 0 else -math.inf
        return math.asinh(value) if self.bent else value

    def mirrored(self, result: Result, *values: float) -> list[float]:
        """Return values on that scale in order, with the other sign where the claim is below a number."""
        claimed = result.comparison
        is_below = math.isinf(claimed.low) and math.isfinite(claimed.high)
        sign = -1 if is_below else 1
        # A comparison without an interval has nan for its ends.
        known = [value for value in values if not math.isnan(value)]
        return sorted(sign * self.scaled(value) for value in known)

    def stretch(self, ends: Iterable[float]) -> None:
        """Let the axis hold no effect and all finite ends, with a margin."""
        finite = [0.0, *filter(math.isfinite, ends)]
        # The margin is a share of the width, which is 0 where all ends are 0.
        width = max(finite) - min(finite) or 1.0
        margin = 0.05 * width
        self.left = min(finite) - margin
        self.right = max(finite) + margin

    def percent(self, coordinate: float) -> float:
        """Return how far from the axis' left end that is, in percent of it; beyond its ends, the end."""
        inside = min(max(coordinate, self.left), self.right)
        return round(100 * (inside - self.left) / (self.right - self.left), 2)

    def ticks(self) -> list[tuple[float, str]]:
        """Return the place and the text of each tick, from the left."""
        values = _RATIOS if self.are_ratios else _TICKS
        scaled = {value: self.scaled(value) for value in values}
        shown = [value for value in values if self.left <= scaled[value] <= self.right]
        # Ticks are placed in this order: no effect, then the outermost, then those between that still have room.
        shown.sort(key=lambda value: (scaled[value] != 0, -abs(scaled[value])))
        ticks: dict[float, str] = {}
        for value in shown:
            place = self.percent(scaled[value])
            if all(abs(place - other) >= _APART for other in ticks):
                has_sign = not self.are_ratios and value != 0
                text = f"{value:+g}" if has_sign else f"{value:g}"
                ticks[place] = text.replace("-", "\u2212")
        return sorted(ticks.items())


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
        """Return the forest of a finding's known comparisons in one unit; None where no comparison is known.

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
        axis = _Axis(are_ratios=are_ratios, bent=bent and not are_ratios)
        bars = [axis.mirrored(one, one.low, one.effect, one.high) for one in decided]
        axis.stretch(end for bar in bars for end in bar)
        marks = {}
        for one, bar in zip(decided, bars, strict=True):
            claimed = one.comparison
            region = axis.mirrored(one, claimed.low, claimed.high)
            [effect] = axis.mirrored(one, one.effect)
            marks[one.label] = Mark(
                result=one,
                counted=judged.marks[one.label] in (HOLDS.name, FAILS.name),
                at=axis.percent(effect),
                low=axis.percent(bar[0]),
                high=axis.percent(bar[-1]),
                claim=[axis.percent(end) for end in region],
            )
        return cls(
            marks=marks,
            ticks=axis.ticks(),
            zero=axis.percent(0.0),
            bent=axis.bent,
        )
