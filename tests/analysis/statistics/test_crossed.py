"""Errors over seeds and instances, or clusters of them, against statsmodels, loops, a bootstrap and simulations."""

import itertools
import math
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

from analysis.statistics.crossed import (
    InstanceCovariance,
    covariance_of_means,
    crossed_estimate,
    crossed_variance,
    freedom_of,
)
from analysis.statistics.estimates import LIMITS, student_estimate
from analysis.statistics.learning_rate_selection import select_runs
from analysis.store.instances import RunScores, read_instances
from tests.analysis.made_up import with_instances, write_instances

UNEQUAL = np.repeat([7, 2, 9, 4, 1], [1, 5, 2, 9, 3])
"""Labels of 20 instances in five clusters."""


def shuffled(clusters: np.ndarray, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).permutation(clusters)


def test_covariance_of_equal_clusters_is_statsmodels() -> None:
    sm = pytest.importorskip("statsmodels.api")
    clusters = shuffled(np.repeat(np.arange(8), 5))
    scores = np.random.default_rng(1).random((3, 40)) + 0.1 * clusters
    found = covariance_of_means(scores, clusters)
    for row, run in enumerate(scores):
        fit = sm.OLS(run, np.ones(40)).fit(
            cov_type="cluster", cov_kwds={"groups": clusters}
        )
        # Its factor is G / (G - 1) (N - 1) / (N - K), here with K = 1.
        assert found[row, row] == pytest.approx(fit.cov_params()[0, 0])
    both = sm.OLS(scores[0] + scores[1], np.ones(40)).fit(
        cov_type="cluster", cov_kwds={"groups": clusters}
    )
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


@pytest.mark.parametrize(
    "clusters", [UNEQUAL, shuffled(UNEQUAL), np.repeat(np.arange(6), 4)]
)
def test_unequal_clusters_have_cr2_of_dense_matrices(
    clusters: np.ndarray,
) -> None:
    vectors, same = dense(clusters)
    scores = np.random.default_rng(2).random((2, len(clusters)))
    parts = np.array([[vector @ run for vector in vectors] for run in scores])
    assert covariance_of_means(scores, clusters) == pytest.approx(parts @ parts.T)
    forms = np.array([[one @ same @ other for other in vectors] for one in vectors])
    assert freedom_of(clusters) == pytest.approx(
        np.trace(forms) ** 2 / (forms**2).sum()
    )


def test_equal_clusters_have_their_number_less_one_freedom() -> None:
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
        rng.normal(0, 0.6, (seeds, 1))
        + rng.normal(0, 2, groups)[clusters]
        + rng.normal(0, 0.2, (seeds, 200))
    )
    means = []
    for _ in range(6_000):
        rows, drawn = rng.integers(0, seeds, seeds), rng.integers(0, groups, groups)
        columns = np.concatenate([np.flatnonzero(clusters == one) for one in drawn])
        means.append(scores[rows][:, columns].mean())
    estimate = crossed_estimate(
        scores.mean(axis=1), covariance_of_means(scores, clusters)
    )
    assert estimate.error == pytest.approx(np.std(means), rel=0.05)


@pytest.mark.parametrize("clusters", [None, np.zeros(1, dtype=np.int64)])
def test_one_cluster_says_nothing(clusters: np.ndarray | None) -> None:
    assert (covariance_of_means(np.array([[1.0], [0.0]]), clusters) == 0).all()
    assert (covariance_of_means(np.eye(2, 3), np.zeros(3, dtype=np.int64)) == 0).all()


@pytest.mark.parametrize("count", [2, 3, 7])
def test_covariance_of_single_instances_is_numpys(count: int) -> None:
    scores = np.random.default_rng(count).random((4, count))
    expected = np.cov(scores) / count
    for clusters in (None, np.arange(count)):
        assert covariance_of_means(scores, clusters) == pytest.approx(
            expected, rel=1e-9
        )
    assert covariance_of_means(scores, paired=False) == pytest.approx(
        np.diag(np.diag(expected)), rel=1e-9
    )


@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("freedom", [7.5, np.inf])
def test_crossed_variance_adds_the_covariance_of_other_seeds(
    count: int, freedom: float
) -> None:
    rng, signs = np.random.default_rng(count), set()
    for _ in range(6):
        values, factors = rng.normal(size=count), rng.normal(size=(count, count + 2))
        covariance = 0.3 * factors @ factors.T
        over_seeds, over_instances, df = crossed_variance(values, covariance, freedom)
        assert over_seeds == pytest.approx(stats.sem(values) ** 2)
        pairs = [
            covariance[first, second]
            for first, second in itertools.permutations(range(count), 2)
        ]
        signs.add(np.sign(np.mean(pairs)))
        shared = max(np.mean(pairs), 0)
        assert over_instances == pytest.approx(shared)
        # Satterthwaite: the squared sum of the parts over the sum of their squares by their degrees of freedom.
        parts = over_seeds**2 / (count - 1) + shared**2 / freedom
        assert df == pytest.approx((over_seeds + shared) ** 2 / parts)
        estimate = crossed_estimate(values, covariance, freedom)
        assert estimate.instance_share == pytest.approx(shared / (over_seeds + shared))
        for level in (0.8, 0.95):
            theirs = stats.t.interval(
                level, df, values.mean(), np.sqrt(over_seeds + over_instances)
            )
            assert estimate.interval(level) == pytest.approx(theirs)
    assert signs == {-1, 1}, "both signs are to be tried"


def test_equal_seeds_leave_the_error_of_the_instances() -> None:
    equal, covariance = np.array([2.0, 2.0]), np.full((2, 2), 0.09)
    assert crossed_variance(equal, covariance, 30.0) == pytest.approx((0, 0.09, 30))
    assert crossed_variance(np.array([2.0, 2.1]), covariance)[:2] == pytest.approx(
        (0.0025, 0.09)
    )
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
def test_a_score_away_from_the_limits_has_the_score_interval(
    seen: float, sd: float
) -> None:
    """Its ends are the means whose own error, as mean (100 - mean), makes the mean seen just significant."""
    low, high = of_score([seen] * 5, sd, 40.0)
    quantile = stats.t.ppf(0.975, 40)

    def distance(mean: float) -> float:
        error = sd * np.sqrt(mean * (100 - mean) / (seen * (100 - seen)))
        return float(abs(seen - mean) - quantile * error)

    assert low == pytest.approx(optimize.brentq(distance, 0, seen))
    assert high == pytest.approx(optimize.brentq(distance, seen, 100))
    assert (seen - low > high - seen) == (seen > 50)


@pytest.mark.parametrize(
    ("values", "sd"), [([97.0, 98.0], 1.5), ([99.8, 99.9], 1.5), ([91.0, 93.0], 1.0)]
)
def test_crossed_interval_mirrors_and_shifts_with_the_scores(
    values: list[float], sd: float
) -> None:
    low, high = of_score(values, sd, 20.0)
    assert of_score([100 - value for value in values], sd, 20.0) == pytest.approx(
        (100 - high, 100 - low)
    )
    shifted, covariance = np.array(values) + 300, np.full((2, 2), sd**2)
    found = crossed_estimate(
        shifted, covariance, 20.0, limits=(300.0, 400.0)
    ).interval()
    assert found == pytest.approx((low + 300, high + 300))


def test_43_of_43_right_get_agresti_and_coulls_interval() -> None:
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


def test_added_clusters_are_those_of_a_larger_test_set() -> None:
    rng = np.random.default_rng(5)
    scores = (rng.random((3, 30)) < 0.97).astype(float)
    assert scores.mean() > 0.9
    more = np.concatenate([scores, np.ones((3, 2)), np.zeros((3, 2))], axis=1)
    wider = 1e4 * covariance_of_means(more)
    values = 100 * scores.mean(axis=1)
    low, high = crossed_estimate(
        values, 1e4 * covariance_of_means(scores), 29.0, limits=LIMITS
    ).interval()
    expected = crossed_estimate(100 * more.mean(axis=1), wider, 33.0).interval()
    assert (low, high) == pytest.approx((expected[0], min(expected[1], 100)))


def test_crossed_error_without_test_noise_is_the_paired_one():
    values = np.array([0.1, 0.4, 0.2, 0.5, 0.3])
    ours, paired = crossed_estimate(values, np.zeros((5, 5))), student_estimate(values)
    assert (ours.error, ours.df) == (
        pytest.approx(paired.error),
        pytest.approx(paired.df),
    )
    assert crossed_estimate(np.full(3, 1.5), np.zeros((3, 3))).instance_share == 0


MLM, CLM = "610m-mlm40-42k", "610m-clm-42k"


def test_a_dataset_without_runs_hides_none_after_it(tmp_path: Path) -> None:
    runs, folder = with_instances(
        tmp_path / "i", np.random.default_rng(3), models=(CLM,), counts={}
    )
    chosen = select_runs(runs)
    some = InstanceCovariance.of(
        chosen[chosen["dataset"].isin(["qqp", "squad", "nq"])], folder
    )
    every = InstanceCovariance.of(chosen, folder)
    for name in ("qqp", "squad", "nq"):
        found = some.between_seeds([(1.0, CLM, name)], [0, 1, 2])
        other = every.between_seeds([(1.0, CLM, name)], [0, 1, 2])
        assert found and other and np.array_equal(found[0], other[0])
    assert some.between_seeds([(1.0, CLM, "sst2")], [0, 1, 2]) is None


def test_clusters_are_the_runs_and_runs_without_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rng = np.random.default_rng(6)
    ids = np.repeat(np.arange(6, dtype=np.int32), 4)
    scores = rng.random((2, 24)) + rng.random(6)[ids]
    rows = []
    for name, clusters in (("squad", {"test": ids}), ("squad_v2", {}), ("sst2", {})):
        runs = [
            RunScores(lr=1e-4, seed=seed, validation=one, test=one, clusters=clusters)
            for seed, one in enumerate(scores)
        ]
        write_instances(tmp_path / name, {(CLM, name): runs})
        rows = [
            {"model": CLM, "dataset": name, "lr": 1e-4, "seed": seed}
            for seed in range(2)
        ]
        found = InstanceCovariance.of(pd.DataFrame(rows), tmp_path / name)
        known = ids.astype(np.int64) if clusters else None
        covariance, freedom = found.between_seeds([(1.0, CLM, name)], [0, 1]) or (
            None,
            0,
        )
        assert covariance == pytest.approx(1e4 * covariance_of_means(scores, known))
        assert freedom == pytest.approx(5 if clusters else 23)
    (note,) = caplog.messages
    assert note.startswith(
        "squad_v2: the runs do not record which test instances share"
    )


def test_freedom_of_several_datasets_is_satterthwaites(tmp_path: Path) -> None:
    runs, folder = with_instances(
        tmp_path / "i",
        np.random.default_rng(7),
        models=(CLM,),
        counts={"sst2": 12, "qqp": 300},
    )
    found, seeds = InstanceCovariance.of(select_runs(runs), folder), [0, 1, 2]
    parts = [(0.5, CLM, "sst2"), (0.5, CLM, "qqp")]
    shared = []
    for part in parts:
        one = found.between_seeds([part], seeds)
        assert one is not None
        shared.append(one[0][np.triu_indices(3, 1)].mean())
    expected = sum(shared) ** 2 / (shared[0] ** 2 / 11 + shared[1] ** 2 / 299)
    both = found.between_seeds(parts, seeds)
    assert both is not None and both[1] == pytest.approx(expected)


def test_difference_within_seeds_has_its_instances_covariance(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(2)
    runs, folder = with_instances(
        tmp_path / "i", rng, models=(CLM, MLM), counts={"sst2": 90}
    )
    chosen = select_runs(runs)
    covariance = InstanceCovariance.of(chosen, folder)
    seeds = [0, 1, 2, 3, 4]
    parts = [(1.0, MLM, "sst2"), (-1.0, CLM, "sst2")]
    values = {
        model: read_instances(
            folder,
            "sst2",
            chosen[(chosen["dataset"] == "sst2") & (chosen["model"] == model)],
        )
        for model in (MLM, CLM)
    }
    expected = np.cov(100 * (values[MLM] - values[CLM])) / 90
    found, both, alone = (
        covariance.between_seeds(asked, seeds)
        for asked in (parts, [*parts, (0.5, MLM, "qqp")], [(0.5, MLM, "qqp")])
    )
    assert found and both and alone and found[0] == pytest.approx(expected)
    # Other test sets are independent
    assert both[0] == pytest.approx(expected + alone[0])
    assert covariance.between_seeds([(1.0, "210m-clm-42k", "sst2")], seeds) is None
    assert covariance.between_seeds(parts, [0, 9]) is None


def _by_pairs(scores: dict[str, np.ndarray], weights: dict[str, float]) -> float:
    """The variance that models' means share through a test set: the mean covariance of two different runs, by loops."""
    total = 0.0
    for first, second in product(weights, repeat=2):
        pairs = [
            np.cov(one, other)[0, 1] / len(one)
            for a, one in enumerate(scores[first])
            for b, other in enumerate(scores[second])
            if first != second or a != b
        ]
        total += weights[first] * weights[second] * float(np.mean(pairs))
    return total


def test_cells_apart_share_the_mean_covariance_of_their_runs(
    tmp_path: Path,
) -> None:
    counts = {"sst2": 90, "qqp": 40}
    runs, folder = with_instances(
        tmp_path / "i",
        np.random.default_rng(8),
        models=(CLM, MLM),
        counts=counts,
        shift=0.1,
    )
    # Three runs of one model and two of the other, with no seed in common.
    chosen = runs[(runs["seed"] < 3) == (runs["model"] == CLM)]
    covariance = InstanceCovariance.of(chosen, folder)
    scores = {
        (model, name): 100 * read_instances(folder, name, rows)
        for (model, name), rows in chosen.groupby(["model", "dataset"])
        if name in counts
    }
    assert {len(one) for one in scores.values()} == {2, 3}
    variances = []
    for name, count in counts.items():
        here = {model: scores[model, name] for model in (CLM, MLM)}
        for weights in ({CLM: 1.0}, {MLM: 1.0, CLM: -1.0}, {MLM: 0.7, CLM: 0.4}):
            found = covariance.between_cells(
                [(weight, model, name) for model, weight in weights.items()]
            )
            assert found == pytest.approx(
                (max(0.0, _by_pairs(here, weights)), count - 1)
            )
        variances.append(_by_pairs(here, {CLM: 1.0}) / 4)
    both = covariance.between_cells([(0.5, CLM, name) for name in counts])
    freedom = sum(variances) ** 2 / sum(
        one**2 / (count - 1)
        for one, count in zip(variances, counts.values(), strict=True)
    )
    assert both == pytest.approx((sum(variances), freedom))
    # A model named twice is one with the sum of its weights; with none left, nothing is shared.
    halves = [(0.5, CLM, "sst2"), (0.5, CLM, "sst2")]
    assert covariance.between_cells(halves) == covariance.between_cells(
        [(1.0, CLM, "sst2")]
    )
    assert covariance.between_cells([(1.0, CLM, "sst2"), (-1.0, CLM, "sst2")]) == (
        0.0,
        math.inf,
    )


def test_two_single_runs_differ_as_their_instances_do(tmp_path: Path) -> None:
    """The squared error of a paired t test over instances; of a model without runs nothing is known."""
    runs, folder = with_instances(
        tmp_path / "i", np.random.default_rng(9), models=(CLM, MLM), counts={}
    )
    chosen = runs[runs["seed"] == 0]
    covariance = InstanceCovariance.of(chosen, folder)
    found = covariance.between_cells([(1.0, MLM, "sst2"), (-1.0, CLM, "sst2")])
    assert found is not None
    on_sst2 = chosen[chosen["dataset"] == "sst2"].sort_values("model")
    first, second = 100 * read_instances(folder, "sst2", on_sst2)
    error = stats.sem(first - second)
    assert found[0] == pytest.approx(error**2, rel=1e-6)
    assert covariance.between_cells([(1.0, "210m-clm-42k", "sst2")]) is None


def test_rows_that_are_means_have_their_mean_covariance(
    tmp_path: Path,
) -> None:
    """One row a pretraining: each is the mean of two fine-tunings; the last is a single run."""
    runs, folder = with_instances(
        tmp_path / "i", np.random.default_rng(10), models=(CLM,), counts={"sst2": 30}
    )
    rows = runs[runs["dataset"] == "sst2"]
    pairs = [[0, 1], [2, 3], [4]]
    members = [[(CLM, 1e-4, seed) for seed in pair] for pair in pairs]
    means = pd.DataFrame(
        {
            "model": CLM,
            "dataset": "sst2",
            "lr": 1e-4,
            "seed": [0, 1, 4],
            "members": [*members[:2], np.nan],
        }
    )
    found = InstanceCovariance.of(means, folder).between_seeds(
        [(1.0, CLM, "sst2")], [0, 1, 4]
    )
    scores = read_instances(folder, "sst2", rows)
    expected = np.cov([100 * scores[pair].mean(axis=0) for pair in pairs]) / 30
    assert found is not None and found[0] == pytest.approx(expected)


def test_what_seeds_share_is_never_below_nothing(tmp_path: Path) -> None:
    """Runs that are right where the others are wrong have a negative covariance, which is no variance."""
    scores = [np.array([1.0, 0, 1, 0]), np.array([0.0, 1, 0, 1])]
    runs = [
        RunScores(lr=1e-4, seed=seed, validation=one, test=one, clusters={})
        for seed, one in enumerate(scores)
    ]
    write_instances(tmp_path / "i", {(CLM, "sst2"): runs, (MLM, "sst2"): runs})
    rows = [
        {"model": m, "dataset": "sst2", "lr": 1e-4, "seed": seed}
        for m in (CLM, MLM)
        for seed in range(2)
    ]
    found = InstanceCovariance.of(pd.DataFrame(rows), tmp_path / "i")
    between = found.between_seeds([(1.0, CLM, "sst2")], [0, 1])
    assert between is not None and between[0][0, 1] < 0 and between[1] == math.inf
    assert found.between_cells([(1.0, CLM, "sst2")]) == (0.0, math.inf)
