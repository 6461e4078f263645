"""Scores from runs and from published cells."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.published_cells import published_cells
from analysis.sources import open_source
from analysis.statistics.intervals import INTERVALS
from analysis.statistics.scores import COLUMNS, Settings, published_scores, run_scores, seed_scores
from benchmarks.protocol import datasets_of
from common.errors import UserError
from tests.analysis.made_up import random_runs
from tests.analysis.stores import RELEASED


def test_released_runs_give_the_published_digits() -> None:
    score = open_source(str(RELEASED)).scores(Settings(interval="paper")).iloc[0]
    assert f"{score['mean']:.2f} +- {score['mean'] - score['low']:.2f}" == "91.42 +- 0.62"
    assert score["n_seeds"] == 5


def test_averages_are_taken_per_seed_first() -> None:
    runs = random_runs()
    values = seed_scores(runs)
    for task in ("SC", "TC", "QA", "IR"):
        parts = [values.loc[("610m-clm-42k", task, name)].to_numpy() for name in datasets_of(task)]
        average = values.loc[("610m-clm-42k", task, "average")].to_numpy()
        assert average == pytest.approx(np.mean(parts, axis=0))
    scores = run_scores(runs, Settings(interval="paper"), source="x").set_index(["model", "task", "dataset"])
    row = scores.loc[("610m-clm-42k", "IR", "average")]
    per_seed = np.mean([values.loc[("610m-clm-42k", "IR", name)] for name in datasets_of("IR")], axis=0)
    assert row["high"] - row["mean"] == pytest.approx(1.96 * per_seed.std(ddof=1) / 5**0.5)


def test_an_average_needs_all_three_datasets_of_a_seed() -> None:
    runs = random_runs()
    lacking = runs[~((runs["dataset"] == "qqp") & (runs["seed"] == 4))]
    scores = run_scores(lacking, Settings(), source="x").query("model == '610m-clm-42k' and task == 'SC'")
    assert scores.set_index("dataset")["n_seeds"].to_dict() == {
        "sst2": 5,
        "qqp": 4,
        "mnli_m": 5,
        "average": 4,
    }
    none = run_scores(runs[runs["dataset"] != "qqp"], Settings(), source="x")
    assert "average" not in set(none.loc[none["task"] == "SC", "dataset"])


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_shuffled_runs_give_the_same_scores(seed: int) -> None:
    runs = random_runs()
    shuffled = runs.iloc[np.random.default_rng(seed).permutation(len(runs))]
    for interval in ("paper", "bootstrap"):
        how = Settings(interval=interval, resamples=200)
        pd.testing.assert_frame_equal(
            run_scores(runs, how, source="x"), run_scores(shuffled, how, source="x")
        )


OVER_SEEDS = [name for name, one in INTERVALS.items() if not one.needs_instances]


@pytest.mark.parametrize("interval", OVER_SEEDS)
def test_columns_and_order(interval: str) -> None:
    scores = run_scores(random_runs(), Settings(interval=interval, resamples=500), source="somewhere")
    assert list(scores.columns) == COLUMNS
    assert len(scores) == 2 * (12 + 4)
    assert (scores["low"] <= scores["mean"]).all()
    assert (scores["mean"] <= scores["high"]).all()
    assert set(scores["source"]) == {"somewhere"}
    again = run_scores(random_runs(), Settings(interval=interval, resamples=500), source="somewhere")
    pd.testing.assert_frame_equal(scores, again)


@pytest.mark.parametrize("interval", ["bootstrap", "bca", "studentised"])
def test_a_bootstrap_of_many_seeds_depends_on_its_generators_seed_only(interval: str) -> None:
    runs = random_runs(seeds=range(8))
    one = run_scores(runs, Settings(interval=interval, resamples=500, seed=1), source="x")
    two = run_scores(runs, Settings(interval=interval, resamples=500, seed=2), source="x")
    assert not one["low"].equals(two["low"])
    alone = runs[runs["model"] == "610m-clm-42k"]
    fewer = run_scores(alone, Settings(interval=interval, resamples=500, seed=1), source="x")
    among = one[one["model"] == "610m-clm-42k"].reset_index(drop=True)
    pd.testing.assert_frame_equal(fewer, among, check_exact=True)


def test_published_scores_are_the_published_cells() -> None:
    scores = published_scores("paper").set_index(["model", "task", "dataset"])
    cells = published_cells()
    assert len(cells) == 800
    for cell in cells.itertuples():
        row = scores.loc[(cell.model, cell.task, cell.dataset)]
        assert row["mean"] == cell.mean
        assert row["high"] - row["mean"] == pytest.approx(cell.ci95)


def test_published_t_interval_is_wider_by_the_ratio_of_quantiles() -> None:
    paper, student = published_scores("paper"), published_scores("t")
    ratio = (student["high"] - student["mean"]) / (paper["high"] - paper["mean"]).where(lambda half: half > 0)
    assert ratio.dropna().to_numpy() == pytest.approx(2.7764451 / 1.96)


@pytest.mark.parametrize("interval", ["bootstrap", "bca", "hierarchical"])
def test_published_cells_cannot_be_resampled(interval: str) -> None:
    with pytest.raises(UserError, match="needs single runs"):
        published_scores(interval)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [({"interval": "papper"}, "did you mean 'paper'"), ({"selection": "sed"}, "did you mean 'seed'"),
     ({"resamples": 5}, "too few"), ({"seed": -1}, "from 0 on")],
)  # fmt: skip
def test_wrong_settings_are_refused(wrong: dict[str, object], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        Settings(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("interval", ["hierarchical", "crossed"])
def test_intervals_over_instances_need_them(interval: str) -> None:
    with pytest.raises(UserError, match="per-instance"):
        run_scores(random_runs(), Settings(interval=interval), source="x")


@pytest.mark.parametrize("interval", OVER_SEEDS)
def test_few_seeds_depend_on_no_generator(interval: str) -> None:
    runs = random_runs()
    one = run_scores(runs, Settings(interval=interval, seed=1), source="x")
    two = run_scores(runs, Settings(interval=interval, seed=2), source="x")
    pd.testing.assert_frame_equal(one, two, check_exact=True)


@pytest.mark.parametrize("interval", ["bootstrap", "bca", "expanded", "bootstrap-t", "studentised"])
@pytest.mark.parametrize("seeds", [2, 3, 4, 5])
def test_too_few_seeds_get_students_interval_under_its_own_name(interval: str, seeds: int) -> None:
    runs = random_runs(seeds=range(seeds))
    found = run_scores(runs, Settings(interval=interval), source="x")
    student = run_scores(runs, Settings(interval="t"), source="x")
    if seeds < (5 if interval == "studentised" else 4):
        pd.testing.assert_frame_equal(found, student)
    else:
        assert set(found["interval"]) == {interval}


def test_settings_without_an_interval_take_the_default_of_the_source() -> None:
    assert set(open_source("published").scores(Settings())["interval"]) == {"t"}
    assert set(open_source(str(RELEASED)).scores(Settings())["interval"]) == {"studentised"}
