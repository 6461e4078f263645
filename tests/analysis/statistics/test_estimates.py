"""Each test against another library, a closed form, or a simulation with a known truth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import ttost_ind, ttost_paired

from analysis.claims.inference import (
    Resampled,
    Student,
    brown_forsythe,
    crossed_estimate,
    holm,
    paired_estimate,
    partial_conjunction,
    region_p,
    seed_bootstrap,
    spread_ratios,
    welch_estimate,
)
from analysis.statistics import intervals

INF = float("inf")


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


def test_two_one_sided_tests_are_statsmodels():
    rng = np.random.default_rng(2)
    first, second = rng.normal(0.1, 0.3, 5), rng.normal(0, 0.5, 5)
    inside, _ = region_p(paired_estimate(first - second), -0.5, 0.5)
    assert inside == pytest.approx(ttost_paired(first, second, -0.5, 0.5)[0], rel=1e-9)
    inside, _ = region_p(welch_of(first, second), -0.7, 0.7)
    assert inside == pytest.approx(ttost_ind(first, second, -0.7, 0.7, usevar="unequal")[0], rel=1e-9)


def test_equivalence_goes_with_the_90_percent_interval():
    for effect in np.linspace(-1, 1, 41):
        estimate = Student(effect=float(effect), error=0.2, df=6.3)
        low, high = estimate.interval(0.90)
        inside, _ = region_p(estimate, -0.5, 0.5)
        assert (inside <= 0.05) == (low >= -0.5 and high <= 0.5)


def test_one_sided_regions_go_with_the_95_percent_interval():
    for effect in np.linspace(-1, 1, 41):
        estimate = Student(effect=float(effect), error=0.2, df=4.0)
        low, high = estimate.interval()
        p_for, p_against = region_p(estimate, 0.0, INF)
        assert (p_for <= 0.05, p_against <= 0.05) == (low >= 0, high <= 0)
        assert region_p(estimate, -INF, 0.0) == (p_against, p_for)


def test_a_score_without_spread_decides_by_its_sign():
    flat = Student(effect=0.3, error=0.0, df=4.0)
    assert region_p(flat, 0.0, INF) == (0.0, 1.0)
    assert region_p(flat, -0.5, 0.5) == (0.0, 1.0)
    level = Student(effect=0.0, error=0.0, df=4.0)
    assert region_p(level, 0.0, INF) == (1.0, 1.0)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_is_statsmodels(p_values):
    np.testing.assert_allclose(holm(p_values), multipletests(p_values, method="holm")[1], atol=1e-15)


def test_holm_of_nothing_is_nothing():
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9), st.data())
def test_partial_conjunction_lies_between_bonferroni_and_the_largest(p_values, data):
    count = data.draw(st.integers(1, len(p_values)))
    p, place = partial_conjunction(p_values, count)
    assert p == min(1.0, (len(p_values) - count + 1) * sorted(p_values)[count - 1])
    assert p_values[place] == sorted(p_values)[count - 1]
    assert partial_conjunction(p_values, len(p_values))[0] == max(p_values)
    assert partial_conjunction(p_values, 1)[0] == min(1.0, len(p_values) * min(p_values))


def test_three_of_four_is_claimed_wrongly_at_most_once_in_twenty():
    # Two hold beyond doubt, two not at all: "at least three hold" is false.
    rng = np.random.default_rng(3)
    p_values = np.column_stack([np.zeros((20_000, 2)), rng.random((20_000, 2))])
    wrong = np.mean([partial_conjunction(row, 3)[0] <= 0.05 for row in p_values])
    assert wrong <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 20_000)
    assert wrong > 0.04  # it is Bonferroni over the two that are open, so it does not give level away


def test_brown_forsythe_is_an_analysis_of_variance_of_distances_to_the_median():
    rng = np.random.default_rng(4)
    first, second = rng.normal(0, 1, (4, 5)), rng.normal(3, 2, (4, 5))
    distances = [np.abs(group - np.median(group)).ravel() for group in (first, second)]
    assert brown_forsythe(first, second) == pytest.approx(stats.f_oneway(*distances).pvalue, rel=1e-12)
    assert brown_forsythe(np.ones((2, 3)), np.ones((2, 3))) == 1.0


def test_the_bootstraps_are_those_of_the_interval_module():
    rng = np.random.default_rng(5)
    values = rng.exponential(1.0, 5)
    picks = intervals.resample_seeds(5, 4_000, rng)
    np.testing.assert_allclose(
        seed_bootstrap(values, picks).interval(), intervals.percentile_interval(values, picks), rtol=1e-12
    )
    np.testing.assert_allclose(
        seed_bootstrap(values, picks, bca=True).interval(), intervals.bca_interval(values, picks), rtol=1e-9
    )


def test_bca_agrees_with_scipys():
    values = np.random.default_rng(6).exponential(1.0, 12)
    picks = intervals.resample_seeds(12, 40_000, np.random.default_rng(7))
    theirs = stats.bootstrap(
        (values,), np.mean, n_resamples=40_000, method="BCa", rng=np.random.default_rng(8), vectorized=True
    ).confidence_interval
    np.testing.assert_allclose(seed_bootstrap(values, picks, bca=True).interval(), theirs, atol=0.03)


@pytest.mark.parametrize("bca", [False, True])
def test_a_bootstrap_p_is_the_level_at_which_its_interval_touches_the_bound(bca):
    values = np.random.default_rng(9).exponential(1.0, 12)
    picks = intervals.resample_seeds(12, 20_000, np.random.default_rng(10))
    estimate = seed_bootstrap(values, picks, bca=bca)
    for level in (0.5, 0.8, 0.95):
        low, high = estimate.interval(level)
        assert estimate.p_above(low) == pytest.approx((1 - level) / 2, abs=5e-3)
        assert estimate.p_below(high) == pytest.approx((1 - level) / 2, abs=5e-3)


def test_a_bootstrap_never_claims_more_than_its_draws_can_tell():
    estimate = Resampled(effect=1.0, draws=np.sort(np.random.default_rng(11).normal(1, 0.01, 500)))
    assert estimate.p_above(0.0) == pytest.approx(0.5 / 500)
    assert estimate.p_below(0.0) == pytest.approx(1 - 0.5 / 500)


def crossed_data(rng, *, seeds=5, instances=200, seed_sd=0.3, common_sd=1.0, joint_sd=1.0, effect=0.0):
    """Per-instance differences between two models: (n_seeds, n_instances)."""
    return (
        effect
        + rng.normal(0, seed_sd, (seeds, 1))
        + rng.normal(0, common_sd, (1, instances))
        + rng.normal(0, joint_sd, (seeds, instances))
    )


def resample(data, resamples, rng):
    picks = rng.integers(0, data.shape[1], (resamples, data.shape[1]))
    return data[:, picks].mean(axis=2).T


def test_the_crossed_error_is_that_of_the_two_way_layout():
    rng = np.random.default_rng(12)
    data = crossed_data(rng, common_sd=2.0)
    seeds, instances = data.shape
    means = data.mean(axis=1)
    shared = np.cov(data, bias=True)
    off = (shared.sum() - np.trace(shared)) / (seeds * (seeds - 1)) / instances
    estimate = crossed_estimate(means, resample(data, 20_000, rng))
    assert estimate.error**2 == pytest.approx(means.var(ddof=1) / seeds + off, rel=0.03)
    assert estimate.instance_share == pytest.approx(off / (means.var(ddof=1) / seeds + off), rel=0.05)
    assert estimate.effect == pytest.approx(means.mean())


def test_the_crossed_error_is_the_paired_one_without_test_set_noise():
    values = np.array([0.1, 0.4, 0.2, 0.5, 0.3])
    fixed = np.tile(values, (500, 1))
    ours, paired = crossed_estimate(values, fixed), paired_estimate(values)
    assert (ours.error, ours.df) == (pytest.approx(paired.error), pytest.approx(paired.df))


def rejections(trials, one):
    """Share of `trials` simulations in which a two-sided p is at most 0.05, and three standard errors of 5 %."""
    return np.mean([one() <= 0.05 for _ in range(trials)]), 3 * np.sqrt(0.05 * 0.95 / trials)


def test_type_one_error_of_welch_and_paired():
    rng = np.random.default_rng(13)
    share, error = rejections(4_000, lambda: two_sided(welch_of(rng.normal(0, 1, 5), rng.normal(0, 1, 5))))
    assert abs(share - 0.05) < error + 0.006  # Welch at n = 5 is known to be a touch conservative
    share, error = rejections(4_000, lambda: two_sided(paired_estimate(rng.normal(0, 1, 5))))
    assert abs(share - 0.05) < error


@pytest.mark.parametrize(
    ("seed_sd", "common_sd", "joint_sd"), [(0.3, 0.0, 0.5), (0.1, 2.0, 1.0), (0.02, 1.0, 0.5)]
)
def test_type_one_error_of_the_crossed_test(seed_sd, common_sd, joint_sd):
    rng = np.random.default_rng(14)

    def one():
        data = crossed_data(rng, instances=60, seed_sd=seed_sd, common_sd=common_sd, joint_sd=joint_sd)
        return two_sided(crossed_estimate(data.mean(axis=1), resample(data, 150, rng)))

    share, error = rejections(1_500, one)
    # Estimating the share of the instances costs a little where it is zero; 60 instances and 150 resamples too.
    assert abs(share - 0.05) < error + 0.012


def test_type_one_error_of_equivalence_at_its_margin_and_refusal_in_noise():
    rng = np.random.default_rng(15)

    def one(shift, sd):
        return region_p(paired_estimate(rng.normal(shift, sd, 5)), -0.5, 0.5)[0]

    share, error = rejections(4_000, lambda: one(0.5, 0.2))
    assert abs(share - 0.05) < error
    assert rejections(500, lambda: one(0.0, 0.2))[0] > 0.9
    assert rejections(500, lambda: one(0.0, 5.0))[0] < 0.02


def test_type_one_error_of_brown_forsythe_and_of_the_ratio():
    rng = np.random.default_rng(16)
    picks = intervals.resample_seeds(5, 300, rng)

    def both(scale):
        first, second = rng.normal(0, 1, (4, 5)), rng.normal(0, scale, (4, 5))
        logs = np.sort(spread_ratios(first, second, picks))
        ratio = Resampled(effect=float(np.log(first.std(ddof=1) / second.std(ddof=1))), draws=logs)
        return brown_forsythe(first, second), max(brown_forsythe(first, second), two_sided(ratio))

    found = np.array([both(1.0) for _ in range(2_000)])
    error = 3 * np.sqrt(0.05 * 0.95 / 2_000)
    assert (
        abs(np.mean(found[:, 0] <= 0.05) - 0.05) < error + 0.01
    )  # known to be conservative in small samples
    assert np.mean(found[:, 1] <= 0.05) <= 0.05 + error
    shares = [np.mean([both(scale)[1] <= 0.05 for _ in range(300)]) for scale in (1.5, 2.5, 4.0)]
    assert shares[0] < shares[1] < shares[2]


def test_power_rises_with_the_effect():
    rng = np.random.default_rng(17)

    def power(effect):
        def welch():
            return two_sided(welch_of(rng.normal(effect, 1, 5), rng.normal(0, 1, 5)))

        def crossed():
            data = crossed_data(rng, instances=40, effect=effect)
            return two_sided(crossed_estimate(data.mean(axis=1), resample(data, 100, rng)))

        return [rejections(400, one)[0] for one in (welch, crossed)]

    small, middle, large = power(0.2), power(1.0), power(2.5)
    assert all(a < b < c for a, b, c in zip(small, middle, large, strict=True))


def test_the_ratio_of_spreads_is_taken_over_seeds_and_conditions():
    rng = np.random.default_rng(18)
    narrow, wide = rng.normal(0, 1, (4, 5)), rng.normal(0, 2, (4, 5))
    picks = np.array([[0, 1, 2, 3, 4], [1, 1, 2, 0, 0]])
    expected = [np.log(narrow[:, p].std(ddof=1) / wide[:, p].std(ddof=1)) for p in picks]
    np.testing.assert_allclose(spread_ratios(narrow, wide, picks), expected)
