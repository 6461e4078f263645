"""One-way random effects: how much of a score's variance is between pretraining seeds, and how much within them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from analysis.statistics.bounds import LEVEL

__all__ = ["Components", "variance_components"]


@dataclass(frozen=True, kw_only=True)
class Components:
    """Variances of a balanced design of groups of repeats, and their ratio with its interval."""

    groups: int
    repeats: int
    between: float
    """Variance between groups beyond what repeats explain; below 0 where the groups' means differ less than that."""
    within: float
    """Variance of repeats within a group."""
    f: float
    """Mean square between groups over that within."""
    p: float
    """Of "groups do not differ"."""
    ratio_low: float
    """Of the interval of `ratio`, at least 0."""
    ratio_high: float

    @property
    def ratio(self) -> float:
        """`between` over `within`, at least 0."""
        return max(0.0, (self.f - 1) / self.repeats)


def variance_components(values: npt.NDArray[np.float64], level: float = LEVEL) -> Components:
    """Return the components, with the exact interval of their ratio for normal errors (Searle et al. 1992, 3.6).

    F / (1 + n ratio) has the F distribution with a - 1 and a (n - 1) degrees of freedom.

    Args:
        values: (a, n) scores: groups (pretraining seeds) by repeats (fine-tuning seeds), two of each or more.
        level: of the interval.

    Raises:
        ValueError: fewer than two groups or repeats, or values that are missing.
    """
    groups, repeats = values.shape
    if groups < 2 or repeats < 2 or not np.isfinite(values).all():
        raise ValueError("variance components need two groups of two repeats or more, none missing")
    freedom = groups - 1, groups * (repeats - 1)
    means = values.mean(axis=1)
    outer = repeats * float(means.var(ddof=1))
    inner = float(((values - means[:, None]) ** 2).sum()) / freedom[1]
    f = outer / inner if inner > 0 else math.inf if outer > 0 else math.nan
    tail = (1 - level) / 2
    low, high = (
        max(0.0, (f / float(special.fdtri(*freedom, share)) - 1) / repeats) for share in (1 - tail, tail)
    )
    return Components(
        groups=groups, repeats=repeats, between=(outer - inner) / repeats, within=inner, f=f,
        p=float(special.fdtrc(*freedom, f)), ratio_low=low, ratio_high=high,
    )  # fmt: skip
