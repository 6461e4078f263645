"""What a study can show: closed forms, statsmodels' power calculations, the power that the engine reaches."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.power import TTestIndPower, TTestPower

from analysis.precision.design import (
    AssumedSpread,
    PlannedStudy,
    PlannedTest,
    planned_test,
    seed_spreads,
    seeds_needed,
    simulated_widening,
)
from analysis.sources import Source
from tests.analysis.made_up import made_up_runs
from tests.analysis.precision.planned_power import LAYOUTS, Layout, promised_and_reached

MODELS = (
    "610m-clm-42k",
    "610m-mlm40-42k",
    "610m-mlm20-42k",
    "1b-clm-42k",
    "1b-mlm40-42k",
)
ONE = AssumedSpread(sd=0.5)


@pytest.mark.parametrize("pretrainings", [1, 3])
def test_the_error_is_the_formula(pretrainings: int):
    study = PlannedStudy(seeds=5, pretrainings=pretrainings, pretraining_sd=0.3)
    variance = 2 * (0.3**2 / pretrainings + 0.5**2 / (pretrainings * 5))
    assert planned_test(study, ONE).error == pytest.approx(math.sqrt(variance))


def test_units_are_pretrainings_if_there_are_several_else_seeds():
    study = PlannedStudy(pretraining_sd=0.3)
    for name, one, spread, freedom in (
        ("pooled", study, ONE, [4, math.inf]),
        ("over pretrainings", replace(study, pretrainings=3), ONE, [2]),
        ("Welch", replace(study, seeds=3), ONE, [2, math.inf]),
        ("Welch", study, replace(ONE, cells=4), [4, math.inf]),
    ):
        test = planned_test(one, spread)
        assert test.name == name and test.parts[:, 1].tolist() == freedom


def test_who_else_is_in_the_source_changes_the_plan_by_little():
    few, many = (
        planned_test(PlannedStudy(), AssumedSpread(sd=0.5, cells=cells))
        for cells in (2, 46)
    )
    assert (few.name, many.name) == ("Welch", "pooled")
    assert few.power(1.0) == pytest.approx(many.power(1.0), abs=0.04)


@pytest.mark.parametrize("seeds", [5, 26])
def test_the_table_has_what_the_bootstrap_gives(seeds: int):
    tabulated = planned_test(PlannedStudy(seeds=seeds), ONE).wider
    assert tabulated == pytest.approx(
        simulated_widening(seeds, ONE.cells, 0.05), abs=1e-8
    )
    assert planned_test(PlannedStudy(seeds=27), ONE).wider == 1


def test_an_average_has_the_spread_of_its_own_seeds():
    runs = made_up_runs(np.random.default_rng(1), models=MODELS, sd=0.01, rates=[1e-4])
    spread = dict(seed_spreads(Source(label="x", runs=runs)))["SC", "average"]
    own = (
        runs[runs["task"] == "SC"].groupby(["model", "seed"])["test_score"].mean() * 100
    )
    assert spread.sd == pytest.approx(own.groupby("model").std().median())
    assert spread.cells == len(MODELS)


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
    assert seeds_needed(ratio, 1.0, 1, paired=True) == exact
    exact = math.ceil(TTestIndPower().solve_power(ratio, power=0.8, alpha=0.05))
    assert exact <= (seeds_needed(ratio, math.sqrt(2), 1) or 0) <= exact + 1


@pytest.mark.parametrize(("seeds", "alpha"), [(5, 0.05), (5, 0.05 / 12), (10, 0.05)])
def test_power_is_the_share_of_welch_tests_that_find_it(seeds: int, alpha: float):
    rng = np.random.default_rng(0)
    test = of_seeds(1.0, seeds, 2, alpha)
    first = rng.normal(test.detectable(0.7), 1, (40_000, seeds))
    second = rng.normal(0, 1, (40_000, seeds))
    found = np.mean(
        stats.ttest_ind(first, second, axis=1, equal_var=False).pvalue <= alpha
    )
    assert found == pytest.approx(0.7, abs=0.012)


def test_effects_that_no_number_of_seeds_shows_are_not_promised():
    assert seeds_needed(1e-4, 1.0, 1) is None
    assert seeds_needed(100.0, 1.0, 1) == 2
    assert of_seeds(1.0, 5, 2).power(1e6) == of_seeds(0.0, 5, 2).power(0.1) == 1.0


@pytest.mark.parametrize(
    ("power", "alpha"), [(0.051, 0.05), (0.8, 1e-9), (0.999, 0.05)]
)
@pytest.mark.parametrize("wider", [1.0, 1.1])
def test_what_a_test_detects_is_found_with_that_power(
    power: float, alpha: float, wider: float
):
    test = of_seeds(2.0, 5, 2, alpha)._replace(wider=wider)
    assert test.power(test.detectable(power)) == pytest.approx(power)


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_compare_reaches_what_is_promised(layout: Layout):
    pairs = 1_000
    promised, reached = promised_and_reached(layout, pairs)
    # Two points (docs/claims.md has more pairs), and two standard errors of the simulation.
    assert reached == pytest.approx(promised, abs=0.02 + 2 * math.sqrt(0.25 / pairs))
