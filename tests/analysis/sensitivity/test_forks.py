from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.multitest import multipletests

from analysis.claims.assessment import assess
from analysis.claims.catalogue import CLAIMS
from analysis.evidence.evidence import Settings
from analysis.evidence.intervals import INTERVALS
from analysis.sensitivity.forks import FORKS, MIXED, explore, universes
from analysis.sensitivity.overturning import state_of
from analysis.sources import PUBLISHED, Source
from common.errors import UserError
from tests.analysis.comparisons.given import MADE_UP, REAL, best_runs, drawn
from tests.analysis.made_up import with_instances
from tests.analysis.sensitivity.found import analyses, published

SETTINGS = Settings(interval="t", resamples=200)


def rows(**options: object) -> pd.DataFrame:
    held = analyses()
    for fork, option in (dict(published().multiverse.base) | options).items():
        held = held[held[fork] == option]
    return held.set_index("id")


def test_the_packages_analysis_is_among_them_with_its_verdicts() -> None:
    verdicts = assess(PUBLISHED, SETTINGS).verdicts
    assert rows()["state"].to_dict() == {one.claim.id: state_of(one) for one in verdicts}
    assert rows()["verdict"].to_dict() == {one.claim.id: one.verdict for one in verdicts}
    assert rows()["effect"]["F8"] == next(one.decisive.effect for one in verdicts if one.claim.id == "F8")


def test_the_grid_is_the_slice_of_protocol_selection_and_interval() -> None:
    """Welch does not support F4 after the adjustment, the paper's narrower interval does; F7 needs runs."""
    found = published().multiverse
    assert set(found.grid["interval"]) == {"paper", "t"} and len(found.grid) == 2 * len(CLAIMS)
    assert found.supporting["F1"] == (2, 1.0) and found.supporting["F4"] == (2, 0.5)
    assert found.supporting["F7"][0] == 0 and math.isnan(found.supporting["F7"][1])
    alone = explore(PUBLISHED, SETTINGS, grid_only=True)
    pd.testing.assert_frame_equal(alone.analyses, found.grid.reset_index(drop=True))


def test_f11_flips_with_the_margin() -> None:
    """Alone, computed independently."""
    p = [rows(margin=margin, adjustment="none")["p"]["F11"] for margin in (1.0, 1.5, 2.0)]
    assert p == pytest.approx([0.55, 0.098, 0.022], abs=0.005)


def test_adjustments_are_holms_over_all_claims_or_none() -> None:
    raw = rows(adjustment="none")
    known = raw[raw["p"].notna() & (raw["state"] != "contradicted")].index
    everything = rows(adjustment="all claims")["p_adjusted"]
    # The p's for: those of the claims that lean that way, adjusted over all 17 with evidence.
    assert (raw["p"].dropna() == raw["p_adjusted"].dropna()).all()
    ranked = sorted(raw["p"].dropna())
    smallest = raw["p"].idxmin()
    assert everything[smallest] == pytest.approx(multipletests(ranked, method="holm")[1][0], rel=1e-6)
    assert (everything[known] >= raw["p"][known] - 1e-12).all()


def test_valid_and_invalid_analyses_are_apart() -> None:
    assert set(analyses().loc[analyses()["interval"] == "paper", "valid"]) == {False}
    assert set(analyses().loc[analyses()["adjustment"] == "none", "valid"]) == {False}
    assert rows()["valid"].all()
    held = published().multiverse.shares
    counts = analyses()["id"].value_counts()
    assert all(held[name]["valid"] + held[name]["invalid"] == counts[name] for name in CLAIMS)
    assert held["F2"]["valid_supported"] == 1.0
    assert held["F9"]["invalid_contradicted"] > held["F9"]["valid_contradicted"]


def test_no_dataset_is_left_out_of_spreads() -> None:
    """Their twelve analyses for each interval, correlation and adjustment would repeat those of all datasets."""
    options = math.prod(analyses()[fork].nunique() for fork in ("interval", "rho", "adjustment"))
    counts = analyses()["id"].value_counts()
    assert {name: counts["F1"] - count for name, count in counts.items() if count < counts["F1"]} == {
        "F7": 12 * options, "F10": 12 * options,
    }  # fmt: skip
    assert set(analyses().loc[analyses()["id"] == "F7", "datasets"]) == {"all"}


def test_single_changes_that_flip_a_verdict_are_named() -> None:
    flips = published().multiverse.flips
    assert flips["F2"] == []
    assert ("rho", "0.5", "supported", True) in flips["F4"]
    assert ("adjustment", "none", "supported", False) in flips["F4"]
    assert ("reading", "end points", "supported", True) in flips["F3"]
    for fork, option, state, _ in flips["F12"]:
        chosen = float(option) if fork in ("margin", "rho") else option
        assert rows(**{fork: chosen})["state"]["F12"] == state != rows()["state"]["F12"]


def test_runs_have_every_rule_and_no_correlation() -> None:
    source = Source(label="x", runs=best_runs(drawn({REAL: 1.0, MADE_UP: 0.0})))
    plans = list(universes(source, SETTINGS))
    assert {one.selection for one in plans} == {"seed", "mean", "pooled"}
    assert {one.rho for one in plans} == {0.0}
    assert {"t", "paper", "bootstrap", MIXED} <= {one.interval for one in plans}
    assert not any("crossed" in one.interval for one in plans)
    # The measured coverages of intervals.md decide, so that the default is valid and the percentile ones are not.
    why = {one.interval: one.too_narrow for one in plans}
    assert why["pooled"] == why["t"] == ""
    assert (why["paper"], why["bootstrap"]) == ("covers 88 %", "covers 84 %")
    assert list(analyses().columns[: 1 + len(FORKS)]) == ["id", *FORKS]


@pytest.mark.slow
def test_runs_are_judged_under_every_rule_interval_and_protocol(tmp_path) -> None:
    runs, folder = with_instances(
        tmp_path / "instances", np.random.default_rng(0), models=(MADE_UP, REAL), counts={}, shift=0.02
    )
    source = Source(label="x", runs=runs, instances=folder)
    standard = Source(label="y", runs=runs, protocol="standard")
    found = explore(source, SETTINGS, standard=standard, grid_only=True).grid
    kinds = found.groupby(["protocol", "selection"])["interval"].agg(lambda values: sorted(set(values)))
    assert kinds["paper", "seed"] == sorted([*INTERVALS, MIXED])
    assert kinds["standard", "pooled"] == sorted(
        [*(name for name, one in INTERVALS.items() if not one.needs_instances), MIXED]
    )
    assert set(found[found["interval"] == MIXED]["id"]) == {"F1", "F2", "F3", "F4"}


def test_no_runs_and_an_unknown_rule_are_refused() -> None:
    empty = best_runs(drawn({REAL: 1.0})).iloc[:0]
    with pytest.raises(UserError, match="has no runs to judge"):
        explore(Source(label="header.csv", runs=empty), SETTINGS)
    with pytest.raises(UserError, match="the learning rate was chosen for each seed"):
        explore(PUBLISHED, Settings(interval="t", selection="mean"))
