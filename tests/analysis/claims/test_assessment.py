"""All claims against one source: the default interval, what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from analysis.claims.assessment import assess
from analysis.evidence.evidence import Settings
from analysis.sources import Source
from common.errors import UserError
from tests.analysis.made_up import with_instances

MODELS = ("610m-mlm40-42k", "610m-clm-42k")


def test_the_default_interval_follows_the_source(tmp_path: Path) -> None:
    runs, folder = with_instances(
        tmp_path / "instances", np.random.default_rng(3), models=MODELS, counts={"msmarco": 43, "sst2": 400},
        shift=0.02,
    )  # fmt: skip
    for source, name in (
        (Source(label="published"), "t"), (Source(label="x", runs=runs), "pooled"),
        (Source(label="x", runs=runs, instances=folder), "pooled"),
    ):  # fmt: skip
        assert source.default_interval.name == name
        assert assess(source, Settings()).settings.interval == name


def test_published_cells_know_the_seed_wise_rule_only() -> None:
    with pytest.raises(UserError, match="the learning rate was chosen for each seed"):
        assess(Source(label="published"), Settings(interval="t", selection="mean"))
