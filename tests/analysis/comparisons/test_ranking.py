import math

import numpy as np
import pytest
from scipy import integrate, stats

from analysis.comparisons.contestants import Place, contestants_of
from analysis.comparisons.ranking import critical_difference, mean_ranks, rank_models
from analysis.evidence.evidence import Settings
from analysis.published_cells import published_values
from analysis.sources import PUBLISHED, Source
from tests.analysis.comparisons.given import best_runs, drawn

SETTINGS = Settings(interval="t", resamples=2_000)
LEVELS = {"610m-mlm20-42k": 0.0, "610m-mlm30-42k": 0.5, "610m-mlm40-42k": 3.0, "610m-mlm50-42k": 0.5}


def ranked(scores):
    contestants = contestants_of(Source(label="x", runs=best_runs(scores)), list(scores), SETTINGS)
    return rank_models(contestants, [place for place in contestants.shared() if place.is_dataset])


def test_ranks_and_friedman_agree_with_scipy():
    scores = drawn(LEVELS)
    ranking = ranked(scores)
    means = np.array([[np.mean(values) for values in datasets.values()] for datasets in scores.values()])
    assert ranking.friedman_p == pytest.approx(stats.friedmanchisquare(*means).pvalue)
    by_scipy = dict(zip(scores, (len(scores) + 1 - stats.rankdata(means, axis=0)).mean(axis=1), strict=True))
    assert {one.model: one.mean_rank for one in ranking.ranked} == pytest.approx(by_scipy)
    assert ranking.ranked[0].model == "610m-mlm40-42k"
    assert ranking.ranked[0].p_first == 1.0
    assert sum(one.p_first for one in ranking.ranked) == pytest.approx(1)


@pytest.mark.parametrize(("models", "quantile"), [(2, 1.960), (3, 2.343), (5, 2.728), (10, 3.164)])
def test_the_critical_difference_has_the_quantiles_of_demsars_table(models, quantile):
    assert critical_difference(models, 12) == pytest.approx(
        quantile * math.sqrt(models * (models + 1) / 72), rel=5e-4
    )


def test_groups_are_the_largest_runs_within_the_critical_difference():
    ranking = ranked(drawn({name: 10.0 * place for place, name in enumerate(LEVELS)}))
    assert [one.mean_rank for one in ranking.ranked] == [1, 2, 3, 4]
    assert ranking.critical_difference == pytest.approx(1.354, abs=0.001)
    assert [len(group) for group in ranking.groups] == [2, 2, 2]


def test_ties_share_their_ranks():
    assert mean_ranks(np.array([[1.0, 2.0], [1.0, 1.0], [0.0, 3.0]])).tolist() == [1.75, 2.25, 2.0]


def test_the_chance_of_being_first_is_that_of_the_higher_of_two_students():
    """On one dataset the rank is the order of two means, each drawn from Student's t around the printed one."""
    sst2 = Place("SC", "sst2")
    contestants = contestants_of(PUBLISHED, ["610m-mlm40-42k", "610m-clm-42k"], SETTINGS)
    ranking = rank_models(contestants, [sst2])
    cells = published_values().set_index(["model", "dataset", "task"])
    first, second = (
        stats.t(4, mean, half / 1.96)
        for mean, half in (cells.loc[(name, "sst2", "SC"), ["mean", "ci95"]] for name in contestants.models)
    )
    exact = integrate.quad(lambda x: first.pdf(x) * second.cdf(x), 61, 121, points=[91.1, 91.42])[0]
    assert {one.model: one.p_first for one in ranking.ranked}["610m-mlm40-42k"] == pytest.approx(
        exact, abs=0.03
    )
