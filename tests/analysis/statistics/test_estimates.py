"""Each test against another library, a closed form, or a simulation with a known truth."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from analysis.statistics.estimates import (
    Resampled,
    Student,
    expanded_bootstrap,
    paired_estimate,
    seed_bootstrap,
    studentised_estimate,
    welch_estimate,
)
from analysis.statistics.interval_kinds import INTERVALS, Sample
from analysis.statistics.resampling import Resamples, draw_picks, every_resample, resampled_means
from tests.analysis.simulated import rejections, two_sided, welch_of


@pytest.mark.parametrize("df", [1.0, 4.5, np.inf])
@pytest.mark.parametrize("error", [0.4, 1.0])
@pytest.mark.parametrize("bound", [-1.0, 0.25, 2.0])
def test_a_students_ps_are_the_tails_of_its_distribution_around_the_effect(df, error, bound):
    estimate, around = Student(effect=0.3, error=error, df=df), stats.t(df, 0.3, error)
    assert estimate.p_above(bound) == pytest.approx(around.cdf(bound))
    assert estimate.p_below(bound) == pytest.approx(around.sf(bound))
    assert estimate.interval(0.8) == pytest.approx(around.interval(0.8))
    assert estimate.instance_share == 0  # instances are held fixed unless somebody says otherwise


@pytest.mark.parametrize(
    ("bound", "above", "below"), [(-3.0, 0, 1), (1.5, 0, 1), (2.0, 1, 1), (2.5, 1, 0), (7.0, 1, 0)]
)
def test_an_effect_without_error_is_certain_of_all_but_its_own_value(bound, above, below):
    estimate = Student(effect=2.0, error=0.0, df=4.0)
    assert (estimate.p_above(bound), estimate.p_below(bound)) == (above, below)
    assert estimate.interval() == (2.0, 2.0)


def test_welch_is_scipys():
    rng = np.random.default_rng(0)
    for counts in ((5, 5), (3, 5), (2, 9)):
        first, second = rng.normal(1, 1, counts[0]), rng.normal(0, 3, counts[1])
        ours, theirs = welch_of(first, second), stats.ttest_ind(first, second, equal_var=False)
        assert two_sided(ours) == pytest.approx(theirs.pvalue, rel=1e-12)
        assert ours.df == pytest.approx(theirs.df, rel=1e-12)
        np.testing.assert_allclose(ours.interval(), theirs.confidence_interval(0.95), rtol=1e-12)


def test_welch_from_printed_cells_is_scipys_from_statistics():
    # SST-2 at 610M as published: 91.42 +- 0.62 against 91.10 +- 0.39.
    sds = np.array([0.62, 0.39]) / 1.96 * np.sqrt(5)
    theirs = stats.ttest_ind_from_stats(91.42, sds[0], 5, 91.10, sds[1], 5, equal_var=False)
    ours = welch_estimate(
        np.array([91.42, 91.10]), np.array([0.62, 0.39]) / 1.96, np.array([5.0, 5.0]), np.array([1.0, -1.0])
    )
    assert two_sided(ours) == pytest.approx(theirs.pvalue, rel=1e-12)


def test_a_sum_of_four_cells_has_satterthwaites_degrees_of_freedom():
    errors, weights = np.array([0.1, 0.2, 0.3, 0.05]), np.array([1.0, -1.0, -1.0, 1.0])
    estimate = welch_estimate(np.array([4.0, 1.0, 2.0, 3.0]), errors, np.full(4, 5.0), weights)
    variances = errors**2
    assert estimate.effect == pytest.approx(4.0)
    assert estimate.error == pytest.approx(np.sqrt(variances.sum()))
    assert estimate.df == pytest.approx(4 * variances.sum() ** 2 / (variances**2).sum())


@pytest.mark.parametrize(("errors", "error", "df"), [([0.0, 0.0], 0, 2), ([0.6, 0.8], 1, None)])
def test_cells_without_spread_have_an_exact_sum_with_the_fewest_degrees_of_freedom(errors, error, df):
    counts = np.array([5.0, 3.0])
    estimate = welch_estimate(np.array([91.5, 90.0]), np.array(errors), counts, np.array([1.0, -1.0]))
    satterthwaite = 1 / (0.36**2 / 4 + 0.64**2 / 2)
    assert (estimate.effect, estimate.error) == pytest.approx((1.5, error))
    assert estimate.df == pytest.approx(satterthwaite if df is None else df)


def test_the_order_of_the_cells_changes_no_digit():
    """So no processor's way of adding does, and an effect on a printed tie prints alike everywhere."""
    rng = np.random.default_rng(3)
    arrays = [rng.normal(90, 3, 8), rng.random(8), np.full(8, 5.0), rng.normal(0, 0.1, 8)]
    estimates = {
        (found.effect, found.error, found.df)
        for order in (rng.permutation(8) for _ in range(50))
        for found in [welch_estimate(*(values[order] for values in arrays))]
    }
    assert len(estimates) == 1


def test_paired_is_scipys():
    rng = np.random.default_rng(1)
    first, second = rng.normal(0.5, 1, 5), rng.normal(0, 1, 5)
    ours, theirs = paired_estimate(first - second), stats.ttest_rel(first, second)
    assert two_sided(ours) == pytest.approx(theirs.pvalue, rel=1e-12)
    np.testing.assert_allclose(ours.interval(), theirs.confidence_interval(0.95), rtol=1e-12)


def test_the_bootstraps_have_the_bounds_of_the_intervals():
    rng = np.random.default_rng(5)
    values = rng.exponential(1.0, 5)
    sample = Sample(values=values, pick=lambda seeds: draw_picks(seeds, 100, rng))
    for name in ("bootstrap", "bca", "expanded", "bootstrap-t", "studentised"):
        interval = INTERVALS[name]
        assert interval.paired is not None
        estimate, _ = interval.paired.estimate(sample)
        np.testing.assert_allclose(estimate.interval(), interval.bounds(sample), rtol=1e-9, err_msg=name)


def drawn(count: int, many: int, seed: int) -> Resamples:
    picks = draw_picks(count, many, np.random.default_rng(seed))
    return Resamples(picks=picks, counts=np.ones(many, dtype=np.int64))


@pytest.mark.parametrize("name", ["expanded", "bootstrap-t", "studentised"])
@pytest.mark.parametrize("count", [5, 12])
def test_the_p_of_a_bootstrap_is_the_level_at_which_its_interval_touches_the_bound(name, count):
    values = np.random.default_rng(9).exponential(1.0, count)
    sample = Sample(values=values, pick=lambda seeds: drawn(seeds, 20_000, 3).picks)
    paired = INTERVALS[name].paired
    assert paired is not None
    estimate, _ = paired.estimate(sample)
    for level in (0.8, 0.9, 0.95):
        low, high = estimate.interval(level)
        step = 1e-6 * (high - low)
        # A resample's share is a step of the distribution: outside the bound p is at most the level, inside at least.
        for outside, inside, p_of in (
            (low - step, low + step, estimate.p_above), (high + step, high - step, estimate.p_below)
        ):  # fmt: skip
            assert p_of(outside) <= (1 - level) / 2 + 3e-3
            assert p_of(inside) >= (1 - level) / 2 - 3e-3


def test_bca_agrees_with_scipys():
    values = np.random.default_rng(6).exponential(1.0, 12)
    resamples = drawn(12, 40_000, 7)
    means = resampled_means(values, resamples.picks)
    theirs = stats.bootstrap(
        (values,), np.mean, n_resamples=40_000, method="BCa", rng=np.random.default_rng(8), vectorized=True
    ).confidence_interval
    np.testing.assert_allclose(
        seed_bootstrap(values, means, resamples, bca=True).interval(), theirs, atol=0.03
    )


@pytest.mark.parametrize("bca", [False, True])
def test_a_bootstrap_p_is_the_level_at_which_its_interval_touches_the_bound(bca):
    values = np.random.default_rng(9).exponential(1.0, 12)
    resamples = drawn(12, 20_000, 10)
    estimate = seed_bootstrap(values, resampled_means(values, resamples.picks), resamples, bca=bca)
    for level in (0.5, 0.8, 0.95):
        low, high = estimate.interval(level)
        assert estimate.p_above(low) == pytest.approx((1 - level) / 2, abs=5e-3)
        assert estimate.p_below(high) == pytest.approx((1 - level) / 2, abs=5e-3)


def test_a_bootstrap_never_claims_more_than_its_draws_can_tell():
    draws = np.random.default_rng(11).normal(1, 0.01, 500)
    estimate = Resampled.of(1.0, draws, np.ones(500, dtype=np.int64))
    assert estimate.p_above(0.0) == pytest.approx(0.5 / 500)
    assert estimate.p_below(0.0) == pytest.approx(1 - 0.5 / 500)


def expected_level(bound, draws, resolution=1e-12):
    """Share of the draws below a bound, ties counted half, at least half a draw from 0 and 1."""
    below = sum(1.0 for draw in draws if draw < bound - resolution)
    ties = sum(1.0 for draw in draws if abs(draw - bound) <= resolution)
    return min(max(below + ties / 2, 0.5), len(draws) - 0.5) / len(draws)


@pytest.mark.parametrize("bound", [-9, -1, -1 - 1.5e-12, -0.5, 0, 1.5e-12, 5e-13, 1, 3, 3.5, 99])
def test_a_bootstraps_p_is_the_share_of_the_draws_below_with_ties_counted_half(bound):
    draws, counts = np.array([3.0, 0.0, -1.0, 1.0]), np.array([1, 5, 2, 4])
    estimate = Resampled.of(0.5, draws, counts)
    level = expected_level(bound, np.repeat(draws, counts))
    assert estimate.p_above(bound) == pytest.approx(level, rel=1e-9)
    assert estimate.p_below(bound) == pytest.approx(1 - level, rel=1e-9)


@pytest.mark.parametrize(
    ("effect", "bound", "unit"),
    [(0.0, 1e6, 1e6), (1e6, 0.0, 1e6), (0.0, -1e6, 1e6), (-1e6, 0.0, 1e6), (0.0, 0.0, 1), (-0.2, 0.1, 1)],
)
def test_ties_are_as_coarse_as_the_digits_of_the_larger_of_effect_and_bound(effect, bound, unit):
    """And at least as coarse as those of numbers about 1."""
    draws = bound + unit * 1e-12 * np.array([-2, 0.5, 0.7, 2, 3])
    estimate = Resampled.of(effect, draws, np.ones(5, dtype=np.int64))
    assert estimate.p_above(bound) == pytest.approx((1 + 2 / 2) / 5)


@pytest.mark.parametrize("tail", [0.05, 0.15, 0.35])
def test_a_bootstrap_with_a_tail_of_its_own_shrinks_the_share_of_the_nearer_end(tail):
    """Such as one that cuts off the square of the tail: the p's are those of its interval at either end."""
    draws = np.arange(1.0, 1001)
    estimate = Resampled.of(
        500.5, draws, np.ones(1000, dtype=np.int64),
        expand=lambda level: ((1 - level) / 2) ** 2, shrink=lambda share: share**0.5,
    )  # fmt: skip
    low, high = estimate.interval(1 - 2 * tail)
    assert (low, high) == pytest.approx((1 + 999 * tail**2, 1000 - 999 * tail**2))
    for nearer, farther in ((estimate.p_above, estimate.p_below), (estimate.p_below, estimate.p_above)):
        bound = low if nearer == estimate.p_above else high
        assert nearer(bound) == pytest.approx(tail, abs=5e-3)
        assert farther(bound) == pytest.approx(1 - tail, abs=5e-3)


@pytest.mark.parametrize("count", [2, 3, 6])
def test_an_expanded_bootstrap_of_normal_draws_has_students_p(count):
    """Draws with the spread of a bootstrap of normal seeds: sqrt((n - 1) / n) of a standard error."""
    values = np.array([-1.0, 1.0, *np.zeros(count - 2)])
    error = values.std(ddof=1) / np.sqrt(count)
    normal = stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000, 0, error * np.sqrt((count - 1) / count))
    flat = Resamples(picks=np.zeros((20_000, count), dtype=np.int64), counts=np.ones(20_000, dtype=np.int64))
    estimate = expanded_bootstrap(values, normal, flat)
    for bound in (-1.2 * error, 0.1 * error, 0.9 * error):
        assert estimate.p_above(bound) == pytest.approx(stats.t.cdf(bound / error, count - 1), abs=1e-3)
        assert estimate.p_below(bound) == pytest.approx(stats.t.sf(bound / error, count - 1), abs=1e-3)


@pytest.mark.parametrize("symmetric", [True, False])
def test_a_studentised_bootstrap_without_a_single_spread_is_students_t(symmetric):
    values = np.array([0.3, 1.1, 0.2])
    flat = Resamples(picks=np.array([[0, 0, 0], [2, 2, 2]]), counts=np.array([1, 1]))
    estimate = studentised_estimate(values, values[flat.picks], flat, symmetric=symmetric)
    theirs = stats.ttest_1samp(values, 0.1, alternative="greater")
    assert estimate.p_above(0.1) == pytest.approx(theirs.pvalue)
    assert estimate.interval() == pytest.approx(stats.t.interval(0.95, 2, values.mean(), stats.sem(values)))


@pytest.mark.parametrize("bca", [False, True])
def test_a_bootstrap_corrects_for_skewness_only_where_it_is_asked_to(bca):
    values = np.array([0.0, 1.0, 1.5, 8.0])
    every = every_resample(4)
    estimate = seed_bootstrap(values, resampled_means(values, every.picks), every, bca=bca)
    assert estimate.acceleration == pytest.approx(stats.skew(values) / 12 if bca else 0)
    assert (estimate.bias != 0) == bca and estimate.effect == pytest.approx(2.625)


def test_type_one_error_of_welch_and_paired():
    rng = np.random.default_rng(13)
    share, error = rejections(4_000, lambda: two_sided(welch_of(rng.normal(0, 1, 5), rng.normal(0, 1, 5))))
    assert abs(share - 0.05) < error + 0.006  # Welch at n = 5 is known to be a touch conservative
    share, error = rejections(4_000, lambda: two_sided(paired_estimate(rng.normal(0, 1, 5))))
    assert abs(share - 0.05) < error
