"""rliable's definitions (Agarwal et al. 2021), against scipy and a plain loop."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from scipy import stats

from analysis.statistics.superiority import (
    COVERAGES,
    FEWEST_SEEDS,
    improvement_draws,
    interquartile_mean,
    iqm_draws,
    probability_of_improvement,
    stratified_words,
)

RNG = np.random.default_rng(0)
TASKS = [(RNG.normal(1, 1, 5), RNG.normal(0, 1, 5)), (RNG.normal(0, 1, 4), RNG.normal(0, 1, 6))]


@pytest.mark.parametrize("pair", [*TASKS, (np.array([1.0, 2, 2]), np.array([2.0, 2]))])
def test_the_probability_of_improvement_is_mann_whitneys_u_over_the_pairs(pair):
    u = stats.mannwhitneyu(*pair, alternative="greater").statistic
    assert probability_of_improvement(*pair) == pytest.approx(u / (len(pair[0]) * len(pair[1])))


def test_the_interquartile_mean_is_scipys_trimmed_mean_of_all_runs():
    strata = [RNG.normal(size=5) for _ in range(4)]
    assert interquartile_mean(strata) == stats.trim_mean(np.stack(strata, axis=1), 0.25, axis=None)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 12, 15])
def test_strata_of_a_single_run_have_the_same_statistics_on_every_resample(count):
    """Nothing is left to draw, so the draws are the statistics themselves."""
    first, second = np.random.default_rng(count).normal(size=(2, count, 1))
    draws = iqm_draws(list(first), 3, np.random.default_rng(1))
    assert draws == pytest.approx(np.full(3, stats.trim_mean(first.ravel(), 0.25)))
    wins = improvement_draws(list(zip(first, second, strict=True)), 3, np.random.default_rng(1))
    assert wins == pytest.approx(np.full(3, np.mean(first > second)))


def test_resamples_stay_within_their_stratum():
    """The same as a loop over resamples; a stratum's runs never stand for another's."""
    strata = [np.array([1.0, 2, 3, 4]), np.array([100.0, 200, 300, 400])]
    draws = iqm_draws(strata, 4_000, np.random.default_rng(1))
    rng = np.random.default_rng(2)
    looped = [
        stats.trim_mean(np.concatenate([rng.choice(runs, len(runs)) for runs in strata]), 0.25)
        for _ in range(4_000)
    ]
    assert stats.ks_2samp(draws, looped).pvalue > 0.001
    assert draws.min() >= (3 + 4 + 100 + 100) / 4 - 3 and draws.max() <= (4 + 4 + 400 + 400) / 4


def test_improvement_draws_agree_with_a_loop():
    draws = improvement_draws(TASKS, 4_000, np.random.default_rng(1))
    rng = np.random.default_rng(2)
    looped = [
        np.mean([
            probability_of_improvement(rng.choice(x, len(x)), rng.choice(y, len(y))) for x, y in TASKS
        ])
        for _ in range(4_000)
    ]  # fmt: skip
    assert draws.mean() == pytest.approx(np.mean(looped), abs=0.01)
    assert np.quantile(draws, [0.025, 0.975]) == pytest.approx(np.quantile(looped, [0.025, 0.975]), abs=0.04)


@pytest.mark.parametrize(("datasets", "place"), [(1, 0), (12, 1)])
def test_the_coverages_that_captions_say_are_those_of_a_smaller_simulation(datasets: int, place: int):
    rng = np.random.default_rng(3)
    truth, held, trials = stats.norm.cdf(1 / np.sqrt(2)), np.zeros(2), 250
    for _ in range(trials):
        strata = [(rng.normal(1, 1, 5), rng.normal(0, 1, 5)) for _ in range(datasets)]
        wins = np.quantile(improvement_draws(strata, 200, rng), [0.025, 0.975])
        means = np.quantile(iqm_draws([runs for _, runs in strata], 200, rng), [0.025, 0.975])
        held += wins[0] <= truth <= wins[1], means[0] <= 0 <= means[1]
    expected = [COVERAGES[name][place] for name in ("superiority", "iqm")]
    assert held / trials == pytest.approx(expected, abs=4 * (0.12 * 0.88 / trials) ** 0.5 + 0.01)
    assert f"{100 * COVERAGES['iqm'][place]:.0f} %" in stratified_words("iqm")


def test_the_fewest_seeds_are_those_with_twenty_distinct_resamples_for_a_95_percent_interval():
    assert next(count for count in range(2, 9) if comb(2 * count - 1, count) >= 1 / 0.05) == FEWEST_SEEDS
