"""What the entries of several families are built from."""

from __future__ import annotations

from benchmarks.protocol import TASKS
from pretraining.paper_settings import SHAPES

__all__ = ["ALL", "FULL", "MARGINS", "SIZES", "clm", "mlm"]


MARGINS = {"SC": 0.5, "TC": 0.25, "QA": 1.0, "IR": 0.5}
"""Differences in points below which two scores count as comparable; see docs/claims.md for why these."""

SIZES = tuple(SHAPES)
ALL = tuple(TASKS)
FULL = "42k"
"""The full budget, as names print it."""


def mlm(size: str) -> str:
    """Return the MLM model of a size at the full budget, 40 % masked."""
    return f"{size}-mlm40-{FULL}"


def clm(size: str) -> str:
    """Return the CLM model of a size at the full budget."""
    return f"{size}-clm-{FULL}"
