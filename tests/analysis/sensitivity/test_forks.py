from __future__ import annotations

import pytest
from statsmodels.stats.multitest import multipletests

from analysis.claims.assessment import assess
from analysis.claims.multiverse import Forks
from analysis.claims.pages.multiverse import forks_lines
from analysis.sensitivity.forks import FORKS, flips, shares, universes
from analysis.sensitivity.overturning import state_of
from analysis.sources import PUBLISHED, Source
from analysis.statistics.scores_table import Settings
from common.tables import Document, show
from tests.analysis.comparisons.given import MADE_UP, REAL, best_runs, drawn
from tests.analysis.sensitivity.found import analyses

SETTINGS = Settings(interval="t")
BASE = {
    "interval": "t", "selection": "seed", "margin": 1.0, "adjustment": "family", "reading": "as worded",
    "datasets": "all", "rho": 0.0,
}  # fmt: skip


def rows(**options: object):
    held = analyses()
    for fork, option in (BASE | options).items():
        held = held[held[fork] == option]
    return held.set_index("id")


def test_the_packages_analysis_is_among_them_with_its_verdicts() -> None:
    found = rows()["state"].to_dict()
    verdicts = assess(PUBLISHED, SETTINGS).verdicts
    assert found == {one.claim.id: state_of(one) for one in verdicts}


def test_f11_flips_with_the_margin() -> None:
    """Alone, computed independently."""
    p = [rows(margin=margin, adjustment="none")["p"]["F11"] for margin in (1.0, 1.5, 2.0)]
    assert p == pytest.approx([0.55, 0.098, 0.022], abs=0.005)


def test_adjustments_are_holms_over_all_claims_or_none() -> None:
    raw = rows(adjustment="none")
    known = raw[raw["p"].notna() & (raw["state"] != "contradicted")].index
    everything = rows(adjustment="all claims")
    # The p's for: those of the claims that lean that way, adjusted over all 17 with evidence.
    ranked = sorted(raw["p"].dropna())
    smallest = raw["p"].idxmin()
    assert everything["p"][smallest] == pytest.approx(multipletests([*ranked], method="holm")[1][0], rel=1e-6)
    assert (everything["p"][known] >= raw["p"][known] - 1e-12).all()


def test_valid_and_invalid_analyses_are_apart() -> None:
    assert set(analyses().loc[analyses()["interval"] == "paper", "valid"]) == {False}
    assert set(analyses().loc[analyses()["adjustment"] == "none", "valid"]) == {False}
    assert rows()["valid"].all()
    held = shares(analyses())
    assert (held["valid"] + held["invalid"] == analyses()["id"].value_counts()[held.index]).all()
    assert held.loc["F2", "valid_supported"] == 1.0
    assert held.loc["F9", "invalid_contradicted"] > held.loc["F9", "valid_contradicted"]


def test_no_dataset_is_left_out_of_spreads() -> None:
    """Their twelve analyses for each interval, correlation and adjustment would repeat those of all datasets."""
    options = (
        analyses()["interval"].nunique() * analyses()["rho"].nunique() * analyses()["adjustment"].nunique()
    )
    counts = analyses()["id"].value_counts()
    assert {name: counts["F1"] - count for name, count in counts.items() if count < counts["F1"]} == {
        "F7": 12 * options, "F10": 12 * options,
    }  # fmt: skip
    assert set(analyses().loc[analyses()["id"] == "F7", "datasets"]) == {"all"}
    forks = Forks(analyses=analyses(), shares=shares(analyses()), flips=flips(analyses(), BASE))
    said = show(Document(body=forks_lines(forks, ["F7"])), "text")
    assert "F7, F10: without the analyses that leave a dataset out" in said


def test_single_changes_that_flip_a_verdict_are_named() -> None:
    found = flips(analyses(), BASE)
    assert found["F2"] == []
    assert ("rho", "0.5", "supported", True) in found["F4"]
    assert ("adjustment", "none", "supported", False) in found["F4"]
    assert ("reading", "end points", "supported", True) in found["F3"]
    for fork, option, state, _ in found["F12"]:
        chosen = float(option) if fork in ("margin", "rho") else option
        assert rows(**{fork: chosen})["state"]["F12"] == state != rows()["state"]["F12"]


def test_runs_have_every_rule_and_no_correlation() -> None:
    source = Source(label="x", runs=best_runs(drawn({REAL: 1.0, MADE_UP: 0.0})))
    plans = list(universes(source, SETTINGS))
    assert {one.selection for one in plans} == {"seed", "mean", "pooled"}
    assert {one.rho for one in plans} == {0.0}
    assert {"t", "paper", "bootstrap"} <= {one.interval.name for one in plans}
    assert not any("hierarchical" in one.interval.name for one in plans)
    # The measured coverages of intervals.md decide, so that the default is valid and the percentile ones are not.
    why = {one.interval.name: one.interval.why_not for one in plans}
    assert why["studentised"] == why["t"] == ""
    assert (why["paper"], why["bootstrap"], why["expanded"]) == ("covers 88 %", "covers 84 %", "covers 92 %")
    assert list(analyses().columns) == ["id", *FORKS, "state", "p", "valid", "why_not"]
