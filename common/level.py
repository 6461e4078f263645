"""The level of every test, and of the intervals that go with it."""

from __future__ import annotations

ALPHA = 0.05
"""Level of every test; several tests are held to it together by Holm's adjustment."""
LEVEL = 1 - ALPHA
"""Nominal coverage of an interval."""
INNER_LEVEL = 1 - 2 * ALPHA
"""That of the interval that goes with two one-sided tests."""


def in_percent(level: float) -> str:
    """Return a level as sentences write it: `95 %`."""
    return f"{100 * level:g} %"


LEVEL_IN_WORDS = in_percent(LEVEL)
