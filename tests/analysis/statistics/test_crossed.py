"""Errors over seeds and clusters of instances against statsmodels, dense matrices, a bootstrap and simulations."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import optimize, stats

from analysis.statistics.crossed import (
    LIMITS,
    covariance_of_means,
    crossed_estimate,
    crossed_variance,
    freedom_of,
)
from analysis.statistics.estimates import student_estimate
from tests.analysis.simulated import rejections, two_sided

UNEQUAL = np.repeat([7, 2, 9, 4, 1], [1, 5, 2, 9, 3])
"""Labels of 20 instances in five clusters."""


def shuffled(clusters: np.ndarray, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).permutation(clusters)


def test_the_covariance_is_statsmodels_cluster_robust_one_for_equal_clusters() -> None:
    sm = pytest.importorskip("statsmodels.api")
    clusters = shuffled(np.repeat(np.arange(8), 5))
    scores = np.random.default_rng(1).random((3, 40)) + 0.1 * clusters
    found = covariance_of_means(scores, clusters)
    for row, run in enumerate(scores):
        fit = sm.OLS(run, np.ones(40)).fit(cov_type="cluster", cov_kwds={"groups": clusters})
        # Its factor is G / (G - 1) (N - 1) / (N - K), here with K = 1.
        assert found[row, row] == pytest.approx(fit.cov_params()[0, 0])
    both = sm.OLS(scores[0] + scores[1], np.ones(40)).fit(cov_type="cluster", cov_kwds={"groups": clusters})
    assert found[:2, :2].sum() == pytest.approx(both.cov_params()[0, 0])


def dense(clusters: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """The vectors whose products with a run's scores are squared in CR2, one a cluster, and the clusters' matrix."""
    count = len(clusters)
    residual = np.eye(count) - 1 / count
    vectors = []
    for name in np.unique(clusters):
        mine = clusters == name
        values, axes = np.linalg.eigh(residual[np.ix_(mine, mine)])
        root = axes @ np.diag(values**-0.5) @ axes.T
        vectors.append(residual[:, mine] @ root @ np.full(mine.sum(), 1 / count))
    return vectors, (clusters[:, None] == clusters).astype(float)


@pytest.mark.parametrize("clusters", [UNEQUAL, shuffled(UNEQUAL), np.repeat(np.arange(6), 4)])
def test_unequal_clusters_have_the_cr2_variance_and_freedom_of_dense_matrices(clusters: np.ndarray) -> None:
    vectors, same = dense(clusters)
    scores = np.random.default_rng(2).random((2, len(clusters)))
    parts = np.array([[vector @ run for vector in vectors] for run in scores])
    assert covariance_of_means(scores, clusters) == pytest.approx(parts @ parts.T)
    forms = np.array([[one @ same @ other for other in vectors] for one in vectors])
    assert freedom_of(clusters) == pytest.approx(np.trace(forms) ** 2 / (forms**2).sum())


def test_equal_clusters_and_single_instances_have_their_number_less_one_degrees_of_freedom() -> None:
    assert freedom_of(np.repeat(np.arange(12), 7)) == pytest.approx(11)
    assert freedom_of(np.arange(43)) == pytest.approx(42) == freedom_of(43)
    assert freedom_of(1) == freedom_of(np.zeros(9, dtype=np.int64)) == 1


def test_the_crossed_error_is_that_of_the_multi_bootstrap() -> None:
    """Seeds and clusters drawn with replacement, each run's score taken again (Sellam et al. 2022, section 3.2).

    Its variance holds the noise that seeds and clusters share once more than there is, so that noise is small here.
    """
    rng = np.random.default_rng(4)
    seeds, groups, size = 12, 40, 5
    clusters = np.repeat(np.arange(groups), size)
    scores = (
        rng.normal(0, 0.6, (seeds, 1)) + rng.normal(0, 2, groups)[clusters] + rng.normal(0, 0.2, (seeds, 200))
    )
    means = []
    for _ in range(6_000):
        rows, drawn = rng.integers(0, seeds, seeds), rng.integers(0, groups, groups)
        columns = np.concatenate([np.flatnonzero(clusters == one) for one in drawn])
        means.append(scores[rows][:, columns].mean())
    estimate = crossed_estimate(scores.mean(axis=1), covariance_of_means(scores, clusters))
    assert estimate.error == pytest.approx(np.std(means), rel=0.05)


@pytest.mark.parametrize("clusters", [None, np.zeros(1, dtype=np.int64)])
def test_one_cluster_says_nothing(clusters: np.ndarray | None) -> None:
    assert (covariance_of_means(np.array([[1.0], [0.0]]), clusters) == 0).all()
    assert (covariance_of_means(np.eye(2, 3), np.zeros(3, dtype=np.int64)) == 0).all()


@pytest.mark.parametrize("count", [2, 3, 7])
def test_it_is_numpys_covariance_over_the_instances_by_their_number(count: int) -> None:
    scores = np.random.default_rng(count).random((4, count))
    expected = np.cov(scores) / count
    for clusters in (None, np.arange(count)):
        assert covariance_of_means(scores, clusters) == pytest.approx(expected, rel=1e-9)
    assert covariance_of_means(scores, paired=False) == pytest.approx(np.diag(np.diag(expected)), rel=1e-9)


@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("freedom", [7.5, np.inf])
def test_the_crossed_variance_adds_the_mean_covariance_of_different_seeds(count: int, freedom: float) -> None:
    rng, signs = np.random.default_rng(count), set()
    for _ in range(6):
        values, factors = rng.normal(size=count), rng.normal(size=(count, count + 2))
        covariance = 0.3 * factors @ factors.T
        over_seeds, over_instances, df = crossed_variance(values, covariance, freedom)
        assert over_seeds == pytest.approx(stats.sem(values) ** 2)
        pairs = [covariance[first, second] for first, second in itertools.permutations(range(count), 2)]
        signs.add(np.sign(np.mean(pairs)))
        shared = max(np.mean(pairs), 0)
        assert over_instances == pytest.approx(shared)
        # Satterthwaite: the squared sum of the parts over the sum of their squares by their degrees of freedom.
        parts = over_seeds**2 / (count - 1) + shared**2 / freedom
        assert df == pytest.approx((over_seeds + shared) ** 2 / parts)
        estimate = crossed_estimate(values, covariance, freedom)
        assert estimate.instance_share == pytest.approx(shared / (over_seeds + shared))
        for level in (0.8, 0.95):
            theirs = stats.t.interval(level, df, values.mean(), np.sqrt(over_seeds + over_instances))
            assert estimate.interval(level) == pytest.approx(theirs)
    assert signs == {-1, 1}, "both signs are to be tried"


def test_equal_seeds_leave_the_error_of_the_instances() -> None:
    equal, covariance = np.array([2.0, 2.0]), np.full((2, 2), 0.09)
    assert crossed_variance(equal, covariance, 30.0) == pytest.approx((0, 0.09, 30))
    assert crossed_variance(np.array([2.0, 2.1]), covariance)[:2] == pytest.approx((0.0025, 0.09))
    ends = crossed_estimate(equal, covariance, 30.0).interval()
    assert ends == pytest.approx(stats.t.interval(0.95, 30, 2, 0.3))
    assert crossed_estimate(equal, np.zeros((2, 2))).interval() == (2, 2)


def of_score(values: list[float], sd: float, freedom: float) -> tuple[float, float]:
    """The interval of a score whose seeds share a standard error."""
    cell, covariance = np.array(values), np.full((len(values), len(values)), sd**2)
    estimate = crossed_estimate(cell, covariance, freedom, limits=LIMITS)
    assert estimate.effect == pytest.approx(cell.mean())
    return estimate.interval()


@pytest.mark.parametrize(("seen", "sd"), [(93.0, 2.0), (0.008, 0.002)])
def test_a_score_away_from_the_limits_has_the_score_interval(seen: float, sd: float) -> None:
    """Its ends are the means whose own error, as mean (100 - mean), makes the mean seen just significant."""
    low, high = of_score([seen] * 5, sd, 40.0)
    quantile = stats.t.ppf(0.975, 40)

    def distance(mean: float) -> float:
        error = sd * np.sqrt(mean * (100 - mean) / (seen * (100 - seen)))
        return float(abs(seen - mean) - quantile * error)

    assert low == pytest.approx(optimize.brentq(distance, 0, seen))
    assert high == pytest.approx(optimize.brentq(distance, seen, 100))
    assert (seen - low > high - seen) == (seen > 50)


@pytest.mark.parametrize(("values", "sd"), [([97.0, 98.0], 1.5), ([99.8, 99.9], 1.5), ([91.0, 93.0], 1.0)])
def test_scores_counted_from_the_other_limit_or_another_zero_have_the_same_interval(
    values: list[float], sd: float
) -> None:
    low, high = of_score(values, sd, 20.0)
    assert of_score([100 - value for value in values], sd, 20.0) == pytest.approx((100 - high, 100 - low))
    shifted, covariance = np.array(values) + 300, np.full((2, 2), sd**2)
    found = crossed_estimate(shifted, covariance, 20.0, limits=(300.0, 400.0)).interval()
    assert found == pytest.approx((low + 300, high + 300))


def test_43_right_answers_of_43_get_the_interval_of_agresti_and_coull() -> None:
    """Two right and two wrong are added: 45 of 47, and Student's t for the normal distribution."""
    low, high = of_score([100.0] * 5, 0.0, 42.0)
    share = 45 / 47
    half = stats.t.ppf(0.975, 46) * np.sqrt(share * (1 - share) / 46)
    assert (low, high) == (pytest.approx(100 * (share - half)), 100)
    mirrored = of_score([0.0] * 5, 0.0, 42.0)
    assert mirrored == (0, pytest.approx(100 - low))


def test_no_interval_of_a_score_leaves_the_limits() -> None:
    for mean, sd, freedom in itertools.product(
        [0, 0.2, 3, 50, 88, 97, 99.9, 100], [0, 0.5, 3, 20], [1, 8, 1e5]
    ):
        low, high = of_score([mean, mean], sd, freedom)
        assert 0 <= low <= mean <= high <= 100


def test_the_clusters_added_at_the_limits_are_those_of_a_test_set_that_has_them() -> None:
    rng = np.random.default_rng(5)
    scores = (rng.random((3, 30)) < 0.97).astype(float)
    assert scores.mean() > 0.9
    more = np.concatenate([scores, np.ones((3, 2)), np.zeros((3, 2))], axis=1)
    wider = 1e4 * covariance_of_means(more)
    values = 100 * scores.mean(axis=1)
    low, high = crossed_estimate(values, 1e4 * covariance_of_means(scores), 29.0, limits=LIMITS).interval()
    expected = crossed_estimate(100 * more.mean(axis=1), wider, 33.0).interval()
    assert (low, high) == pytest.approx((expected[0], min(expected[1], 100)))


def crossed_data(rng, *, seeds=5, instances=200, seed_sd=0.3, common_sd=1.0, joint_sd=1.0, effect=0.0):
    """Per-instance differences between two models: (n_seeds, n_instances)."""
    return (
        effect
        + rng.normal(0, seed_sd, (seeds, 1))
        + rng.normal(0, common_sd, (1, instances))
        + rng.normal(0, joint_sd, (seeds, instances))
    )


def estimate_of(data):
    return crossed_estimate(data.mean(axis=1), covariance_of_means(data), freedom_of(data.shape[1]))


def test_the_crossed_error_is_the_paired_one_without_test_set_noise():
    values = np.array([0.1, 0.4, 0.2, 0.5, 0.3])
    ours, paired = crossed_estimate(values, np.zeros((5, 5))), student_estimate(values)
    assert (ours.error, ours.df) == (pytest.approx(paired.error), pytest.approx(paired.df))
    assert crossed_estimate(np.full(3, 1.5), np.zeros((3, 3))).instance_share == 0


@pytest.mark.parametrize(
    ("seed_sd", "common_sd", "joint_sd"), [(0.3, 0.0, 0.5), (0.1, 2.0, 1.0), (0.02, 1.0, 0.5)]
)
def test_type_one_error_of_the_crossed_test(seed_sd, common_sd, joint_sd):
    rng = np.random.default_rng(14)

    def one():
        data = crossed_data(rng, instances=60, seed_sd=seed_sd, common_sd=common_sd, joint_sd=joint_sd)
        return two_sided(estimate_of(data))

    share, error = rejections(1_500, one)
    # Estimating the share of the instances costs a little where it is zero.
    assert abs(share - 0.05) < error + 0.006
