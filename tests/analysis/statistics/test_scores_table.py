"""Scores from runs and from published cells."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from analysis.published_cells import published_cells
from analysis.sources import open_source
from analysis.statistics.crossed import LIMITS, crossed_estimate
from analysis.statistics.interval_kinds import INTERVALS
from analysis.statistics.resampling import every_resample
from analysis.statistics.scores_table import (
    COLUMNS,
    Settings,
    order_scores,
    published_scores,
    resampled_seed_scores,
    run_scores,
    seed_scores,
)
from analysis.store.instances import RunScores
from analysis.store.runs_table import COLUMNS as RUN_COLUMNS
from benchmarks.protocol import DATASETS, TASKS, datasets_of
from common.errors import UserError
from pretraining.model_names import MODELS
from tests.analysis.made_up import random_runs, write_instances
from tests.analysis.stores import RELEASED

CLM, MLM = "610m-clm-42k", "610m-mlm40-42k"
SC = ("sst2", "qqp", "mnli_m")


def without(runs: pd.DataFrame, dataset: str, seeds: Iterable[int], model: str = CLM) -> pd.DataFrame:
    """The runs but for some seeds of a cell."""
    gone = (runs["model"] == model) & (runs["dataset"] == dataset) & runs["seed"].isin(list(seeds))
    return runs[~gone]


def ragged_runs() -> pd.DataFrame:
    """Full grids but for one model's SST-2 with two seeds, QQP with one, SQuAD with four, and NQ with three."""
    runs = random_runs()
    for dataset, gone in (("sst2", (0, 1, 2)), ("qqp", (0, 1, 2, 4)), ("squad", (2,)), ("nq", (0, 3))):
        runs = without(runs, dataset, gone)
    return runs


def best_scores(runs: pd.DataFrame) -> dict[tuple[str, str, str], dict[int, float]]:
    """By loops: the test scores in percent at each seed's best validation score; averages of what is complete."""
    best: dict[tuple[str, str, str, int], tuple[float, float]] = {}
    for run in runs.itertuples():
        key = run.model, run.task, run.dataset, run.seed
        best[key] = max(best.get(key, (-1.0, 0.0)), (run.validation_score, 100 * run.test_score))
    scores: dict[tuple[str, str, str], dict[int, float]] = {}
    for (model, task, dataset, seed), (_, score) in best.items():
        scores.setdefault((model, task, dataset), {})[seed] = score
    for model, task in {key[:2] for key in scores}:
        parts = [scores.get((model, task, name), {}) for name in datasets_of(task)]
        if both := set.intersection(*map(set, parts)):
            scores[model, task, "average"] = {s: sum(part[s] for part in parts) / len(parts) for s in both}
    return scores


def test_scores_are_the_chosen_runs_and_averages_are_of_the_seeds_that_have_all_datasets() -> None:
    runs = ragged_runs()
    expected, found = best_scores(runs), seed_scores(runs)
    assert set(found.index) == set(expected) and (CLM, "SC", "average") in expected
    for key, row in found.iterrows():
        assert row.dropna().to_dict() == pytest.approx(expected[key])


def test_no_average_is_left_where_no_seed_has_all_datasets() -> None:
    runs = without(without(random_runs(), "sst2", (0, 1, 2)), "qqp", (3, 4))
    found = seed_scores(runs)
    assert (CLM, "SC", "average") not in found.index and (MLM, "SC", "average") in found.index
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
            expected = sum(found.loc[(model, task, name)] for name in names) / len(names)
            assert averages.loc[(model, task, "average")].to_numpy() == pytest.approx(expected.to_numpy())


def test_cells_with_different_numbers_of_seeds_each_get_their_own_interval() -> None:
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
            ends = stats.t.interval(0.95, len(values) - 1, values.mean(), stats.sem(values))
            assert (row.low, row.high) == pytest.approx(ends)


@pytest.mark.parametrize("rule", ["mean", "seed"])
def test_a_cell_has_the_same_interval_with_and_without_cells_of_other_numbers_of_seeds(rule: str) -> None:
    runs, how = ragged_runs(), Settings(selection=rule, interval="bootstrap")
    found = run_scores(runs, how, source="x").set_index(["model", "dataset"])
    for dataset in ("qqp", "sst2", "nq", "squad", "uner_en"):
        alone = run_scores(runs[runs["dataset"] == dataset], how, source="x")
        for row in alone.itertuples():
            among = found.loc[(row.model, dataset)]
            assert among["interval"] == row.interval == ("t" if row.n_seeds in (2, 3) else "bootstrap")
            assert [among["low"], among["high"]] == pytest.approx([row.low, row.high], nan_ok=True)
            assert np.isnan(row.low) == (row.n_seeds == 1)


def test_rates_chosen_together_are_chosen_again_on_every_resample_of_the_seeds() -> None:
    runs = random_runs(models=[CLM], seeds=range(4)).query("dataset == 'sst2'")
    validation, test = (
        runs.pivot(index="lr", columns="seed", values=f"{part}_score").to_numpy()
        for part in ("validation", "test")
    )
    means = []
    for picks in itertools.product(range(4), repeat=4):
        best = max(range(len(validation)), key=lambda rate: sum(validation[rate, seed] for seed in picks))
        means.append(100 * sum(test[best, seed] for seed in picks) / 4)
    found = run_scores(runs, Settings(selection="mean", interval="bootstrap"), source="x").iloc[0]
    assert [found["low"], found["high"]] == pytest.approx(np.quantile(means, [0.025, 0.975]).tolist())


def test_scores_are_in_the_papers_order_with_own_models_last_by_name() -> None:
    models = [*list(MODELS)[:3], "a-own", "b-own"]
    keys = [(m, task, name) for m in models for task in TASKS for name in (*datasets_of(task), "average")]
    frame = pd.DataFrame(keys, columns=["model", "task", "dataset"]).assign(
        mean=np.arange(len(keys)), low=0.0, high=1.0, n_seeds=5, interval="t", source="x", other=1
    )
    found = order_scores(frame.sample(frac=1, random_state=0))
    pd.testing.assert_frame_equal(found, frame[COLUMNS])


def test_published_scores_are_students_unless_another_interval_is_named() -> None:
    found = published_scores()
    pd.testing.assert_frame_equal(found, published_scores("t"))
    assert set(found["source"]) == {"published"} and set(found["n_seeds"]) == {5}
    assert (found["mean"] - found["low"]).to_numpy() == pytest.approx(
        (found["high"] - found["mean"]).to_numpy()
    )
    assert (found["low"] <= found["mean"]).all() and (found["low"] < found["mean"]).any()


def test_the_options_of_settings_are_those_that_differ_from_the_usual() -> None:
    usual = Settings()
    assert usual.options(usual) == []
    assert Settings(interval="t", resamples=200).options(usual) == ["--interval", "t", "--resamples", "200"]
    other = Settings(selection="mean", interval="bca", resamples=300, seed=4)
    words = other.options(usual)
    assert words == ["--selection", "mean", "--interval", "bca", "--resamples", "300", "--seed", "4"]


def test_the_fewest_resamples_and_the_smallest_seed_are_taken_and_none_below() -> None:
    assert (Settings(resamples=100).resamples, Settings(seed=0).seed) == (100, 0)
    with pytest.raises(UserError, match=r"^99 resamples are too few for a 95 % interval; take 100 or more$"):
        Settings(resamples=99)
    with pytest.raises(UserError, match=r"^--seed -1: a generator's seed is a whole number from 0 on$"):
        Settings(seed=-1)


def test_a_generator_gives_the_same_for_its_purpose_and_seed_whatever_was_drawn_before() -> None:
    how = Settings(resamples=100, seed=3)
    drawn = how.rng(1, 2).random(5)
    assert (how.rng(1, 2).random(5) == drawn).all()
    for other in (how.rng(1, 3), how.rng(1), Settings(seed=4).rng(1, 2)):
        assert not (other.random(5) == drawn).any()
    assert how.picks(4).shape == (100, 4) and (how.picks(4) == how.picks(4)).all()
    assert how.seed_resamples(4) is every_resample(4)
    assert (how.seed_resamples(7).picks == how.picks(7)).all()


SEEDS_OF = {
    (CLM, "msmarco"): (2,), (CLM, "sst2"): range(5), (CLM, "qqp"): range(4), (CLM, "mnli_m"): range(5),
    (MLM, "sst2"): range(3), (MLM, "qqp"): range(2),
}  # fmt: skip
"""The seeds of each cell that has instances: one in IR, two to five in SC, and nothing between."""
Instances = dict[tuple[str, str], np.ndarray]


def stored(folder: Path, scores: Instances) -> pd.DataFrame:
    """Write the cells' (n_seeds, n_instances) scores and return their runs."""
    rows = []
    cells = {}
    for (model, dataset), cell in scores.items():
        seeds = SEEDS_OF[model, dataset]
        runs = [
            RunScores(lr=1e-4, seed=s, validation=one, test=one) for s, one in zip(seeds, cell, strict=True)
        ]
        cells[model, dataset] = runs
        task, count = DATASETS[dataset].task, cell.shape[1]
        for seed, mean in zip(seeds, cell.mean(axis=1), strict=True):
            rows.append((model, task, dataset, 1e-4, seed, mean, mean, count, count))
    write_instances(folder, cells)
    return pd.DataFrame(rows, columns=list(RUN_COLUMNS))


def noisy_instances(rng: np.random.Generator) -> Instances:
    """Scores with something of their own, of their run, and of their instance."""
    sizes = {"sst2": 30, "qqp": 20, "mnli_m": 25, "msmarco": 9}
    hard = {name: rng.random(size) for name, size in sizes.items()}
    return {
        (model, name): 0.6 * hard[name] + 0.1 * rng.random((len(seeds), 1)) + 0.3 * rng.random((len(seeds), 1))
        * rng.random((len(seeds), sizes[name]))
        for (model, name), seeds in SEEDS_OF.items()
    }  # fmt: skip


def test_the_crossed_interval_has_the_covariance_of_the_seeds_over_the_instances(tmp_path: Path) -> None:
    scores = noisy_instances(np.random.default_rng(0))
    runs = stored(tmp_path / "i", scores)
    found = run_scores(runs, Settings(interval="crossed"), source="x", instances=tmp_path / "i")
    assert found["n_seeds"].tolist() == [3, 2, 5, 4, 5, 4, 1] and set(found["interval"]) == {"crossed"}
    for row in found.itertuples():
        if row.n_seeds == 1:
            assert np.isnan([row.low, row.high]).all()
            continue
        names = SC if row.dataset == "average" else (row.dataset,)
        cells = [100 * scores[row.model, name][: row.n_seeds] for name in names]
        values = np.mean([cell.mean(axis=1) for cell in cells], axis=0)
        blocks = [np.cov(cell) / cell.shape[1] / len(names) ** 2 for cell in cells]
        shared = [
            np.mean([block[a, b] for a, b in itertools.permutations(range(row.n_seeds), 2)])
            for block in blocks
        ]
        assert sum(shared) > 0
        parts = sum(max(one, 0) ** 2 / (cell.shape[1] - 1) for one, cell in zip(shared, cells, strict=True))
        freedom = sum(max(one, 0) for one in shared) ** 2 / parts
        expected = crossed_estimate(values, np.sum(blocks, axis=0), freedom, limits=LIMITS)
        assert (row.mean, row.low, row.high) == pytest.approx((values.mean(), *expected.interval()))


def test_the_hierarchical_interval_of_instances_that_agree_is_that_of_drawn_seeds(tmp_path: Path) -> None:
    """Resamples of such instances are all alike, and what is left are the resamples of the seeds."""
    rng = np.random.default_rng(1)
    runs = stored(
        tmp_path / "i",
        {key: np.repeat(rng.random((len(seeds), 1)), 6, axis=1) for key, seeds in SEEDS_OF.items()},
    )
    how = Settings(interval="hierarchical", resamples=200)
    found = run_scores(runs, how, source="x", instances=tmp_path / "i")
    assert found["interval"].tolist() == ["crossed"] * 2 + ["hierarchical"] * 5
    expected = best_scores(runs)
    for row in found.itertuples():
        values = np.array(list(expected[row.model, row.task, row.dataset].values()))
        if row.interval == "crossed":
            ends = crossed_estimate(values, np.zeros((len(values),) * 2), limits=LIMITS).interval()
        else:
            ends = np.quantile(values[how.picks(len(values))].mean(axis=1), [0.025, 0.975])
        assert (row.low, row.high) == pytest.approx(tuple(ends))


def test_resampled_scores_are_of_each_run_and_of_the_same_instances_in_all(tmp_path: Path) -> None:
    scores = noisy_instances(np.random.default_rng(2))
    scores[MLM, "sst2"] = scores[CLM, "sst2"][:3] / 2 + 0.25
    runs = stored(tmp_path / "i", scores)
    how = Settings(resamples=400)
    found = resampled_seed_scores(runs, how, tmp_path / "i")
    assert set(found) == {(*key, seed) for key, seeds in SEEDS_OF.items() for seed in seeds}
    for (model, dataset), cell in scores.items():
        for seed, instances in zip(SEEDS_OF[model, dataset], cell, strict=True):
            means = found[model, dataset, seed]
            assert means.shape == (400,)
            error = instances.std() / len(instances) ** 0.5
            assert means.mean() == pytest.approx(instances.mean(), abs=4 * error / 400**0.5)
            assert means.std() == pytest.approx(error, rel=0.15)
    for seed in range(3):
        assert found[MLM, "sst2", seed] == pytest.approx(found[CLM, "sst2", seed] / 2 + 0.25)
    alone = resampled_seed_scores(runs[runs["dataset"] == "msmarco"], how, tmp_path / "i")
    assert list(alone) == [(CLM, "msmarco", 2)]
    assert (alone[CLM, "msmarco", 2] == found[CLM, "msmarco", 2]).all()
    other = resampled_seed_scores(runs, Settings(resamples=400, seed=1), tmp_path / "i")
    assert not (other[CLM, "msmarco", 2] == found[CLM, "msmarco", 2]).all()


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
