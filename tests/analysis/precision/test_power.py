"""Power and numbers of seeds against statsmodels' power calculations and a simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.power import TTestIndPower, TTestPower

from analysis.precision.power import PlannedTest, seeds_needed, seeds_needed_paired


def of_seeds(sd: float, seeds: int, arms: int, alpha: float = 0.05) -> PlannedTest:
    return PlannedTest("", np.array([(sd**2 / seeds, seeds - 1, arms)]), alpha)


@pytest.mark.parametrize("ratio", [0.3, 1.0, 2.5])
def test_power_is_statsmodels(ratio: float):
    for seeds in (2, 5, 12):
        exact = TTestPower().power(ratio, seeds, 0.05)
        assert of_seeds(1.0, seeds, 1).power(ratio) == pytest.approx(exact, abs=1e-6)
    # With many seeds Welch's degrees of freedom are as good as those of equal variances.
    exact = TTestIndPower().power(ratio / 5, 400, 0.05)
    assert of_seeds(1.0, 400, 2).power(ratio / 5) == pytest.approx(exact, abs=1e-4)


@pytest.mark.parametrize("ratio", [0.3, 0.8, 1.5])
def test_seeds_needed_are_statsmodels_rounded_up(ratio: float):
    exact = math.ceil(TTestPower().solve_power(ratio, power=0.8, alpha=0.05))
    assert seeds_needed_paired(ratio, 1.0) == exact
    exact = math.ceil(TTestIndPower().solve_power(ratio, power=0.8, alpha=0.05))
    assert exact <= (seeds_needed(ratio, 1.0) or 0) <= exact + 1


@pytest.mark.parametrize(("seeds", "alpha"), [(5, 0.05), (5, 0.05 / 12), (10, 0.05)])
def test_power_is_the_share_of_welchs_tests_that_find_the_difference(seeds: int, alpha: float):
    rng = np.random.default_rng(0)
    test = of_seeds(1.0, seeds, 2, alpha)
    first = rng.normal(test.detectable(0.7), 1, (40_000, seeds))
    second = rng.normal(0, 1, (40_000, seeds))
    found = np.mean(stats.ttest_ind(first, second, axis=1, equal_var=False).pvalue <= alpha)
    assert found == pytest.approx(0.7, abs=0.012)


def test_effects_that_no_number_of_seeds_shows_are_not_promised():
    assert seeds_needed(1e-4, 1.0) is None
    assert seeds_needed(100.0, 1.0) == 2
    assert of_seeds(1.0, 5, 2).power(1e6) == of_seeds(0.0, 5, 2).power(0.1) == 1.0


@pytest.mark.parametrize(("power", "alpha"), [(0.051, 0.05), (0.8, 1e-9), (0.999, 0.05)])
@pytest.mark.parametrize("wider", [1.0, 1.1])
def test_what_a_test_detects_is_found_with_that_power(power: float, alpha: float, wider: float):
    test = of_seeds(2.0, 5, 2, alpha)._replace(wider=wider)
    assert test.power(test.detectable(power)) == pytest.approx(power)
