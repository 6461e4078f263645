"""All claims against one source: the default interval, the second opinion, what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.claims.assessment import assess
from analysis.evidence.evidence import Settings
from analysis.sources import Source
from common.errors import UserError
from tests.analysis.made_up import made_up_runs, with_instances

MLM, CLM = "610m-mlm40-42k", "610m-clm-42k"
BASE = [f"{size}-{kind}-42k" for size in ("210m", "610m", "1b") for kind in ("clm", "mlm40")]


def settings(interval: str = "t", **options) -> Settings:
    return Settings(interval=interval, resamples=2_000, **options)


@pytest.fixture(scope="module")
def instances(tmp_path_factory) -> tuple[pd.DataFrame, Path]:
    folder = tmp_path_factory.mktemp("instances") / "instances"
    return with_instances(
        folder, np.random.default_rng(3), models=(CLM, MLM), counts={"msmarco": 43, "sst2": 400}, shift=0.02
    )


def test_default_interval_follows_the_source(instances):
    runs, folder = instances
    for source, name in (
        (Source(label="published"), "t"), (Source(label="x", runs=runs), "pooled"),
        (Source(label="x", runs=runs, instances=folder), "pooled"),
    ):  # fmt: skip
        assert source.default_interval.name == name
        assert assess(source, Settings(), second_opinion=False).settings.interval == name


def test_the_mixed_model_is_a_second_opinion_on_f1_to_f4():
    runs = made_up_runs(np.random.default_rng(7), models=BASE, shift={m: 0.02 for m in BASE if "mlm" in m})
    found = assess(Source(label="x", runs=runs), settings())
    assert set(found.mixed) == {"F1", "F2", "F3", "F4"}
    assert found.mixed["F1"].verdict == "supported"
    assert {v.claim.id: v for v in found.verdicts}["F1"].verdict == "supported"
    effects = [f.effect for f in found.mixed["F1"].tree.findings]
    paired = [f.effect for f in {v.claim.id: v for v in found.verdicts}["F1"].tree.findings]
    assert effects == pytest.approx(paired, abs=1e-5)


def test_published_cells_know_the_seed_wise_rule_only():
    with pytest.raises(UserError, match="the learning rate was chosen for each seed"):
        assess(Source(label="published"), Settings(interval="t", selection="mean"))
