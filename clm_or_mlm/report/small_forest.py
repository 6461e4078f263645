"""A small forest: comparisons as marks on one axis, of which right supports what is claimed, for a page to place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from analysis.claims.wording import format_effect, says
from analysis.evidence.contrasts import Result

__all__ = ["Mark", "SmallForest"]

_TICKS = (-30.0, -10.0, -5.0, -3.0, -1.0, -0.3, 0.0, 0.3, 1.0, 3.0, 5.0, 10.0, 30.0)
_RATIOS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_APART = 12.0
"""Percent of the axis between two ticks."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A comparison on the axis; places are percent of it, from the left."""

    result: Result
    label: str
    """What a tap shows."""
    says: str
    """`holds`, `fails` or `open`."""
    at: float
    low: float
    high: float
    claim: tuple[float, float]
    """The claimed region."""


@dataclass(frozen=True, kw_only=True)
class SmallForest:
    """Marks, one below the other, and the ticks of their axis."""

    marks: tuple[Mark, ...]
    ticks: tuple[tuple[float, str], ...]
    """Percent of the axis and text, from left to right."""
    zero: float
    """Where no effect is."""

    @classmethod
    def of(cls, results: Sequence[Result], *, bent: bool = True) -> SmallForest | None:
        """Return the forest of those results that are known, of one unit; None where none is.

        Args:
            results: from top to bottom.
            bent: whether the axis is linear near no effect and then logarithmic, as in `figure claims`.
        """
        known = [one for one in results if one.known and math.isfinite(one.effect)]
        if not known:
            return None
        ratios = known[0].comparison.unit.startswith("ratio")

        def place(value: float) -> float:
            if ratios:
                return math.log(value) if value > 0 else -math.inf
            return math.asinh(value) if bent else value

        turned = [-1 if math.isinf(low) and math.isfinite(high) else 1
                  for low, high in (one.comparison.ends for one in known)]  # fmt: skip
        bars = [
            sorted(sign * place(value) for value in (one.low, one.high, one.effect) if math.isfinite(value))
            for sign, one in zip(turned, known, strict=True)
        ]
        finite = [0.0, *(end for bar in bars for end in (bar[0], bar[-1]) if math.isfinite(end))]
        room = 0.05 * (max(finite) - min(finite) or 1.0)
        first, last = min(finite) - room, max(finite) + room

        def percent(placed: float) -> float:
            return round(100 * (min(max(placed, first), last) - first) / (last - first), 2)

        marks = tuple(
            Mark(
                result=one,
                label=_words(one),
                says=says(one),
                at=percent(sign * place(one.effect)),
                low=percent(bar[0]),
                high=percent(bar[-1]),
                claim=(min(ends), max(ends)),
            )
            for one, sign, bar in zip(known, turned, bars, strict=True)
            if (ends := [percent(sign * place(end)) for end in one.comparison.ends])
        )
        every = [(percent(place(value)), value) for value in (_RATIOS if ratios else _TICKS)
                 if first <= place(value) <= last]  # fmt: skip
        return cls(marks=marks, ticks=_spaced(every, percent(0.0), ratios=ratios), zero=percent(0.0))


def _words(result: Result) -> str:
    """Return a comparison with its number, and what it says on its own."""
    claimed = "" if result.comparison.region == "> 0" else f" (claimed {result.comparison.region})"
    number = f"{format_effect(result)} {result.comparison.unit}"
    return f"{result.comparison.label}: {number}{claimed}, {says(result)}".replace("-", "\u2212")


def _spaced(every: list[tuple[float, float]], zero: float, *, ratios: bool) -> tuple[tuple[float, str], ...]:
    """Return no effect, the outermost ticks, and those between for which there is room."""
    shown: list[tuple[float, float]] = []
    for tick in sorted(every, key=lambda tick: (tick[0] != zero, -abs(tick[0] - zero))):
        if all(abs(tick[0] - other) >= _APART for other, _ in shown):
            shown.append(tick)
    form = "{:g}" if ratios else "{:+g}"
    return tuple(
        (at, form.format(value).replace("-", "\u2212") if value else "0") for at, value in sorted(shown)
    )
