"""Closed forms and quadrature against scipy's distributions, another quadrature and sampling."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from analysis.statistics.bayesian import PRIOR_SCALE, hierarchical, region_of
from analysis.statistics.estimates import Student


def students(effects, errors, df=4.0):
    return [Student(effect=effect, error=error, df=df) for effect, error in zip(effects, errors, strict=True)]


def test_one_difference_has_the_posterior_of_the_correlated_t_test():
    posterior = stats.t(4, 0.3, 0.4)
    region = region_of(Student(effect=0.3, error=0.4, df=4), 0.5)
    assert (region.below, region.above) == pytest.approx((posterior.cdf(-0.5), posterior.sf(0.5)))
    assert region.below + region.within + region.above == pytest.approx(1)
    certain = region_of(Student(effect=2.0, error=0.0, df=4), 0.5)
    assert (certain.below, certain.within, certain.above) == (0, 0, 1)


def test_over_datasets_it_agrees_with_another_quadrature():
    """Each dataset's true difference is integrated over the quantiles of its estimate, on a grid of our own."""
    effects, errors, df = [1.5, 0.2, 2.5], [0.4, 0.6, 0.5], 4.0
    means, spreads = np.arange(-40, 42, 0.1) + 0.05, np.exp(np.linspace(np.log(0.02), np.log(200), 60))
    density = np.broadcast_to(1 / (PRIOR_SCALE**2 + spreads**2), (len(means), len(spreads))).copy()
    quantiles = (np.arange(150) + 0.5) / 150
    for effect, error in zip(effects, errors, strict=True):
        true = stats.t.ppf(quantiles, df, effect, error)
        distances = (means[:, None] - true) ** 2
        for column, spread in enumerate(spreads):
            density[:, column] *= np.exp(-distances / (2 * spread**2)).mean(axis=1) / spread
    over_means = integrate.trapezoid(density, spreads, axis=1)
    above = over_means[means > 1].sum() / over_means.sum()
    result = hierarchical(students(effects, errors, df), [1.0] * 3)
    assert result.mean.above == pytest.approx(above, abs=0.01)


def test_by_sampling_a_further_dataset_is_less_certain_than_the_mean():
    effects, errors = [1.5, 0.2, 2.5, 1.0], [0.4, 0.6, 0.5, 0.3]
    result = hierarchical(students(effects, errors, np.inf), [1.0] * 4)
    rng = np.random.default_rng(0)
    spread = PRIOR_SCALE * np.abs(rng.standard_cauchy(100_000))
    variances = np.array(errors)[:, None] ** 2 + spread**2
    weights, sums = 1 / variances, (np.array(effects)[:, None] / variances).sum(axis=0)
    precision = weights.sum(axis=0)
    centre = sums / precision
    log = -0.5 * (np.log(variances).sum(axis=0) + np.log(precision)
                  + ((np.array(effects)[:, None] - centre) ** 2 * weights).sum(axis=0))  # fmt: skip
    importance = np.exp(log - log.max())
    importance /= importance.sum()
    mean_above = (importance * stats.norm.sf(1, centre, 1 / np.sqrt(precision))).sum()
    next_above = (importance * stats.norm.sf(1, centre, np.sqrt(1 / precision + spread**2))).sum()
    assert result.mean.above == pytest.approx(mean_above, abs=0.01)
    assert result.next_dataset.above == pytest.approx(next_above, abs=0.01)
    certainty = max(result.next_dataset.above, result.next_dataset.below)
    assert certainty < max(result.mean.above, result.mean.below)


def test_margins_put_datasets_of_other_metrics_on_one_scale():
    one = hierarchical(students([1.0, 2.0], [0.5, 0.5]), [1.0, 1.0])
    other = hierarchical(students([10.0, 0.2], [5.0, 0.05]), [10.0, 0.1])
    assert one.mean.above == pytest.approx(other.mean.above)


def test_many_certain_datasets_alike_leave_no_doubt():
    result = hierarchical(students([0.1, -0.1, 0.05, 0.0] * 4, [0.05] * 16), [1.0] * 16)
    assert result.mean.within > 0.999
    assert result.next_dataset.within > 0.99
    assert result.spread < 0.1


def test_without_two_datasets_or_without_error_there_is_nothing_to_say():
    for wrong in ([1.0], [1.0, 2.0]):
        with pytest.raises(ValueError, match="two datasets"):
            hierarchical(students(wrong, [0.0] * len(wrong)), [1.0] * len(wrong))
