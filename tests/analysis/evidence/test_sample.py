"""The scores behind a contrast: shared seeds, rates chosen again on each resample, parts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis.evidence.contrasts import Contrast, Term
from analysis.evidence.evidence import Evidence
from analysis.evidence.sample import Sample
from analysis.evidence.settings import Settings
from analysis.statistics.resampling import every_resample
from tests.analysis.made_up import made_up_runs, random_runs

ONE, OTHER = "610m-clm-42k", "610m-mlm40-42k"


def gap(first: float = 1.0, second: float = -1.0, dataset: str = "sst2") -> Contrast:
    terms = tuple(
        Term(weight=weight, model=model, task="SC", dataset=dataset)
        for weight, model in ((first, ONE), (second, OTHER))
    )
    return Contrast(label="", terms=terms)


def sample_of(runs: pd.DataFrame, contrast: Contrast, selection: str = "seed") -> Sample:
    return Sample(Evidence(Settings(selection=selection, interval="t"), runs=runs).cells, contrast.terms)


def by_hand(runs: pd.DataFrame, model: str, picks: np.ndarray) -> np.ndarray:
    """The test scores of the picked seeds at the rate with the best mean validation score among them, in percent."""
    rows = runs[(runs["model"] == model) & (runs["dataset"] == "sst2")]
    validation, test = (
        rows.pivot(index="lr", columns="seed", values=f"{kind}_score").to_numpy()[:, picks]
        for kind in ("validation", "test")
    )
    return 100 * test[validation.mean(axis=1).argmax()]


def test_each_resample_of_a_contrast_chooses_the_rate_of_each_cell_again() -> None:
    runs = random_runs(models=(ONE, OTHER))
    found = sample_of(runs, gap(1.0, -0.5), "mean").reselected
    picks = every_resample(5).picks
    assert found is not None and found.shape == picks.shape
    for row in range(0, len(picks), 7):
        expected = by_hand(runs, ONE, picks[row]) - 0.5 * by_hand(runs, OTHER, picks[row])
        assert found[row] == pytest.approx(expected)
    means = np.repeat(found.mean(axis=1), every_resample(5).counts)
    estimate = (
        Evidence(Settings(selection="mean", interval="bootstrap"), runs=runs)
        .estimate(gap(1.0, -0.5))
        .estimate
    )
    assert estimate.interval() == pytest.approx(np.quantile(means, [0.025, 0.975]))
    bca = Evidence(Settings(selection="mean", interval="bca"), runs=runs).estimate(gap(1.0, -0.5)).estimate
    assert bca.interval() != estimate.interval()


def test_nothing_is_chosen_again_where_every_seed_has_its_own_rate() -> None:
    assert sample_of(random_runs(models=(ONE, OTHER)), gap(), "seed").reselected is None


@pytest.mark.parametrize("shared", [1, 2, 3])
def test_two_shared_seeds_are_enough_and_one_is_not(shared: int) -> None:
    runs = made_up_runs(np.random.default_rng(0), models=(ONE, OTHER), rates=[1e-4])
    sample = sample_of(runs[(runs["model"] == ONE) | (runs["seed"] < shared)], gap())
    assert (sample.values is None) == (shared == 1)
    assert sample.values is None or len(sample.values) == shared
    assert [part.count for part in sample.parts] == ([] if shared == 1 else [5, shared])
    assert (sample.welch is None) == (shared == 1)


def test_parts_are_the_cells_once_without_those_of_no_weight() -> None:
    runs = made_up_runs(np.random.default_rng(0), models=(ONE, OTHER), rates=[1e-4])
    terms = (*gap().terms, *gap(0.5, 1.0).terms)
    [part] = sample_of(runs, Contrast(label="", terms=terms)).parts
    assert part.weight == 1.5 and part.scores == ("SC", "sst2")


def test_an_average_weighs_its_datasets_alike_and_a_level_is_one_cell_as_it_is() -> None:
    runs = made_up_runs(np.random.default_rng(0), models=(ONE, OTHER), rates=[1e-4])
    sample = sample_of(runs, gap(1.0, -2.0, "average"))
    names = ("sst2", "qqp", "mnli_m")
    assert sample.weighted == [(w, m, name) for w, m in ((1 / 3, ONE), (-2 / 3, OTHER)) for name in names]
    levels = {1.0: True, -1.0: False, 0.5: False, 2.0: False}
    for weight, expected in levels.items():
        assert sample_of(runs, Contrast(label="", terms=gap(weight).terms[:1])).is_level == expected
    assert not sample_of(runs, gap()).is_level
    assert sample.from_instances == 0.0 and sample.covariance is None
