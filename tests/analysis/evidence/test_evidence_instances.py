"""What sources say over seeds and test instances: intervals, contrasts and draws, against the two-way layout."""

import itertools
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.evidence.evidence import Evidence
from analysis.evidence.settings import Settings
from analysis.statistics.crossed import crossed_estimate
from analysis.store.instances import read_instances
from tests.analysis.evidence.asked import (
    CLM,
    MLM,
    evidence,
    level_of,
    on_dataset,
    seeds_of,
)
from tests.analysis.made_up import with_instances


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, Path]:
    folder = tmp_path_factory.mktemp("instances") / "instances"
    counts = {"msmarco": 43, "sst2": 400}
    return with_instances(
        folder, np.random.default_rng(3), models=(CLM, MLM), counts=counts, shift=0.02
    )


@pytest.mark.parametrize("dataset", ["msmarco", "sst2"])
def test_crossed_error_is_that_of_the_two_way_layout(stored, dataset: str) -> None:
    runs, folder = stored
    cells = [
        runs[(runs["model"] == m) & (runs["dataset"] == dataset)] for m in (MLM, CLM)
    ]
    scores = [100 * read_instances(folder, dataset, one) for one in cells]
    covariance = np.cov(scores[0] - scores[1]) / scores[0].shape[1]
    shared = np.mean([covariance[a, b] for a, b in itertools.permutations(range(5), 2)])
    own = stats.sem((scores[0] - scores[1]).mean(axis=1)) ** 2
    found = evidence(runs, "crossed", instances=folder).result(on_dataset(dataset))
    assert found.error**2 == pytest.approx(own + shared)
    assert (
        found.instance_share == pytest.approx(shared / (own + shared))
        and found.instance_share > 0.7
    )
    assert (found.test, found.seeds) == ("paired by seed and instance", (5,))
    two = evidence(runs[runs["seed"] < 2], "crossed", instances=folder).result(
        on_dataset(dataset)
    )
    assert (two.test, two.seeds) == ("paired by seed and instance", (2,))
    over_seeds = evidence(runs).result(on_dataset(dataset))
    assert (
        found.effect == pytest.approx(over_seeds.effect)
        and found.error > 2 * over_seeds.error
    )


@pytest.mark.parametrize("model", [MLM, CLM])
def test_level_near_an_end_keeps_within_it(stored, model: str) -> None:
    runs, folder = stored
    cell = (model, "SC", "sst2")
    found = (
        evidence(runs, "crossed", instances=folder)
        .estimate(level_of(cell).terms)
        .estimate
    )
    table = Evidence(Settings(interval="crossed"), runs=runs, instances=folder)
    values = seeds_of(runs, model, "sst2")
    shared = table.covariances.between_seeds([(1.0, model, "sst2")], list(range(5)))
    assert found == crossed_estimate(values, *shared, limits=(0.0, 100.0))
    assert found.interval() != crossed_estimate(values, *shared, limits=None).interval()


def test_cells_apart_have_welchs_error_and_shared_instances(
    stored,
) -> None:
    runs, folder = stored
    apart = runs[(runs["seed"] < 2) == (runs["model"] == MLM)]
    source = evidence(apart, "crossed", instances=folder)
    found = source.result(on_dataset("sst2"))
    welch = evidence(apart).result(on_dataset("sst2"))
    variance, freedom = source.covariances.between_cells(
        [(1.0, MLM, "sst2"), (-1.0, CLM, "sst2")]
    )
    assert variance > 0 and freedom == 399
    total = welch.error**2 + variance
    df = total**2 / (welch.error**4 / welch.df + variance**2 / freedom)
    assert (found.effect, found.error, found.df) == pytest.approx(
        (welch.effect, math.sqrt(total), df)
    )
    assert found.instance_share == pytest.approx(variance / total)
    assert (found.low, found.high) == pytest.approx(
        stats.t.interval(0.95, df, welch.effect, math.sqrt(total))
    )
    assert (found.test, found.interval) == ("Welch and by instance", "crossed")


def test_crossed_without_instances_is_over_seeds_and_says_so(
    stored,
) -> None:
    runs, folder = stored
    known = Evidence(Settings(interval="crossed"), runs=runs, instances=folder)
    places = known.covariances._row_of["sst2"]
    del places[CLM, 4]
    found, alone = (
        known.result(on_dataset("sst2")),
        evidence(runs).result(on_dataset("sst2")),
    )
    assert (found.effect, found.error, found.df) == (
        alone.effect,
        alone.error,
        alone.df,
    )
    assert (found.interval, found.test) == ("crossed", "Welch (instances missing)")
    places.clear()
    apart = runs[(runs["seed"] < 2) == (runs["model"] == MLM)]
    known = Evidence(Settings(interval="crossed"), runs=apart, instances=folder)
    known.covariances._row_of["sst2"].clear()
    assert known.result(on_dataset("sst2")).test == "Welch"


def test_a_copy_under_crossed_differs_by_one_instance(
    stored,
) -> None:
    runs, folder = stored
    found = evidence(runs, "crossed", instances=folder).result(
        on_dataset("sst2", CLM, CLM)
    )
    alone = evidence(runs).result(on_dataset("sst2", CLM, CLM))
    assert (found.low, found.high) == (
        alone.low,
        alone.high,
    ) and found.low < 0 < found.high
    assert found.interval == "crossed"


def test_nq_is_never_paired_by_query(stored) -> None:
    """Each run has queries of its own: nothing is common to seeds, and their spread holds the queries' already."""
    runs, folder = stored
    found = evidence(runs, "crossed", instances=folder).result(on_dataset("nq"))
    alone = evidence(runs).result(on_dataset("nq"))
    assert (found.instance_share, found.error) == (0, pytest.approx(alone.error))
