"""The covariance over instances in closed form, against a bootstrap over instances."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.statistics.crossed import covariance_of_means
from analysis.statistics.instance_covariance import InstanceCovariance
from analysis.statistics.learning_rate_selection import select_runs
from analysis.store.instances import RunScores, read_instances
from tests.analysis.made_up import with_instances, write_instances

MLM, CLM = "610m-mlm40-42k", "610m-clm-42k"


def test_a_dataset_without_runs_hides_none_after_it(tmp_path: Path) -> None:
    runs, folder = with_instances(tmp_path / "i", np.random.default_rng(3), models=(CLM,), counts={})
    chosen = select_runs(runs)
    some = InstanceCovariance.of(chosen[chosen["dataset"].isin(["qqp", "squad", "nq"])], folder)
    every = InstanceCovariance.of(chosen, folder)
    for name in ("qqp", "squad", "nq"):
        found = some.between_seeds([(1.0, CLM, name)], [0, 1, 2])
        other = every.between_seeds([(1.0, CLM, name)], [0, 1, 2])
        assert found and other and np.array_equal(found[0], other[0])
    assert some.between_seeds([(1.0, CLM, "sst2")], [0, 1, 2]) is None


def test_clusters_of_the_runs_are_those_of_the_covariance_and_runs_without_are_named(
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
        rows = [{"model": CLM, "dataset": name, "lr": 1e-4, "seed": seed} for seed in range(2)]
        found = InstanceCovariance.of(pd.DataFrame(rows), tmp_path / name)
        known = ids.astype(np.int64) if clusters else None
        covariance, freedom = found.between_seeds([(1.0, CLM, name)], [0, 1]) or (None, 0)
        assert covariance == pytest.approx(1e4 * covariance_of_means(scores, known))
        assert freedom == pytest.approx(5 if clusters else 23)
    (note,) = caplog.messages
    assert note.startswith("squad_v2: the runs do not record which test instances share")


def test_freedom_of_several_datasets_is_satterthwaites(tmp_path: Path) -> None:
    runs, folder = with_instances(
        tmp_path / "i", np.random.default_rng(7), models=(CLM,), counts={"sst2": 12, "qqp": 300}
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


def test_a_difference_within_seeds_has_the_covariance_of_its_instances(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    runs, folder = with_instances(tmp_path / "i", rng, models=(CLM, MLM), counts={"sst2": 90})
    chosen = select_runs(runs)
    covariance = InstanceCovariance.of(chosen, folder)
    seeds = [0, 1, 2, 3, 4]
    parts = [(1.0, MLM, "sst2"), (-1.0, CLM, "sst2")]
    values = {
        model: read_instances(
            folder, "sst2", chosen[(chosen["dataset"] == "sst2") & (chosen["model"] == model)]
        )
        for model in (MLM, CLM)
    }
    expected = np.cov(100 * (values[MLM] - values[CLM])) / 90
    found, both, alone = (
        covariance.between_seeds(asked, seeds)
        for asked in (parts, [*parts, (0.5, MLM, "qqp")], [(0.5, MLM, "qqp")])
    )
    assert found and both and alone and found[0] == pytest.approx(expected)
    assert both[0] == pytest.approx(expected + alone[0])  # other test sets are independent
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


def test_what_cells_share_without_common_seeds_is_the_mean_covariance_of_their_runs(tmp_path: Path) -> None:
    counts = {"sst2": 90, "qqp": 40}
    runs, folder = with_instances(
        tmp_path / "i", np.random.default_rng(8), models=(CLM, MLM), counts=counts, shift=0.1
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
            found = covariance.between_cells([(weight, model, name) for model, weight in weights.items()])
            assert found == pytest.approx((max(0.0, _by_pairs(here, weights)), count - 1))
        variances.append(_by_pairs(here, {CLM: 1.0}) / 4)
    both = covariance.between_cells([(0.5, CLM, name) for name in counts])
    freedom = sum(variances) ** 2 / sum(
        one**2 / (count - 1) for one, count in zip(variances, counts.values(), strict=True)
    )
    assert both == pytest.approx((sum(variances), freedom))
    # A model named twice is one with the sum of its weights; with none left, nothing is shared.
    halves = [(0.5, CLM, "sst2"), (0.5, CLM, "sst2")]
    assert covariance.between_cells(halves) == covariance.between_cells([(1.0, CLM, "sst2")])
    assert covariance.between_cells([(1.0, CLM, "sst2"), (-1.0, CLM, "sst2")]) == (0.0, math.inf)


def test_cells_of_one_run_or_none_say_nothing_of_what_they_share(tmp_path: Path) -> None:
    runs, folder = with_instances(tmp_path / "i", np.random.default_rng(9), models=(CLM, MLM), counts={})
    for fewest in (1, 2):
        chosen = runs[(runs["model"] == CLM) | (runs["seed"] < fewest)]
        covariance = InstanceCovariance.of(chosen, folder)
        found = covariance.between_cells([(1.0, MLM, "sst2"), (-1.0, CLM, "sst2")])
        assert (found is None) == (fewest == 1)
        assert covariance.between_cells([(1.0, "210m-clm-42k", "sst2")]) is None


def test_a_row_that_is_a_mean_of_runs_has_the_covariance_of_their_mean_instances(tmp_path: Path) -> None:
    """One row a pretraining: each is the mean of two fine-tunings; the last is a single run."""
    runs, folder = with_instances(
        tmp_path / "i", np.random.default_rng(10), models=(CLM,), counts={"sst2": 30}
    )
    rows = runs[runs["dataset"] == "sst2"]
    pairs = [[0, 1], [2, 3], [4]]
    members = [[(CLM, 1e-4, seed) for seed in pair] for pair in pairs]
    means = pd.DataFrame(
        {"model": CLM, "dataset": "sst2", "lr": 1e-4, "seed": [0, 1, 4], "members": [*members[:2], np.nan]}
    )
    found = InstanceCovariance.of(means, folder).between_seeds([(1.0, CLM, "sst2")], [0, 1, 4])
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
        {"model": m, "dataset": "sst2", "lr": 1e-4, "seed": seed} for m in (CLM, MLM) for seed in range(2)
    ]
    found = InstanceCovariance.of(pd.DataFrame(rows), tmp_path / "i")
    between = found.between_seeds([(1.0, CLM, "sst2")], [0, 1])
    assert between is not None and between[0][0, 1] < 0 and between[1] == math.inf
    assert found.between_cells([(1.0, CLM, "sst2")]) == (0.0, math.inf)
