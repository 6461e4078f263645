"""The covariance over instances in closed form, against a bootstrap over instances."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from analysis.statistics.instance_covariance import InstanceCovariance
from analysis.statistics.learning_rate_selection import select_runs
from analysis.store.instances import read_instances
from tests.analysis.made_up import with_instances

MLM, CLM = "610m-mlm40-42k", "610m-clm-42k"


def test_a_dataset_without_runs_hides_none_after_it(tmp_path: Path) -> None:
    runs, folder = with_instances(tmp_path / "i", np.random.default_rng(3), models=(CLM,), counts={})
    chosen = select_runs(runs)
    some = InstanceCovariance.of(chosen[chosen["dataset"].isin(["qqp", "squad", "nq"])], folder)
    every = InstanceCovariance.of(chosen, folder)
    for name in ("qqp", "squad", "nq"):
        found = some.between_seeds([(1.0, CLM, name)], [0, 1, 2])
        assert found is not None and np.array_equal(found, every.between_seeds([(1.0, CLM, name)], [0, 1, 2]))
    assert some.between_seeds([(1.0, CLM, "sst2")], [0, 1, 2]) is None


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
    assert covariance.between_seeds(parts, seeds) == pytest.approx(expected)
    both = covariance.between_seeds([*parts, (0.5, MLM, "qqp")], seeds)
    alone = covariance.between_seeds([(0.5, MLM, "qqp")], seeds)
    assert both == pytest.approx(expected + np.asarray(alone))  # other test sets are independent
    assert covariance.between_seeds([(1.0, "210m-clm-42k", "sst2")], seeds) is None
    assert covariance.between_seeds(parts, [0, 9]) is None
