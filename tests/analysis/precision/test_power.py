"""Numbers of seeds against statsmodels' power calculations and a simulation."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.power import TTestIndPower, TTestPower

from analysis.precision.power import (
    SeedPlan,
    detectable,
    plan_document,
    power_of,
    power_of_paired,
    power_table,
    seeds_needed,
    seeds_needed_paired,
)
from analysis.sources import Source
from common.errors import UserError
from common.tables import show
from tests.analysis.made_up import made_up_runs


@pytest.mark.parametrize("ratio", [0.3, 1.0, 2.5])
def test_power_is_statsmodels(ratio: float):
    for seeds in (2, 5, 12):
        assert power_of(ratio, 1.0, seeds) == pytest.approx(
            TTestIndPower().power(ratio, seeds, 0.05), abs=1e-6
        )
        assert power_of_paired(ratio, 1.0, seeds) == pytest.approx(
            TTestPower().power(ratio, seeds, 0.05), abs=1e-6
        )


@pytest.mark.parametrize("ratio", [0.3, 0.8, 1.5])
def test_seeds_needed_are_statsmodels_rounded_up(ratio: float):
    assert seeds_needed(ratio, 1.0) == math.ceil(TTestIndPower().solve_power(ratio, power=0.8, alpha=0.05))
    assert seeds_needed_paired(ratio, 1.0) == math.ceil(
        TTestPower().solve_power(ratio, power=0.8, alpha=0.05)
    )
    assert power_of(ratio, 1.0, seeds_needed(ratio, 1.0) or 0) >= 0.8


def test_power_is_the_share_of_tests_that_find_the_difference():
    rng = np.random.default_rng(0)
    first, second = rng.normal(1.0, 1, (20_000, 5)), rng.normal(0, 1, (20_000, 5))
    found = np.mean(stats.ttest_ind(first, second, axis=1).pvalue <= 0.05)
    assert power_of(1.0, 1.0, 5) == pytest.approx(found, abs=0.012)
    assert power_of(detectable(1.0), 1.0, 5) == pytest.approx(0.8, abs=1e-6)


def test_effects_that_no_number_of_seeds_shows_are_not_promised():
    assert seeds_needed(1e-4, 1.0) is None
    assert seeds_needed(100.0, 1.0) == 2
    assert power_of(1e6, 1.0, 5) == 1.0


@pytest.mark.parametrize(("power", "alpha"), [(0.051, 0.05), (0.8, 1e-20), (0.999, 0.05)])
def test_what_seeds_detect_is_found_with_that_power(power: float, alpha: float):
    found = detectable(2.0, 5, power, alpha)
    assert power_of(found, 2.0, 5, alpha) == pytest.approx(power)


@pytest.mark.parametrize("power", [0.02, 0.05])
def test_a_power_that_chance_alone_has_is_refused(power: float):
    with pytest.raises(UserError, match="not above the level"):
        detectable(1.0, 5, power, 0.05)


def test_published_cells_say_what_half_a_point_needs():
    table = power_table(Source(label="published"), 0.5).set_index(["task", "dataset"])
    assert len(table) == 16
    assert (table["seeds_high"].fillna(1e9) >= table["seeds"]).all()
    assert table.loc[("TC", "average"), "seeds"] <= 5 < table.loc[("IR", "msmarco"), "seeds"]
    more = power_table(Source(label="published"), 1.0).set_index(["task", "dataset"])
    assert (more["seeds"] <= table["seeds"]).all() and (more["power_now"] >= table["power_now"]).all()


def test_every_form_of_a_plan_has_the_same_rows():
    table = power_table(Source(label="published"), 0.5)
    plan = SeedPlan(table=table, source="published", effect=0.5, power=0.8, alpha=0.05)
    rows = json.loads(show(plan_document(plan), "json"))
    assert [row["seeds"] for row in rows] == table["seeds"].tolist()
    assert len(show(plan_document(plan), "csv").splitlines()) == 1 + len(rows)
    assert (
        len(show(plan_document(plan), "markdown").splitlines())
        == len(show(plan_document(plan), "text").splitlines()) + 1
    )


def test_runs_show_what_pairing_brings():
    runs = made_up_runs(
        np.random.default_rng(1), models=("610m-clm-42k", "610m-mlm40-42k", "1b-clm-42k"), sd=0.01
    )
    table = power_table(Source(label="x", runs=runs), 0.5)
    # Half of the variance is common to all models of a dataset.
    assert table["correlation"].mean() == pytest.approx(0.5, abs=0.2)
    assert table["seeds_paired"].median() < table["seeds"].median()
