"""Closed forms and quadrature against scipy's distributions, another quadrature and sampling."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import special, stats

from analysis.statistics.bayesian import (
    hierarchical,
    posterior_of_mean,
    region_of,
    share_below,
)
from analysis.statistics.estimates import Student


def students(effects, errors, df=4.0):
    return [Student(effect=effect, error=error, df=df) for effect, error in zip(effects, errors, strict=True)]


def written_out(effects, errors, df):
    """P(mean < -1), P(mean > 1), the same of a further dataset, and the median spread: the mean in closed form.

    Given the spread and each estimate's true error (its own times a chi), the mean is normal; those two are summed over
    equal shares of their distributions.
    """
    shares = (np.arange(60) + 0.5) / 60
    chis = [1.0] if np.isinf(df) else np.sqrt(df / stats.chi2.ppf(shares, df))
    spread = 4 * np.tan(
        np.pi / 2 * (np.arange(1_000) + 0.5) / 1_000
    )  # half-Cauchy with a median of four margins
    sums, of_spread = np.zeros(4), np.zeros(len(spread))
    for factors in itertools.product(chis, repeat=len(effects)):
        variances = [(error * chi) ** 2 + spread**2 for error, chi in zip(errors, factors, strict=True)]
        precision = sum(1 / variance for variance in variances)
        centre = sum(effect / one for effect, one in zip(effects, variances, strict=True)) / precision
        evidence = np.exp(
            -sum((effect - centre) ** 2 / one for effect, one in zip(effects, variances, strict=True)) / 2
        )
        evidence /= np.sqrt(precision * np.prod(variances, axis=0))
        of_mean, of_next = np.sqrt(1 / precision), np.sqrt(1 / precision + spread**2)
        for place, z in enumerate(
            [(-1 - centre) / of_mean, (centre - 1) / of_mean, (-1 - centre) / of_next, (centre - 1) / of_next]
        ):
            sums[place] += (evidence * special.ndtr(z)).sum()
        of_spread += evidence
    median = spread[np.searchsorted(of_spread.cumsum(), of_spread.sum() / 2)]
    return [*(sums / of_spread.sum()), median]


@pytest.mark.parametrize(
    ("effects", "errors", "df"),
    [
        ([1.5, 0.2, 2.5], [0.4, 0.6, 0.5], np.inf),
        ([-1.2, 0.4], [0.5, 0.9], np.inf),
        ([-1.5, -0.2, -2.5, 0.3], [0.4, 0.6, 0.5, 0.2], np.inf),
        ([-1.2, 0.4], [0.5, 0.9], 2.0),
        ([2.6, 0.4], [0.9, 0.6], 3.0),
    ],
)
def test_over_datasets_every_number_is_that_of_the_posterior_written_out(effects, errors, df):
    result = hierarchical(students(effects, errors, df), [1.0] * len(effects))
    *probabilities, median = written_out(effects, errors, df)
    regions = result.mean, result.next_dataset
    found = [share for region in regions for share in (region.below, region.above)]
    assert found == pytest.approx(probabilities, abs=1e-3)
    for region in regions:
        assert region.below + region.within + region.above == pytest.approx(1)
    assert result.spread == pytest.approx(median, rel=4e-3)
    assert result.n_datasets == len(effects)


def test_from_200_degrees_of_freedom_the_step_to_the_normal_cannot_be_seen():
    exact, normal = (
        hierarchical(students([1.5, 0.2, 2.5], [0.4, 0.6, 0.5], df), [1.0] * 3) for df in (199.0, np.inf)
    )
    assert exact.mean.above == pytest.approx(normal.mean.above, abs=1e-3)
    assert exact.next_dataset.below == pytest.approx(normal.next_dataset.below, abs=1e-3)


def test_a_hundred_datasets_neither_underflow_nor_overflow():
    result = hierarchical(students([1e4] * 100, [1e5] * 100, np.inf), [1.0] * 100)
    assert result.mean.above == pytest.approx(stats.norm.sf(1, 1e4, 1e4), abs=1e-3)
    assert result.mean.below == pytest.approx(stats.norm.cdf(-1, 1e4, 1e4), abs=1e-3)


def test_no_probability_is_negative_by_rounding():
    """Where the margin is next to nothing, what is below and above it adds up to one or a digit more."""
    rng = np.random.default_rng(4)
    for effect, error in rng.normal(size=(200, 2)):
        assert 0 <= region_of(Student(effect=effect, error=abs(error), df=np.inf), 0.0).within < 1e-15
    for effects in rng.normal(size=(10, 2)):
        result = hierarchical(students(effects, [0.5, 0.5], np.inf), [1e-17] * 2)
        assert result.mean.within >= 0 and result.next_dataset.within >= 0


@pytest.mark.parametrize("margin", [0.5, 2.0])
def test_the_posterior_in_points_is_that_in_margins(margin):
    estimates = students([1.5, 0.2, 2.5], [0.4, 0.6, 0.5])
    values, [shares] = posterior_of_mean(estimates, margin)
    assert values.shape == shares.shape and shares.sum() == pytest.approx(1)
    fine = hierarchical(estimates, [margin] * 3).mean
    assert share_below(values, shares, -margin) == pytest.approx(fine.below, abs=2e-3)
    assert 1 - share_below(values, shares, margin) == pytest.approx(fine.above, abs=2e-3)


def test_the_grid_of_means_has_the_median_effect_in_its_middle_and_reaches_4000_standard_errors():
    """Few datasets leave heavy tails; the unit is that of a mean of effects with errors and a spread of their own."""
    effects, errors = np.array([0.2, 2.5, 1.5, 0.3, 0.9]), np.array([0.4, 0.6, 0.5, 0.1, 0.2])
    values, _ = posterior_of_mean(students(effects, errors), 1.0)
    assert values[len(values) // 2] == pytest.approx(0.9)
    variance = (sum(errors**2) / 5 + sum((effects - sum(effects) / 5) ** 2) / 5) / 5
    reach = 4000 * np.sqrt(variance)
    assert [values[0] - 0.9, values[-1] - 0.9] == pytest.approx([-reach, reach], rel=0.05)
    assert (np.diff(values) > 0).all()


@pytest.mark.parametrize(
    ("bound", "share"), [(-5, 0.0), (0, 0.1), (1, 0.4), (1.5, 0.55), (2, 0.7), (4, 0.9), (4.5, 1.0)]
)
def test_the_share_below_a_grid_value_holds_half_of_that_value(bound, share):
    assert share_below(np.array([0.0, 1, 2, 4]), np.array([0.2, 0.4, 0.2, 0.2]), bound) == pytest.approx(
        share
    )


def test_one_difference_has_the_posterior_of_the_correlated_t_test():
    posterior = stats.t(4, 0.3, 0.4)
    region = region_of(Student(effect=0.3, error=0.4, df=4), 0.5)
    assert (region.below, region.above) == pytest.approx((posterior.cdf(-0.5), posterior.sf(0.5)))
    assert region.below + region.within + region.above == pytest.approx(1)
    certain = region_of(Student(effect=2.0, error=0.0, df=4), 0.5)
    assert (certain.below, certain.within, certain.above) == (0, 0, 1)


def test_margins_put_datasets_of_other_metrics_on_one_scale():
    one = hierarchical(students([1.0, 2.0], [0.5, 0.5]), [1.0, 1.0])
    other = hierarchical(students([10.0, 0.2], [5.0, 0.05]), [10.0, 0.1])
    assert one.mean.above == pytest.approx(other.mean.above)


def test_without_two_datasets_or_without_error_there_is_nothing_to_say():
    for errors in ([0.3], [], [0.0], [0.0, 0.0], [0.3, 0.0], [0.3, np.nan]):
        with pytest.raises(ValueError, match="two datasets"):
            hierarchical(students([1.0, 2.0][: len(errors)], errors), [1.0] * len(errors))


@pytest.mark.parametrize("margins", [[1.0], [1.0] * 3])
def test_every_dataset_needs_its_margin(margins):
    with pytest.raises(ValueError, match="zip"):
        hierarchical(students([1.0, 2.0], [0.5, 0.5]), margins)
