"""A Bayesian second opinion: is a difference negligible, on one dataset and over datasets as random effects?

One dataset: with a flat prior the posterior of a mean difference is Student's (the correlated t test of Corani and
Benavoli 2015), so the probabilities below, in and above a region of practical equivalence are closed forms.

Over datasets (Corani et al. 2017): each dataset's true difference is normal around a common mean, each estimate
Student's around its dataset's. The prior of the mean is flat; that of the spread between datasets is half a Cauchy
distribution, whose median, the prior's scale, is four margins of practical equivalence. Three datasets say little about
their spread, so the scale matters (docs/sensitivity.md has the curve). The likelihood is a mixture of normals over the
estimates' precisions (Gauss-Laguerre nodes), and mean and spread are integrated on a grid: no sampling, the same digits
everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from analysis.statistics.estimates import Student

__all__ = ["PRIOR_SCALE", "Region", "Second", "hierarchical", "posterior_of_mean", "region_of", "share_below"]

Array = npt.NDArray[np.float64]

PRIOR_SCALE = 4.0
"""Median of the half-Cauchy prior of the spread between datasets, in margins of practical equivalence."""

_PRECISIONS = 24
_AS_NORMAL = 200.0
"""Degrees of freedom above which Student's t is taken as normal."""
_SPREADS = 160
_MEANS = 401
_COARSE_SPREADS, _COARSE_MEANS = 40, 201
_SMALLEST_SPREAD, _LARGEST_SPREAD = 0.02, 5_000.0
"""In margins."""
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
    shares = (np.arange(_SPREADS) + 0.5) / _SPREADS
    spreads = PRIOR_SCALE * np.tan(np.pi / 2 * shares)
    means, [weight] = _posterior(estimates, margins, spreads, np.ones((1, _SPREADS)), _MEANS)
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


def posterior_of_mean(
    estimates: Sequence[Student], margin: float, scales: Sequence[float] = (PRIOR_SCALE,)
) -> tuple[Array, Array]:
    """Return the posterior of the mean over datasets on a coarse grid, under several priors of their spread.

    Args:
        estimates: as in `hierarchical`.
        margin: of practical equivalence, which scales the prior of the spread between datasets.
        scales: the prior's medians, in margins.

    Returns:
        Values in points, (n,), and their probabilities by scale, (n_scales, n).

    Raises:
        ValueError: fewer than two datasets, or one without error.
    """
    ends = np.geomspace(_SMALLEST_SPREAD, _LARGEST_SPREAD, _COARSE_SPREADS)
    prior = np.diff([2 / np.pi * np.arctan(ends / scale) for scale in scales], prepend=0.0, append=1.0)
    spreads = np.concatenate([ends[:1] / 2, np.sqrt(ends[1:] * ends[:-1]), ends[-1:] * 2])
    means, weight = _posterior(estimates, [margin] * len(estimates), spreads, prior, _COARSE_MEANS)
    return margin * means, weight.sum(axis=2)


def share_below(values: Array, weight: Array, bound: float) -> float:
    """Return the probability below `bound` of a density on a grid of ascending values."""
    return float(np.interp(bound, values, weight.cumsum() - weight / 2, left=0.0, right=1.0))


def _region(below: float, above: float) -> Region:
    return Region(below=below, within=max(0.0, 1 - below - above), above=above)


def _posterior(
    estimates: Sequence[Student], margins: Sequence[float], spreads: Array, prior: Array, n_means: int
) -> tuple[Array, Array]:
    """Return means in margins, and joint probabilities of means and spreads: (n_priors, n_means, n_spreads).

    Args:
        estimates: as in `hierarchical`.
        margins: likewise.
        spreads: (n_spreads,) between datasets, in margins.
        prior: (n_priors, n_spreads) their weights.
        n_means: points of the grid of means.
    """
    if len(estimates) < 2 or any(not one.error > 0 for one in estimates):
        raise ValueError("a second opinion needs two datasets or more, each with an error above 0")
    scaled = np.array([
        (one.effect / margin, one.error / margin, one.df)
        for one, margin in zip(estimates, margins, strict=True)
    ])  # fmt: skip
    effects, errors, _ = scaled.T
    steps = np.linspace(-_REACH, _REACH, n_means)
    unit = float(np.sqrt((np.mean(errors**2) + effects.var()) / len(effects)))
    means = float(np.median(effects)) + unit * np.sinh(steps)
    log_weight = np.tile(np.log(np.cosh(steps))[:, None], len(spreads))
    for effect, error, df in scaled:
        log_weight += _log_likelihood(effect - means[:, None], error, df, spreads)
    weight = np.exp(log_weight - log_weight.max()) * prior[:, None, :]
    return means, weight / weight.sum(axis=(1, 2), keepdims=True)


def _log_likelihood(distance: Array, error: float, df: float, spreads: Array) -> Array:
    """Return the log density of an estimate at `distance` from the mean, (means, spreads)."""
    if df > _AS_NORMAL:
        precisions = weights = np.array([1.0])
    else:
        precisions, weights = special.roots_genlaguerre(_PRECISIONS, df / 2 - 1)
        precisions, weights = precisions * 2 / df, weights / weights.sum()
    variances = error**2 / precisions[:, None, None] + spreads**2
    densities = -(distance**2) / (2 * variances)
    np.exp(densities, out=densities)
    densities *= weights[:, None, None]
    densities /= np.sqrt(variances)
    log_density: Array = np.log(np.maximum(densities.sum(axis=0), 1e-300))
    return log_density
