"""Rates chosen again on every resample: against the selection rules themselves, applied to resampled runs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis.evidence.cells import seed_scores
from analysis.statistics.learning_rate_selection import SELECTIONS
from analysis.statistics.resampling import every_resample
from analysis.statistics.reselection import Reselection
from tests.analysis.made_up import random_runs
from tests.analysis.stores import RELEASED

MODEL = "610m-clm-42k"


def resampled_runs(runs: pd.DataFrame, picks: np.ndarray) -> pd.DataFrame:
    """The runs of the picked seeds under the seeds' numbers 0, 1, ..."""
    parts = [runs[runs["seed"] == pick].assign(seed=place) for place, pick in enumerate(picks)]
    return pd.concat(parts, ignore_index=True)


@pytest.mark.parametrize("rule", ["mean", "pooled"])
@pytest.mark.parametrize("dataset", ["qqp", "average"])
def test_a_resample_chooses_as_the_rule_does_from_its_runs(rule: str, dataset: str) -> None:
    runs = random_runs(models=[MODEL], seeds=range(4))
    picks = every_resample(4).picks
    found = Reselection(runs=runs, rule=SELECTIONS[rule]).scores((MODEL, "SC", dataset), range(4), picks)
    assert found is not None
    for row in range(0, len(picks), 5):
        expected = seed_scores(resampled_runs(runs, picks[row]), rule).loc[(MODEL, "SC", dataset)]
        assert found[row] == pytest.approx(expected.to_numpy())


@pytest.mark.parametrize("rule", ["mean", "pooled"])
def test_a_rate_that_lacks_a_seed_cannot_be_chosen(rule: str) -> None:
    runs = random_runs(models=[MODEL])
    rate = runs["lr"].max()
    runs.loc[runs["lr"] == rate, "validation_score"] = 2.0
    lacking = runs[~((runs["lr"] == rate) & (runs["seed"] == 4))]
    picks = every_resample(5).picks
    without = Reselection(runs=lacking, rule=SELECTIONS[rule]).scores((MODEL, "SC", "qqp"), range(5), picks)
    never = Reselection(runs=runs[runs["lr"] != rate], rule=SELECTIONS[rule])
    assert without == pytest.approx(never.scores((MODEL, "SC", "qqp"), range(5), picks))
    assert (
        Reselection(runs=lacking, rule=SELECTIONS[rule]).scores((MODEL, "SC", "qqp"), range(6), picks) is None
    )


def test_rates_whose_means_differ_by_rounding_alone_are_equal_and_the_smallest_wins() -> None:
    """The same three scores in another order have another last digit of their mean."""
    values = {1e-5: (0.1, 0.2, 0.3), 2e-5: (0.3, 0.2, 0.1), 5e-5: (0.1, 0.1, 0.3)}
    assert 0.1 + 0.2 + 0.3 > 0.3 + 0.2 + 0.1
    rows = [
        (MODEL, "SC", "qqp", lr, seed, score, lr * 1e4 + seed / 10)
        for lr, scores in values.items()
        for seed, score in enumerate(scores)
    ]
    columns = ["model", "task", "dataset", "lr", "seed", "validation_score", "test_score"]
    runs = pd.DataFrame(rows, columns=columns)
    picks = np.array([[0, 1, 2], [2, 1, 0]])
    found = Reselection(runs=runs, rule=SELECTIONS["mean"]).scores((MODEL, "SC", "qqp"), range(3), picks)
    assert found == pytest.approx(100 * (0.1 + picks / 10))


@pytest.mark.parametrize("rule", ["mean", "pooled"])
def test_seeds_are_found_by_their_numbers_in_any_order(rule: str) -> None:
    runs = random_runs(models=[MODEL], seeds=(11, 3, 7, 20))
    seeds = (7, 20, 3)
    picks = every_resample(3).picks
    found = Reselection(runs=runs, rule=SELECTIONS[rule]).scores((MODEL, "SC", "qqp"), seeds, picks)
    assert found is not None
    for row, places in enumerate(picks):
        picked = resampled_runs(runs, np.array([seeds[place] for place in places]))
        expected = seed_scores(picked, rule).loc[(MODEL, "SC", "qqp")]
        assert found[row] == pytest.approx(expected.to_numpy())


@pytest.mark.parametrize("rule", ["mean", "pooled"])
def test_a_score_that_no_run_can_give_is_not_chosen_for_again(rule: str) -> None:
    runs = random_runs(models=[MODEL])
    lacking = runs[runs["dataset"] != "mnli_m"]
    picks = every_resample(5).picks
    reselection = Reselection(runs=lacking, rule=SELECTIONS[rule])
    for cell in ((MODEL, "SC", "mnli_m"), (MODEL, "SC", "average"), ("610m-mlm40-42k", "SC", "qqp")):
        assert reselection.scores(cell, range(5), picks) is None


def test_a_pooled_rate_is_that_of_the_datasets_that_a_model_has() -> None:
    runs = random_runs(models=[MODEL], seeds=range(3))
    lacking = runs[runs["dataset"] != "mnli_m"]
    picks = every_resample(3).picks
    found = Reselection(runs=lacking, rule=SELECTIONS["pooled"]).scores((MODEL, "SC", "qqp"), range(3), picks)
    assert found is not None
    for row, places in enumerate(picks):
        expected = seed_scores(resampled_runs(lacking, places), "pooled").loc[(MODEL, "SC", "qqp")]
        assert found[row] == pytest.approx(expected.to_numpy())


def test_choosing_again_widens_the_bootstrap_of_the_released_cell() -> None:
    """The standard deviation over resamples is 0.129 with the rate chosen again and 0.112 with the rate kept."""
    runs = pd.read_csv(RELEASED).rename(columns={"val_score": "validation_score"})
    every = every_resample(5)
    cell = ("610m-mlm40-42k", "SC", "sst2")
    chosen = Reselection(runs=runs, rule=SELECTIONS["mean"]).scores(cell, range(5), every.picks)
    assert chosen is not None
    kept = seed_scores(runs, "mean").loc[cell].to_numpy()[every.picks]
    sds = [float(np.sqrt(np.cov(one.mean(axis=1), fweights=every.counts, ddof=0))) for one in (chosen, kept)]
    assert sds == pytest.approx([0.129, 0.112], abs=0.0005)
