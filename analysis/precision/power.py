"""The power of t tests: what they find, and how many seeds they need to find it."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

__all__ = ["MOST_SEEDS", "PlannedTest", "fewest", "seeds_needed", "seeds_needed_paired"]

MOST_SEEDS = 100_000
"""More of anything are not said to be enough."""


class PlannedTest(NamedTuple):
    """A two-sided t test of a difference."""

    name: str
    parts: npt.NDArray[np.float64]
    """(n, 3) independent parts of the squared error: variance, degrees of freedom (infinite: known), how many of it."""
    alpha: float = 0.05
    """Its level."""
    wider: float = 1.0
    """By how much its limit is farther out than Student's."""

    @property
    def error(self) -> float:
        """Standard error."""
        return math.sqrt(self.parts[:, 2] @ self.parts[:, 0])

    def power(self, effect: float) -> float:
        """Return the chance that it finds a difference of `effect`; 1 without any error.

        The statistic is a noncentral t with Satterthwaite's degrees of freedom. A test has to estimate these, and on
        average finds too few, which sets its limit: for five seeds of two models 6.7 in place of 8.
        """
        variance, freedom, count = self.parts.T
        total, uncertain = self.error**2, count * variance**2 / freedom
        if total == 0:
            return 1.0
        own = seen = math.inf
        if uncertain.any():
            own = total**2 / uncertain.sum()
            seen = (total**2 + 2 * uncertain.sum()) / (uncertain * (1 + 2 / freedom)).sum()
        limit, shift = self.wider * special.stdtrit(seen, 1 - self.alpha / 2), effect / self.error
        # A far tail on the other side, below 1e-7, is nan now and then.
        return float(np.nansum(special.nctdtr(own, [-shift, shift], -limit)))

    def detectable(self, power: float = 0.8) -> float:
        """Return the difference that it finds with `power`, which is above its level."""
        from scipy import optimize  # takes longer to import than a plan to make

        most = self.error
        while self.power(most) < power:
            most *= 2
        return float(optimize.brentq(lambda effect: self.power(effect) - power, 0, most)) if most else 0.0


def seeds_needed(effect: float, sd: float, power: float = 0.8, alpha: float = 0.05) -> int | None:
    """Return the fewest seeds a model with which Welch's test reaches `power`; None above `MOST_SEEDS`."""
    return fewest(
        lambda n: PlannedTest("Welch", np.array([(sd**2 / n, n - 1, 2)]), alpha).power(effect), power, 2
    )


def seeds_needed_paired(effect: float, sd: float, power: float = 0.8, alpha: float = 0.05) -> int | None:
    """Return the same for models paired by seed, whose differences have the standard deviation `sd`."""
    return fewest(
        lambda n: PlannedTest("paired", np.array([(sd**2 / n, n - 1, 1)]), alpha).power(effect), power, 2
    )


def fewest(power_at: Callable[[int], float], power: float, least: int, most: int = MOST_SEEDS) -> int | None:
    """Return the smallest number from `least` to `most` with so much power, which rises from `least` + 1 on; or None.

    One unit whose spread is given has no degrees of freedom to lose, so that two can have less power.
    """
    if power_at(least) >= power:
        return least
    more = range(least + 1, most + 1)
    place = bisect_left(more, True, key=lambda count: power_at(count) >= power)
    return more[place] if place < len(more) else None
