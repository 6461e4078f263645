"""A small forest plot: the comparisons of a finding as marks on one axis, whose right side supports the claim.

A mark has the effect and the ends of its interval. All places are computed here, as percent of the axis; a page draws.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from analysis.claims.judged import JudgedFinding
from analysis.claims.verdicts import FAILS, HOLDS, outcome_of
from analysis.claims.wording import format_effect
from analysis.evidence.contrasts import Result

_TICKS = (-30.0, -10.0, -5.0, -3.0, -1.0, -0.3, 0.0, 0.3, 1.0, 3.0, 5.0, 10.0, 30.0)
"""Effects at which an axis may have a tick."""
_RATIOS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Effects that are ratios at which an axis may have a tick."""
_APART = 12.0
"""Least percent of the axis between two ticks."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A comparison on the axis; places are percent of the axis, from the left."""

    result: Result
    at: float
    """Place of the effect."""
    low: float
    """Place of the interval's left end."""
    high: float
    """Place of the interval's right end."""
    counted: bool
    """Whether the verdict counts it as holding or failing."""
    claim: list[float]
    """Places where the claimed region begins and ends."""

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
    """The axis of a forest. On its scale, no effect is at 0: a difference of 0, or a ratio of 1."""

    are_ratios: bool
    bent: bool
    """Whether the scale is linear near 0, then logarithmic."""
    left: float = 0.0
    """The left end, on the scale."""
    right: float = 0.0
    """The right end, on the scale."""

    def scaled(self, value: float) -> float:
        """Return a value on the axis' scale: bent, linear or, of ratios, logarithmic."""
        if self.are_ratios:
            return math.log(value) if value > 0 else -math.inf
        return math.asinh(value) if self.bent else value

    def mirrored(self, result: Result, *values: float) -> list[float]:
        """Return effects of a comparison on the axis' scale, sorted, so that the right side supports its claim.

        A claim such as `< 0` is supported by low effects: for it, all signs are changed. Values that are nan are left
        out.
        """
        # The `low` and `high` of a comparison are the ends of the region that it claims; those of its result
        # are the ends of the interval.
        claimed = result.comparison
        is_below = math.isinf(claimed.low) and math.isfinite(claimed.high)
        sign = -1 if is_below else 1
        # A comparison without an interval has nan for its ends.
        known = [value for value in values if not math.isnan(value)]
        return sorted(sign * self.scaled(value) for value in known)

    def stretch(self, coordinates: Iterable[float]) -> None:
        """Set the ends of the axis so that it holds no effect and all finite coordinates, with a margin."""
        finite = [0.0, *filter(math.isfinite, coordinates)]
        # A width of 0, where all coordinates are 0, would leave no margin.
        width = max(finite) - min(finite) or 1.0
        margin = 0.05 * width
        self.left = min(finite) - margin
        self.right = max(finite) + margin

    def percent(self, coordinate: float) -> float:
        """Return the place of a coordinate: percent of the axis, from its left end; 0 or 100 beyond an end."""
        inside = min(max(coordinate, self.left), self.right)
        return round(100 * (inside - self.left) / (self.right - self.left), 2)

    def ticks(self) -> list[tuple[float, str]]:
        """Return the place and the text of each tick, from the left."""
        values = _RATIOS if self.are_ratios else _TICKS
        scaled = {value: self.scaled(value) for value in values}
        shown = [value for value in values if self.left <= scaled[value] <= self.right]

        # No effect comes first (False sorts before True), then the outermost values: a tick takes its place before
        # those that follow in this order.
        shown.sort(key=lambda value: (scaled[value] != 0, -abs(scaled[value])))
        ticks: dict[float, str] = {}
        for value in shown:
            place = self.percent(scaled[value])
            has_room = all(abs(place - other) >= _APART for other in ticks)
            if has_room:
                has_sign = not self.are_ratios and value != 0
                text = f"{value:+g}" if has_sign else f"{value:g}"
                ticks[place] = text.replace("-", "\u2212")

        return sorted(ticks.items())


@dataclass(frozen=True, kw_only=True)
class SmallForest:
    """Marks, one below the other, and the ticks of their axis."""

    marks: dict[str, Mark]
    """Each comparison's mark, by the comparison's label."""
    ticks: list[tuple[float, str]]
    """Place and text of each tick, from the left."""
    zero: float
    """Place of no effect."""
    bent: bool
    """Whether the axis is linear near no effect and then logarithmic."""

    @classmethod
    def of(cls, judged: JudgedFinding, *, bent: bool = True) -> SmallForest | None:
        """Return the forest of a finding's comparisons that have an effect; None where there is none.

        Args:
            judged: the finding; its comparisons, which have one unit, stand from top to bottom.
            bent: whether an axis of differences is bent, as in `figure claims`; one of ratios is logarithmic anyway.
        """
        shown = [
            result
            for result in judged.known_comparisons
            if math.isfinite(result.effect)
        ]
        if not shown:
            return None
        are_ratios = shown[0].unit.startswith("ratio")
        axis = _Axis(are_ratios=are_ratios, bent=bent and not are_ratios)

        # The axis gets its ends from all bars together before anything is placed on it.
        bars = []
        coordinates: list[float] = []
        for result in shown:
            bar = axis.mirrored(result, result.low, result.effect, result.high)
            bars.append(bar)
            coordinates += bar

        axis.stretch(coordinates)

        # With the ends known, places can be computed.
        marks = {}
        for result, bar in zip(shown, bars, strict=True):
            # As in `mirrored`: the ends of the claimed region, not of the interval.
            claimed = result.comparison
            region = axis.mirrored(result, claimed.low, claimed.high)
            [effect] = axis.mirrored(result, result.effect)

            # A bar is sorted: its ends are the interval's, or the effect itself where there is no interval.
            # `judged.marks` says by label what the verdict counts a comparison as; `outcome` is what it says
            # on its own.
            marks[result.label] = Mark(
                result=result,
                counted=judged.marks[result.label] in (HOLDS.name, FAILS.name),
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
