"""Axes of the page: from numbers to shares of a length, with round ticks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = ["Scale", "linear", "logarithmic", "near_zero", "number"]

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


def number(value: float) -> str:
    """Return a tick's text: as few digits as it needs, with a minus sign."""
    return f"{value:.10g}".replace("-", "\u2212")


@dataclass(frozen=True, kw_only=True)
class Scale:
    """A range of numbers on a line."""

    low: float
    high: float
    bend: Callable[[float], float]
    """What is linear on the line."""
    ticks: tuple[float, ...]

    def at(self, value: float) -> float:
        """Return where a number is, 0 at `low` and 1 at `high`."""
        low, high = self.bend(self.low), self.bend(self.high)
        return (self.bend(value) - low) / (high - low)

    def inside(self, value: float) -> float:
        """Return the number, or the end of the range that it is beyond."""
        return min(max(value, self.low), self.high)


def linear(low: float, high: float, *, ticks: int = 5) -> Scale:
    """Return a linear axis with about so many ticks."""
    if high <= low:
        low, high = low - 0.5, high + 0.5
    rough = (high - low) / ticks
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(one * power for one in _STEPS if one * power >= rough * (1 - 1e-9))
    places = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    return Scale(low=low, high=high, bend=float, ticks=tuple(round(place * step, 10) for place in places))


def logarithmic(low: float, high: float, ticks: Sequence[float] = ()) -> Scale:
    """Return a logarithmic axis of positive numbers; without `ticks` with those of 1, 2 and 5."""
    if high <= low:
        low, high = low / 1.1, high * 1.1
    round_ones = [one * 10.0**power for power in range(-6, 9) for one in (1, 2, 3, 5, 7)]
    return Scale(
        low=low, high=high, bend=math.log,
        ticks=tuple(tick for tick in ticks or round_ones if low * 0.999 <= tick <= high * 1.001),
    )  # fmt: skip


def near_zero(reach: float) -> Scale:
    """Return an axis from -reach to reach that is linear near 0 and then bends like a logarithm."""
    ticks = tuple(
        tick for tick in (-30.0, -10.0, -3.0, -1.0, 0.0, 1.0, 3.0, 10.0, 30.0) if abs(tick) <= reach
    )
    return Scale(low=-reach, high=reach, bend=math.asinh, ticks=ticks)
