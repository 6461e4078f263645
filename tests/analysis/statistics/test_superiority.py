"""Definitions against scipy and a plain loop; intervals against another solution and by simulation."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from scipy import stats

from analysis.statistics.inference import (
    COVERAGES,
    FEWEST_SEEDS,
    improvement_bounds,
    interquartile_mean,
    iqm_draws,
    probability_of_improvement,
    stratified_words,
    superiority_words,
)
from tests.analysis.statistics.superiority_coverage import SHAPES, SHIFTS, coverage

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
    runs = np.random.default_rng(count).normal(size=(count, 1))
    draws = iqm_draws(list(runs), 3, np.random.default_rng(1))
    assert draws == pytest.approx(np.full(3, stats.trim_mean(runs.ravel(), 0.25)))


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


def solved(share: float, m: int, n: int) -> tuple[float, float]:
    """Newcombe's method 5 as the real roots of its quartic, both sides times (2 - t)(1 + t)."""
    k, z2 = (m + n) / 2 - 1, stats.norm.ppf(0.975) ** 2
    t = np.polynomial.Polynomial([0.0, 1.0])
    variance = t * (1 - t) * ((2 - t) * (1 + t) + k * (1 - t) * (1 + t) + k * t * (2 - t)) / (m * n)
    roots = ((t - share) ** 2 * (2 - t) * (1 + t) - z2 * variance).roots()
    real = np.sort(roots[np.abs(roots.imag) < 1e-6].real)
    inside = [root for root in real if -1e-9 <= root <= 1 + 1e-9]
    return inside[0], inside[-1]


@pytest.mark.parametrize(("m", "n"), [(5, 5), (4, 7), (30, 8)])
def test_the_interval_of_p_a_above_b_is_newcombes(m, n):
    rng = np.random.default_rng(m * n)
    for shift in (0.0, 0.7, 2.0):
        first, second = rng.normal(shift, 1, m), rng.normal(0, 1, n)
        share = probability_of_improvement(first, second)
        found = improvement_bounds([(first, second)])
        assert found == pytest.approx(solved(share, m, n), abs=1e-6)
        low, high = improvement_bounds([(second, first)])
        assert found == pytest.approx((1 - high, 1 - low))
        assert improvement_bounds([(first, second)] * 3, level=0.95)[0] > found[0]


def test_where_every_run_is_above_every_other_there_is_still_an_interval():
    """And with many runs little of it is left."""
    five, many = (improvement_bounds([(np.arange(n) + n, np.arange(n))]) for n in (5, 500))
    assert five == (pytest.approx(0.643, abs=0.001), 1.0)
    assert many == (pytest.approx(1.0, abs=0.01), 1.0) and many[0] < 1


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("datasets", [1, 12])
def test_its_coverage_is_what_captions_say(shift, datasets):
    least, most = COVERAGES["superiority"]
    rng = np.random.default_rng(3)
    found = coverage(SHAPES["normal"], shift, datasets=datasets, seeds=5, trials=800, rng=rng)
    assert least - 0.025 <= found <= most + 0.02  # three standard errors
    assert "94 to 97 %" in superiority_words()


@pytest.mark.parametrize(("datasets", "place"), [(1, 0), (12, 1)])
def test_the_coverage_of_the_interquartile_mean_is_that_of_a_smaller_simulation(datasets: int, place: int):
    rng = np.random.default_rng(3)
    held, trials = 0, 250
    for _ in range(trials):
        means = np.quantile(iqm_draws(list(rng.normal(size=(datasets, 5))), 200, rng), [0.025, 0.975])
        held += means[0] <= 0 <= means[1]
    expected = COVERAGES["iqm"][place]
    assert held / trials == pytest.approx(expected, abs=4 * (0.1 * 0.9 / trials) ** 0.5 + 0.01)
    assert f"{100 * expected:.0f} %" in stratified_words("iqm")


def test_the_fewest_seeds_are_those_with_twenty_distinct_resamples_for_a_95_percent_interval():
    assert next(count for count in range(2, 9) if comb(2 * count - 1, count) >= 1 / 0.05) == FEWEST_SEEDS
