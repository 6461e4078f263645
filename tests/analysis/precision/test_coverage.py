"""Simulated coverage against closed forms, and in every format."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from analysis.evidence.evidence import Evidence, Settings, scores_of
from analysis.precision.coverage import (
    KINDS,
    TARGETS,
    Cells,
    coverage_document,
    observed_cells,
    published_cells_of,
    simulate,
    simulate_dataset,
)
from analysis.published_cells import TEST_INSTANCES
from analysis.sources import PUBLISHED, Source
from benchmarks.protocol import DATASETS
from common.errors import UserError
from common.tables import show
from tests.analysis.made_up import made_up_runs, with_instances


def cells(*, seed: float, common: float, joint: float, instances: int = 500) -> Cells:
    one = np.ones(4)
    return Cells(
        dataset="sst2", instances=instances, seed_sd=seed * one, common_sd=common * one, joint_sd=joint * one,
        shape=np.empty(0),
    )  # fmt: skip


def cover(given: Cells, trials: int = 2_000) -> dict[tuple[str, str], float]:
    return simulate_dataset(given, trials=trials, resamples=400, rng=np.random.default_rng(0))


ERROR = 4 * np.sqrt(0.12 * 0.88 / 2_000)


def test_normal_seeds_give_the_coverages_of_students_distribution():
    found = cover(cells(seed=1.0, common=0.0, joint=0.0))
    assert found["paper", "seeds"] == pytest.approx(2 * stats.t.cdf(1.96, 4) - 1, abs=ERROR)
    assert found["t", "seeds"] == pytest.approx(0.95, abs=ERROR)
    # Without any noise of the test set both truths are one.
    assert all(found[kind, "seeds"] == found[kind, "seeds and instances"] for kind in KINDS)
    assert found["crossed", "seeds"] == pytest.approx(0.95, abs=ERROR)
    assert found["bootstrap", "seeds"] < found["paper", "seeds"]


def test_intervals_over_seeds_miss_the_test_sets_noise_and_the_crossed_one_does_not():
    found = cover(cells(seed=1.0, common=2.0, joint=0.7))
    # A normal truth 2 away from the centre of Student's interval, integrated.
    rng = np.random.default_rng(1)
    values = rng.normal(size=(200_000, 5)) + 2 * rng.normal(size=(200_000, 1))
    mean, half = values.mean(axis=1), stats.t.ppf(0.975, 4) * stats.sem(values, axis=1)
    assert found["t", "seeds and instances"] == pytest.approx(np.mean(abs(mean) <= half), abs=ERROR)
    assert found["crossed", "seeds and instances"] == pytest.approx(0.95, abs=ERROR)
    assert found["t", "seeds"] == pytest.approx(0.95, abs=ERROR)


def test_published_variances_are_those_printed():
    found = published_cells_of("sst2")
    assert found.instances == 872 and len(found.seed_sd) == 46
    assert 0.62 / 1.96 * np.sqrt(5) in found.seed_sd
    assert (found.joint_sd <= found.seed_sd).all()
    assert (published_cells_of("nq").common_sd == 0).all()
    assert set(TEST_INSTANCES) == set(DATASETS)
    small, large = published_cells_of("msmarco"), published_cells_of("mnli_m")
    assert np.median(small.common_sd) > 8 * np.median(large.common_sd)


def test_observed_variances_are_recovered(tmp_path):
    rng = np.random.default_rng(3)
    runs = made_up_runs(rng, models=("610m-clm-42k", "610m-mlm40-42k"))
    found = observed_cells(Source(label="x", runs=runs), "qqp")
    assert found is not None
    chosen = runs[(runs["dataset"] == "qqp") & (runs["lr"] == 1e-4)]
    expected = 100 * chosen.groupby("model")["test_score"].std()
    assert sorted(found.seed_sd) == pytest.approx(sorted(expected))
    assert found.shape.mean() == pytest.approx(0, abs=1e-9) and found.shape.var() == pytest.approx(1)
    table, folder = with_instances(tmp_path / "i", rng, models=("610m-clm-42k",), counts={"sst2": 2_000})
    source = Source(label="x", runs=table, instances=folder)
    seen = observed_cells(source, "sst2")
    assert seen is not None
    # sd 0.2 of the instances and 0.1 of the model's taste are common to seeds, 0.05 is not.
    assert seen.common_sd[0] == pytest.approx(100 * np.hypot(0.2, 0.1) / np.sqrt(2_000), rel=0.1)
    assert seen.joint_sd[0] == pytest.approx(100 * 0.05 / np.sqrt(2_000), rel=0.15)
    assert (observed_cells(source, "nq").common_sd == 0).all()  # type: ignore[union-attr]


def test_tiny_test_sets_and_seeds_that_agree_can_be_simulated():
    for instances in (1, 2, 5):
        found = cover(cells(seed=1.0, common=1.0, joint=0.5, instances=instances), 100)
        assert all(0 <= share <= 1 for share in found.values())
    alike = Cells(
        dataset="sst2", instances=50, seed_sd=np.ones(1), common_sd=np.ones(1), joint_sd=np.zeros(1),
        shape=np.array([-1.0, 1.0]),
    )  # fmt: skip
    assert all(np.isfinite(share) for share in cover(alike, 200).values())


@pytest.mark.parametrize("score", [0.0, 0.3, 1.0])
def test_seeds_that_all_agree_give_intervals_that_hold_their_value_and_have_a_width(score: float) -> None:
    runs = made_up_runs(np.random.default_rng(0), models=("610m-clm-42k",)).assign(test_score=score)
    frame = simulate(Source(label="x", runs=runs), trials=100, resamples=100, seed=0)
    assert (frame.loc[frame["target"] == "seeds", list(KINDS)] == 1.0).all(axis=None)
    for kind in ("paper", "t", "pooled", "bootstrap"):
        scores = scores_of(Evidence(Settings(interval=kind, resamples=100), runs=runs), source="x")
        assert scores["mean"].to_numpy() == pytest.approx(100 * score)
        assert ((scores["high"] > scores["low"]) != (kind == "paper")).all()
        assert ((scores["low"] >= 0) & (scores["low"] <= scores["mean"]) & (scores["high"] <= 100)).all()


@pytest.mark.parametrize("instances", [1, 2])
def test_one_test_instance_has_no_variance_of_its_own(tmp_path: Path, instances: int) -> None:
    counts = dict.fromkeys(DATASETS, instances)
    rng = np.random.default_rng(0)
    runs, folder = with_instances(tmp_path / "i", rng, models=("610m-clm-42k",), counts=counts)
    frame = simulate(Source(label="x", runs=runs, instances=folder), trials=100, resamples=100, seed=0)
    assert frame[list(KINDS)].notna().all(axis=None)


def test_it_is_repeatable_and_every_dataset_has_its_own_draws():
    source = Source(label="published")
    first, second = (simulate(source, trials=100, resamples=100, seed=5) for _ in range(2))
    assert first.equals(second)
    assert not first.equals(simulate(source, trials=100, resamples=100, seed=6))
    assert list(first["dataset"].unique()) == [*DATASETS, "average"]


def test_runs_of_one_seed_have_no_variance():
    runs = made_up_runs(np.random.default_rng(4), models=("610m-clm-42k",), seeds=(0,))
    with pytest.raises(UserError, match="no model was fine-tuned with two seeds on any dataset"):
        simulate(Source(label="x", runs=runs), trials=100, resamples=100, seed=0)


def test_every_format_shows_every_target_and_interval() -> None:
    frame = simulate(PUBLISHED, trials=100, resamples=100, seed=0)
    document = coverage_document(frame, 100, "published")
    for name in ("text", "markdown"):
        text = show(document, name)
        assert "variances from published; 100 trials per dataset (standard error 2.2)" in text
        assert text.count("MS MARCO") == len(TARGETS)
        assert all(kind in text for kind in KINDS)
    assert len(json.loads(show(document, "json"))) == len(frame)
    assert show(document, "csv").splitlines()[0] == ",".join(frame.columns)
