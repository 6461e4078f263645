"""The covariance over instances in closed form, against a bootstrap over instances."""

from __future__ import annotations

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
    assert note.startswith("squad_v2: the runs do not say which test instances belong together")


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
