"""Two-sided p's, Welch's estimate of two groups and shares of rejections, for the tests of tests."""

from __future__ import annotations

import numpy as np

from analysis.statistics.estimates import (
    Student,
    welch_estimate,
)


def two_sided(estimate) -> float:
    return 2 * min(estimate.p_above(0.0), estimate.p_below(0.0))


def welch_of(first, second) -> Student:
    values = (first, second)
    return welch_estimate(
        np.array([v.mean() for v in values]),
        np.array([v.std(ddof=1) / np.sqrt(len(v)) for v in values]),
        np.array([float(len(v)) for v in values]),
        np.array([1.0, -1.0]),
    )


def rejections(trials, one):
    """Share of `trials` simulations in which a two-sided p is at most 0.05, and three standard errors of 5 %."""
    return np.mean([one() <= 0.05 for _ in range(trials)]), 3 * np.sqrt(0.05 * 0.95 / trials)
