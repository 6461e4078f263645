"""A Bayesian second opinion: is a difference negligible, on one dataset and over datasets as random effects?

One dataset: with a flat prior the posterior of a mean difference is Student's (the correlated t test of Corani and
Benavoli 2015), so the probabilities below, in and above a region of practical equivalence are closed forms.

Over datasets (Corani et al. 2017): each dataset's true difference is normal around a common mean, each estimate
Student's around its dataset's. The likelihood is a mixture of normals over the estimates' precisions (Gauss-Laguerre
nodes), and mean and spread of the datasets are integrated on a grid: no sampling, the same digits everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from analysis.statistics.estimates import Student

__all__ = ["Region", "Second", "hierarchical", "posterior_of_mean", "region_of", "share_below"]

Array = npt.NDArray[np.float64]

PRIOR_SCALE = 4.0
"""Median of the half-Cauchy prior of the spread between datasets, in margins of practical equivalence."""

_PRECISIONS = 24
_AS_NORMAL = 200.0
"""Degrees of freedom above which Student's t is taken as normal."""
_SPREADS = 160
_MEANS = 401
_REACH = 9.0
"""The grid of means reaches sinh(9), about 4,000 standard errors, since few datasets leave heavy tails."""


@dataclass(frozen=True, kw_only=True)
class Region:
    """Posterior probabilities that a difference is below, in or above the region of practical equivalence."""

    below: float
    within: float
    above: float


@dataclass(frozen=True, kw_only=True)
class Second:
    """What is known over datasets, in units of the margins."""

    mean: Region
    """Of the mean over all datasets that such datasets stand for."""
    next_dataset: Region
    """Of the difference on a further dataset."""
    spread: float
    """Posterior median of the standard deviation between datasets, in margins."""
    n_datasets: int


def region_of(estimate: Student, margin: float) -> Region:
    """Return the posterior of one difference with a flat prior."""
    above, below = 1 - estimate.p_above(margin), 1 - estimate.p_below(-margin)
    return Region(below=below, within=max(0.0, 1 - above - below), above=above)


def hierarchical(estimates: Sequence[Student], margins: Sequence[float]) -> Second:
    """Return the posterior over datasets.

    Args:
        estimates: of the difference on each dataset, two or more, with errors above 0.
        margins: half-width of each dataset's region of practical equivalence: effects are taken in these units, so
            that datasets of other metrics count alike.

    Raises:
        ValueError: fewer than two datasets, one without error, or not a margin for each.
    """
    means, spreads, weight = _posterior(estimates, margins, n_means=_MEANS, n_spreads=_SPREADS)
    of_means = weight.sum(axis=1)
    upper = special.ndtr((means[:, None] - 1) / spreads)
    lower = special.ndtr((-1 - means[:, None]) / spreads)
    of_spreads = weight.sum(axis=0)
    return Second(
        mean=_region(share_below(means, of_means, -1.0), 1 - share_below(means, of_means, 1.0)),
        next_dataset=_region(float((weight * lower).sum()), float((weight * upper).sum())),
        spread=float(np.interp(0.5, of_spreads.cumsum() - of_spreads / 2, spreads)),
        n_datasets=len(estimates),
    )


def posterior_of_mean(estimates: Sequence[Student], margin: float) -> tuple[Array, Array]:
    """Return the posterior of the mean over datasets on a coarse grid: (values in points, their probabilities).

    Args:
        estimates: as in `hierarchical`.
        margin: of practical equivalence, which scales the prior of the spread between datasets.

    Raises:
        ValueError: fewer than two datasets, or one without error.
    """
    margins = [margin] * len(estimates)
    means, _, weight = _posterior(estimates, margins, n_means=201, n_spreads=60)
    return margin * means, weight.sum(axis=1)


def share_below(values: Array, weight: Array, bound: float) -> float:
    """Return the probability below `bound` of a density on a grid of ascending values."""
    return float(np.interp(bound, values, weight.cumsum() - weight / 2, left=0.0, right=1.0))


def _region(below: float, above: float) -> Region:
    return Region(below=below, within=max(0.0, 1 - below - above), above=above)


def _posterior(
    estimates: Sequence[Student], margins: Sequence[float], *, n_means: int, n_spreads: int
) -> tuple[Array, Array, Array]:
    """Return means, spreads (both in margins) and their joint probabilities, (means, spreads)."""
    if len(estimates) < 2 or any(not one.error > 0 for one in estimates):
        raise ValueError("two datasets or more, each with an error above 0")
    scaled = np.array([
        (one.effect / margin, one.error / margin, one.df)
        for one, margin in zip(estimates, margins, strict=True)
    ])  # fmt: skip
    effects, errors, _ = scaled.T
    shares = (np.arange(n_spreads) + 0.5) / n_spreads
    spreads = PRIOR_SCALE * np.tan(np.pi / 2 * shares)  # equal prior weight each
    steps = np.linspace(-_REACH, _REACH, n_means)
    unit = float(np.sqrt((np.mean(errors**2) + effects.var()) / len(effects)))
    means = float(np.median(effects)) + unit * np.sinh(steps)
    log_weight = np.tile(np.log(np.cosh(steps))[:, None], n_spreads)
    for effect, error, df in scaled:
        log_weight += _log_likelihood(effect - means[:, None], error, df, spreads)
    weight = np.exp(log_weight - log_weight.max())
    return means, spreads, weight / weight.sum()


def _log_likelihood(distance: Array, error: float, df: float, spreads: Array) -> Array:
    """Return the log density of an estimate at `distance` from the mean, (means, spreads)."""
    if df > _AS_NORMAL:
        precisions = weights = np.array([1.0])
    else:
        precisions, weights = special.roots_genlaguerre(_PRECISIONS, df / 2 - 1)
        precisions, weights = precisions * 2 / df, weights / weights.sum()
    variances = error**2 / precisions[:, None, None] + spreads**2
    densities = weights[:, None, None] * np.exp(-(distance**2) / (2 * variances)) / np.sqrt(variances)
    log_density: Array = np.log(np.maximum(densities.sum(axis=0), 1e-300))
    return log_density
