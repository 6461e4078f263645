"""Two-sided p's and Welch's estimate of two groups, for the tests of tests."""

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
