"""Scores from runs and from published cells."""

from collections.abc import Iterable

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from analysis.evidence.cells import seed_scores
from analysis.evidence.evidence import SCORE_COLUMNS, Evidence, scores_of
from analysis.evidence.settings import Settings
from analysis.sources import open_source
from benchmarks.protocol import TASKS, datasets_of
from common.errors import UserError
from pretraining.paper_models import MODELS
from tests.analysis.made_up import made_up_runs, random_runs

CLM, MLM = "610m-clm-42k", "610m-mlm40-42k"
SC = ("sst2", "qqp", "mnli_m")


def run_scores(runs: pd.DataFrame, how: Settings, *, source: str) -> pd.DataFrame:
    return scores_of(Evidence(how, runs=runs), source=source)


def published_scores(interval: str = "") -> pd.DataFrame:
    return open_source("published").scores(Settings(interval=interval))


def without(
    runs: pd.DataFrame, dataset: str, seeds: Iterable[int], model: str = CLM
) -> pd.DataFrame:
    """The runs but for some seeds of a cell."""
    gone = (
        (runs["model"] == model)
        & (runs["dataset"] == dataset)
        & runs["seed"].isin(list(seeds))
    )
    return runs[~gone]


def ragged_runs() -> pd.DataFrame:
    """Full grids but for one model's SST-2 with two seeds, QQP with one, SQuAD with four, and NQ with three."""
    runs = random_runs()
    for dataset, gone in (
        ("sst2", (0, 1, 2)),
        ("qqp", (0, 1, 2, 4)),
        ("squad", (2,)),
        ("nq", (0, 3)),
    ):
        runs = without(runs, dataset, gone)
    return runs


def best_scores(runs: pd.DataFrame) -> dict[tuple[str, str, str], dict[int, float]]:
    """By loops: the test scores in percent at each seed's best validation score; averages of what is complete."""
    best: dict[tuple[str, str, str, int], tuple[float, float]] = {}
    for run in runs.itertuples():
        key = run.model, run.task, run.dataset, run.seed
        best[key] = max(
            best.get(key, (-1.0, 0.0)), (run.validation_score, 100 * run.test_score)
        )
    scores: dict[tuple[str, str, str], dict[int, float]] = {}
    for (model, task, dataset, seed), (_, score) in best.items():
        scores.setdefault((model, task, dataset), {})[seed] = score
    for model, task in {key[:2] for key in scores}:
        parts = [scores.get((model, task, name), {}) for name in datasets_of(task)]
        if both := set.intersection(*map(set, parts)):
            scores[model, task, "average"] = {
                s: sum(part[s] for part in parts) / len(parts) for s in both
            }
    return scores


def test_averages_are_of_seeds_that_have_all_datasets() -> None:
    runs = ragged_runs()
    expected, found = best_scores(runs), seed_scores(runs)
    assert set(found.index) == set(expected) and (CLM, "SC", "average") in expected
    for key, row in found.iterrows():
        assert row.dropna().to_dict() == pytest.approx(expected[key])


def test_no_average_is_left_where_no_seed_has_all_datasets() -> None:
    runs = without(without(random_runs(), "sst2", (0, 1, 2)), "qqp", (3, 4))
    found = seed_scores(runs)
    assert (CLM, "SC", "average") not in found.index and (
        MLM,
        "SC",
        "average",
    ) in found.index
    assert set(found.index) == set(best_scores(runs))


def test_averages_are_of_the_datasets_that_stand_for_a_family() -> None:
    runs = random_runs()
    families = {"SC": "", "TC": "uner_en", "QA": "", "IR": "nq,mldr_en"}
    runs["family"] = runs["task"].map(families)
    found = seed_scores(runs)
    averages = found[found.index.get_level_values("dataset") == "average"]
    assert set(averages.index.get_level_values("task")) == {"TC", "IR"}
    for model in (CLM, MLM):
        for task, names in (("TC", ["uner_en"]), ("IR", ["nq", "mldr_en"])):
            expected = sum(found.loc[(model, task, name)] for name in names) / len(
                names
            )
            assert averages.loc[(model, task, "average")].to_numpy() == pytest.approx(
                expected.to_numpy()
            )


def test_cells_of_other_seed_counts_have_their_own_interval() -> None:
    runs = ragged_runs()
    expected = best_scores(runs)
    found = run_scores(runs, Settings(interval="t"), source="x")
    assert set(found["n_seeds"]) == {1, 2, 3, 4, 5} and len(found) == len(expected)
    for row in found.itertuples():
        values = np.array(list(expected[row.model, row.task, row.dataset].values()))
        assert (row.n_seeds, row.mean) == (len(values), pytest.approx(values.mean()))
        if len(values) == 1:
            assert np.isnan([row.low, row.high]).all()
        else:
            ends = stats.t.interval(
                0.95, len(values) - 1, values.mean(), stats.sem(values)
            )
            assert (row.low, row.high) == pytest.approx(np.clip(ends, 0, 100))


@pytest.mark.parametrize("rule", ["mean", "seed"])
def test_interval_ignores_cells_of_other_seed_counts(
    rule: str,
) -> None:
    runs, how = ragged_runs(), Settings(selection=rule, interval="bootstrap")
    found = run_scores(runs, how, source="x").set_index(["model", "dataset"])
    for dataset in ("qqp", "sst2", "nq", "squad", "uner_en"):
        alone = run_scores(runs[runs["dataset"] == dataset], how, source="x")
        for row in alone.itertuples():
            among = found.loc[(row.model, dataset)]
            assert (
                among["interval"]
                == row.interval
                == ("t" if row.n_seeds in (2, 3) else "bootstrap")
            )
            assert [among["low"], among["high"]] == pytest.approx(
                [row.low, row.high], nan_ok=True
            )
            assert np.isnan(row.low) == (row.n_seeds == 1)


def test_scores_are_in_the_papers_order_own_models_last() -> None:
    models = [*list(MODELS)[:3], "a-own", "b-own"]
    keys = [
        (m, task, name)
        for m in models
        for task in TASKS
        for name in (*datasets_of(task), "average")
    ]
    runs = made_up_runs(np.random.default_rng(0), models=models).sample(
        frac=1, random_state=0
    )
    found = run_scores(runs, Settings(interval="t"), source="x")
    assert list(found.columns) == SCORE_COLUMNS
    assert (
        list(found[["model", "task", "dataset"]].itertuples(index=False, name=None))
        == keys
    )


def test_published_scores_are_students_by_default() -> None:
    found = published_scores()
    pd.testing.assert_frame_equal(found, published_scores("t"))
    assert set(found["source"]) == {"published"} and set(found["n_seeds"]) == {5}
    # Others are cut where the metric ends
    inside = found[(found["low"] > 0) & (found["high"] < 100)]
    assert len(found) - len(inside) == 9
    assert (inside["mean"] - inside["low"]).to_numpy() == pytest.approx(
        (inside["high"] - inside["mean"]).to_numpy()
    )
    assert (found["low"] <= found["mean"]).all() and (
        found["low"] < found["mean"]
    ).any()


def test_options_of_settings_are_the_unusual_ones() -> None:
    usual = Settings()
    assert usual.options(usual) == []
    assert Settings(interval="t", resamples=200).options(usual) == [
        "--interval",
        "t",
        "--resamples",
        "200",
    ]
    other = Settings(selection="mean", interval="bootstrap", resamples=300, seed=4)
    words = other.options(usual)
    assert words == [
        "--selection",
        "mean",
        "--interval",
        "bootstrap",
        "--resamples",
        "300",
        "--seed",
        "4",
    ]


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


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"interval": "papper"}, "did you mean 'paper'"),
        ({"selection": "sed"}, "did you mean 'seed'"),
        ({"resamples": 99}, "^99 resamples .* at least 100$"),
        ({"seed": -1}, "^--seed -1: .* 0 or a positive"),
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, object], sentence: str) -> None:
    assert (Settings(resamples=100).resamples, Settings(seed=0).seed) == (100, 0)
    with pytest.raises(UserError, match=sentence):
        Settings(**wrong)  # type: ignore[arg-type]
