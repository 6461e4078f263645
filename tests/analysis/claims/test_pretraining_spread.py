"""Spreads between pretrainings: added to a variance, measured by others, and by a source's own replicates."""

import math
from dataclasses import asdict, replace

import numpy as np
import pytest
from scipy import stats

from analysis.claims.assessment import assess
from analysis.claims.catalogue import FINDINGS
from analysis.claims.pretraining_spread import (
    SHARED_LUCK,
    measured_spreads,
    trunks,
    with_pretraining_spread,
)
from analysis.claims.statements import comparisons, difference, trunk_of, weighted
from analysis.evidence.settings import Settings
from analysis.sources import PUBLISHED, Source
from pretraining.paper_models import MODELS
from tests.analysis.comparisons.given import MADE_UP, REAL, best_runs, drawn

FOUND = PUBLISHED.evidence(Settings(interval="t")).result
MODELS_APART = SHARED_LUCK["models"]
GAP = difference("gap", REAL, MADE_UP, "SC")


def test_its_variance_is_added_for_each_model_and_task() -> None:
    base, moved = FOUND(GAP), with_pretraining_spread(FOUND, 0.3, MODELS_APART)(GAP)
    assert moved.error == pytest.approx(math.sqrt(base.error**2 + 2 * 0.3**2))
    assert moved.effect == base.effect
    df = (base.error**2 + 0.18) ** 2 / (base.error**4 / base.df)
    assert moved.p_zero == pytest.approx(2 * stats.t.sf(moved.effect / moved.error, df))
    halves = weighted(
        "halves", [(0.5, REAL, "SC"), (0.5, REAL, "QA"), (-1.0, MADE_UP, "SC")]
    )
    for name, squares in (("models", 0.25 + 0.25 + 1), ("trunks and tasks", 1.0 + 1.0)):
        added = (
            with_pretraining_spread(FOUND, 0.3, SHARED_LUCK[name])(halves).error ** 2
        )
        assert added - FOUND(halves).error ** 2 == pytest.approx(0.3**2 * squares)


def test_it_is_added_to_an_interval_without_an_error() -> None:
    """A percentile bootstrap has no error and no degrees of freedom."""
    nothing = float("nan")
    base = replace(FOUND(GAP), error=nothing, df=nothing, low=0.5, high=1.5)
    moved = with_pretraining_spread(lambda _: base, 30.0, MODELS_APART)(GAP)
    error = math.sqrt((0.5 / stats.norm.ppf(0.975)) ** 2 + 2 * 30.0**2)
    assert moved.error == pytest.approx(error)
    half = stats.norm.ppf(0.975) * error
    assert [moved.low, moved.high] == pytest.approx(
        [base.effect - half, base.effect + half]
    )


def test_models_of_one_trunk_move_together() -> None:
    """610m-clm-10k-mlm40-42k starts as 610m-clm-42k does, and two budgets of MLM share their trunk."""
    assert (
        trunk_of("610m-clm-10k-mlm40-42k")
        == trunk_of("610m-clm-42k-1000")
        == "610m-clm"
    )
    within = difference("within", "610m-clm-10k-mlm40-42k", "610m-clm-42k", "SC")
    for name, added in (("models", 2.0), ("trunks", 0.0), ("trunks and tasks", 0.0)):
        moved = with_pretraining_spread(FOUND, 1.0, SHARED_LUCK[name])(within)
        assert moved.error**2 - FOUND(within).error ** 2 == pytest.approx(added)
    for trunk, names in trunks().items():
        assert set(names) <= set(MODELS) and all(
            MODELS[name].stages[0].name == trunk for name in names
        )
    assert {trunk: len(names) for trunk, names in trunks().items()} == {
        "610m-mlm40": 11,
        "610m-clm": 24,
    }


def test_a_normal_error_stays_normal_and_a_spread_as_it_is() -> None:
    """`--interval paper` has infinite degrees of freedom."""
    moved = with_pretraining_spread(
        PUBLISHED.evidence(Settings(interval="paper")).result, 0.3, MODELS_APART
    )(GAP)
    assert moved.df == math.inf
    assert moved.p_zero == pytest.approx(2 * stats.norm.sf(moved.effect / moved.error))
    spread = next(iter(comparisons(FINDINGS["F7"].body)))
    # Not a number where there is none; two of those are never equal.
    np.testing.assert_equal(
        asdict(with_pretraining_spread(FOUND, 1.0, MODELS_APART)(spread)),
        asdict(FOUND(spread)),
    )


@pytest.mark.parametrize("interval", ["t", "pooled"])
@pytest.mark.parametrize("seeds", [2, 5])
def test_no_p_falls_and_no_interval_narrows_with_a_spread(
    interval: str, seeds: int
) -> None:
    """Also with two seeds, whose one degree of freedom an added variance multiplies."""
    runs = best_runs(drawn({REAL: 0.5, MADE_UP: 0.0}))
    kept = runs[runs["seed"].rank(method="dense") <= seeds]
    found = assess(Source(label="x", runs=kept), Settings(interval=interval)).result_of
    spreads = (0.0, 1e-3, 0.05, 0.2, 1.0, 5.0)
    moved = [with_pretraining_spread(found, sd, MODELS_APART)(GAP) for sd in spreads]
    ps, widths = [one.p_for for one in moved], [one.high - one.low for one in moved]
    assert ps == sorted(ps) and widths == sorted(widths) and moved[0] == found(GAP)
    assert moved[-1].p_for == pytest.approx(
        2 * stats.norm.sf(moved[-1].effect / (5 * math.sqrt(2))), abs=0.01
    )


def test_every_measured_spread_says_where_it_was_measured() -> None:
    spreads = measured_spreads()
    assert len(spreads) == 5 and all(
        0 < one.sd < 5 and one.pretrainings >= 10 for one in spreads
    )
    assert all("able" in one.where or "ipynb" in one.where for one in spreads)
