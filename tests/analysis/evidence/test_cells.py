"""The cells of a source: scores by seed, printed cells, and what seeds that all agree are given."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.evidence.cells import SMALLEST_HALF_WIDTH, CellTable
from analysis.statistics.learning_rate_selection import SELECTIONS
from analysis.statistics.resampling import Resampling
from tests.analysis.made_up import made_up_runs

CLM, MLM = "610m-clm-42k", "610m-mlm40-42k"
HOW = Resampling(resamples=200, seed=1)
LEAST = SMALLEST_HALF_WIDTH / 1.96


def table(runs: pd.DataFrame | None, rule: str = "seed", *, printed: bool = False) -> CellTable:
    return CellTable(SELECTIONS[rule], HOW, runs=runs, printed=printed)


@pytest.fixture
def runs() -> pd.DataFrame:
    return made_up_runs(np.random.default_rng(0), models=(CLM, MLM)).assign(n_test=200)


def test_a_summary_is_mean_standard_error_and_seeds(runs: pd.DataFrame) -> None:
    cells, cell = table(runs), (CLM, "SC", "sst2")
    seen = cells.by_seed(cell)
    assert cells.summary(cell) == pytest.approx((seen.mean(), stats.sem(seen), 5))
    assert cells.paper_half_width(cell) == pytest.approx(1.96 * stats.sem(seen))
    alone = table(runs[runs["seed"] == 3]).summary(cell)
    assert alone[0] == seen[3] and math.isnan(alone[1]) and alone[2] == 1
    pair = table(runs[runs["seed"] < 2]).summary(cell)
    assert pair == pytest.approx((seen[:2].mean(), stats.sem(seen[:2]), 2))


def test_printed_cells_stand_in_only_where_asked_and_only_for_models_without_runs(runs: pd.DataFrame) -> None:
    cell, other = (CLM, "SC", "sst2"), ("210m-clm-42k", "SC", "sst2")
    plain, mixed = table(runs), table(runs, printed=True)
    assert cell in plain and other not in plain and not plain.printed
    assert other in mixed and mixed.has_runs(cell) and not mixed.has_runs(other)
    mean, half = mixed.printed[other]
    assert mixed.summary(other) == pytest.approx((mean, half / 1.96, 5))
    assert (CLM, "SC", "sst2") not in mixed.printed and list(mixed)[: len(list(plain))] == list(plain)


def test_seeds_that_agree_get_the_error_of_one_seed_off_by_one_instance(runs: pd.DataFrame) -> None:
    """The standard error of (x, x, x, x, x + d) is d / 5."""
    cells = table(runs)
    assert cells.if_flat((CLM, "SC", "sst2"), 5) == pytest.approx(stats.sem([0, 0, 0, 0, 100 / 200]))
    assert cells.if_flat((CLM, "SC", "average"), 5) == pytest.approx(100 / 200 / 5 / math.sqrt(3))
    flat = table(runs.assign(test_score=0.75))
    assert flat.summary((CLM, "SC", "sst2")) == pytest.approx((75.0, 0.1, 5))
    assert flat.paper_half_width((CLM, "SC", "sst2")) == 0


@pytest.mark.parametrize("size", [np.nan, 0, None])
def test_without_a_size_of_the_test_set_rounding_is_what_is_left(
    runs: pd.DataFrame, size: float | None
) -> None:
    unsized = runs.drop(columns="n_test") if size is None else runs.assign(n_test=size)
    assert table(unsized).if_flat((CLM, "SC", "sst2"), 5) == pytest.approx(LEAST)
    tiny = table(runs.assign(n_test=1))
    assert tiny.if_flat((CLM, "SC", "sst2"), 5) == pytest.approx(20.0)


def test_rates_are_chosen_again_only_under_a_rule_that_shares_them(runs: pd.DataFrame) -> None:
    assert table(runs).reselection is None
    assert table(None, printed=True).reselection is None
    shared = table(runs, "mean").reselection
    assert shared is not None and shared.rule is SELECTIONS["mean"]
