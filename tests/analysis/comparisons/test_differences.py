"""Differences against scipy and statsmodels."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.power import TTestIndPower
from statsmodels.stats.weightstats import ttost_ind

from analysis.claims.catalogue.terms import MARGINS
from analysis.comparisons.contestants import OVERALL, Place, contestants_of
from analysis.comparisons.differences import against, compare_pair, margin_of
from analysis.evidence.settings import Settings
from analysis.sources import Source
from benchmarks.protocol import AVERAGE, datasets_of
from tests.analysis.adjusted import multipletests
from tests.analysis.comparisons.given import (
    MADE_UP,
    REAL,
    best_runs,
    drawn,
    real_and_made_up,
)

SETTINGS = Settings(interval="t", resamples=2_000)
SST2, SC = Place("SC", "sst2"), Place("SC", AVERAGE)


def compared(source, first=REAL, second=MADE_UP, **options):
    contestants = contestants_of(source, [first, second], SETTINGS)
    return {
        one.place: one for one in compare_pair(contestants, first, second, **options)
    }


def by_seed(source, model):
    return source.evidence(SETTINGS).by_seed((model, "SC", "sst2"))


def test_runs_one_model_real_agree_with_scipy():
    source = real_and_made_up()
    x, y = by_seed(source, REAL), by_seed(source, MADE_UP)
    one = compared(source)[SST2]
    by_scipy = stats.ttest_ind(x, y, equal_var=False)
    interval = by_scipy.confidence_interval(0.95)
    assert (one.result.effect, one.result.p_zero) == pytest.approx(
        (np.mean(x - y), by_scipy.pvalue)
    )
    assert one.standardised == pytest.approx(
        np.mean(x - y) / np.sqrt((np.var(x, ddof=1) + np.var(y, ddof=1)) / 2)
    )
    assert (one.result.low, one.result.high) == pytest.approx(
        (interval.low, interval.high)
    )
    assert one.result.p_for == pytest.approx(
        ttost_ind(x, y, -0.5, 0.5, usevar="unequal")[0]
    )
    assert one.result.seeds == (5, 5)
    wanted = max(abs(one.result.effect), 0.5) / one.spread
    exact = TTestIndPower().solve_power(wanted, power=0.8, alpha=0.05)
    assert one.seeds_to_find == pytest.approx(np.ceil(exact), abs=1)
    assert one.seeds_still == max(0, one.seeds_to_find - 5)


def test_incomplete_runs_agree_with_scipy():
    partly = [90.1, 90.5, 90.2, 90.4, 90.0], [89.0, 89.9, 89.2, np.nan, np.nan]
    one = compared(
        Source(
            label="x",
            runs=best_runs({REAL: {"sst2": partly[0]}, MADE_UP: {"sst2": partly[1]}}),
        )
    )[SST2]
    by_scipy = stats.ttest_ind(*partly, equal_var=False, nan_policy="omit")
    assert one.result.p_zero == pytest.approx(by_scipy.pvalue)
    assert (one.result.low, one.result.high) == pytest.approx(
        by_scipy.confidence_interval(0.95)
    )
    assert one.result.effect == pytest.approx(
        np.mean(partly[0]) - np.nanmean(partly[1]), abs=1e-12
    )


def test_all_tasks_are_those_that_every_model_has():
    third = "610m-mlm20-42k"
    scores = drawn({REAL: 0.4, MADE_UP: 0.0, third: 0.1}, seed=3)
    names = [*datasets_of("SC"), *datasets_of("TC")]
    scores[third] = {name: scores[third][name] for name in names}
    contestants = contestants_of(
        Source(label="x", runs=best_runs(scores)), [REAL, MADE_UP, third], SETTINGS
    )
    [one] = [
        one
        for one in against(contestants, REAL)
        if one.place == OVERALL and (one.first, one.second) == (REAL, MADE_UP)
    ]
    x, y = ([scores[model][name] for name in names] for model in (REAL, MADE_UP))
    assert one.result.effect == pytest.approx(np.mean(x) - np.mean(y))
    assert one.margin == pytest.approx((MARGINS["SC"] + MARGINS["TC"]) / 2)


def test_holm_is_over_datasets_and_over_tasks_and_over_pairs():
    found = compared(
        Source(label="x", runs=best_runs(drawn({REAL: 0.4, MADE_UP: 0.0})))
    )
    datasets = [one for one in found.values() if one.place.is_dataset]
    assert len(datasets) == 12
    adjusted = multipletests([one.result.p_zero for one in datasets], method="holm")[1]
    assert [one.p_holm for one in datasets] == pytest.approx(list(adjusted))
    assert found[OVERALL].p_holm == found[OVERALL].result.p_zero
    contestants = contestants_of(
        Source(
            label="x",
            runs=best_runs(drawn({REAL: 0.4, MADE_UP: 0.0, "610m-mlm20-42k": 0.1})),
        ),
        ["610m-*"],
        SETTINGS,
    )
    pairs = [one for one in against(contestants, REAL) if one.place == OVERALL]
    # Of three pairs the one without the best is not computed, and counts as if its p were 1.
    adjusted = multipletests(
        [*(one.result.p_zero for one in pairs), 1.0], method="holm"
    )[1]
    assert len(pairs) == 2
    assert [one.p_holm for one in pairs] == pytest.approx(list(adjusted[:2]))


def test_the_outcome_says_ahead_behind_equal_or_open():
    level = list(np.array([0.0, 0.1, -0.1, 0.05, -0.05]))
    noise = list(np.array([2.0, -2.5, 1.0, 3.0, -3.0]))
    scores = {
        REAL: {
            "sst2": [90 + one for one in level],
            "qqp": [90.02 - one for one in level],
            "mnli_m": [90 + one for one in noise],
        },
        MADE_UP: {"sst2": [80.0] * 5, "qqp": [90.0] * 5, "mnli_m": [90.0] * 5},
    }
    source = Source(label="x", runs=best_runs(scores))
    found = compared(source)
    assert [found[Place("SC", name)].outcome for name in ("sst2", "qqp", "mnli_m")] == [
        "ahead",
        "equal",
        "open",
    ]
    assert compared(source, MADE_UP, REAL)[SST2].outcome == "behind"


def test_one_seed_gives_a_difference_without_a_test():
    scores = {
        REAL: {"sst2": [90.0] + [np.nan] * 4},
        MADE_UP: {"sst2": [89.0, 89.5, 89.2, 89.1, 89.3]},
    }
    one = compared(Source(label="x", runs=best_runs(scores)))[SST2]
    assert one.result.missing == "a test needs two seeds of each model"
    assert one.outcome == "unknown"
    assert one.result.effect == pytest.approx(90 - 89.22)
    assert np.isnan(one.result.p_zero)


def test_margins_are_the_claims_by_task_and_their_mean_over_all():
    scores = drawn({REAL: 0, MADE_UP: 0})
    contestants = contestants_of(
        Source(label="x", runs=best_runs(scores)), [REAL, MADE_UP], SETTINGS
    )
    contestants = replace(contestants, tasks=("SC", "QA"))
    assert margin_of(contestants, SST2) == 0.5
    assert margin_of(contestants, OVERALL) == 0.75
    assert margin_of(contestants, OVERALL, 0.1) == 0.1
    assert margin_of(contestants, Place("", "own")) == 0


@pytest.mark.parametrize("level", [0.4, 50.2, 99.7])
def test_two_models_at_a_limit_are_not_practically_equal(level: float):
    """0 and 100 % of answers, and half of two classes right, are what no training gets."""
    jitter = np.array([0.0, 0.1, -0.1, 0.05, -0.05])
    runs = best_runs(
        {REAL: {"sst2": list(level + jitter)}, MADE_UP: {"sst2": list(level - jitter)}}
    )
    one = compared(Source(label="x", runs=runs))[SST2]
    assert one.result.p_for < 0.05 and one.outcome == "open"
    away = runs.assign(test_score=runs["test_score"] - level / 100 + 0.8)
    assert compared(Source(label="x", runs=away))[SST2].outcome == "equal"
