"""What the entries of several families are built from."""

from __future__ import annotations

import math
from typing import TypedDict

from pretraining.paper_settings import SHAPES

# Half and double where printed intervals are the narrowest and the widest (median half-width 0.12 and 0.62).
MARGINS = {"SC": 0.5, "TC": 0.25, "QA": 1.0, "IR": 0.5}
"""Differences in points below which two scores count as comparable or on par; docs/claims.md says why these."""


class Region(TypedDict, total=False):
    """The claimed region of a contrast, in points; above 0 where nothing is said."""

    low: float
    high: float


BELOW = Region(low=-math.inf, high=0.0)
SIZES = tuple(SHAPES)
FULL = "42k"
"""The full budget, as names print it."""


def mlm(size: str) -> str:
    """Return the MLM model of a size at the full budget, 40 % masked."""
    return f"{size}-mlm40-{FULL}"


def clm(size: str) -> str:
    """Return the CLM model of a size at the full budget."""
    return f"{size}-clm-{FULL}"


def not_behind(task: str) -> Region:
    """Return the claimed region of a score of a task that is "on par" or "competitive" with another."""
    return Region(low=-MARGINS[task])


def within(task: str) -> Region:
    """Return the claimed region of two scores of a task that are comparable."""
    return Region(low=-MARGINS[task], high=MARGINS[task])
