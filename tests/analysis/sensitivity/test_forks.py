"""Other analyses: the package's own among them, Holm's adjustments, single choices that alter a verdict."""

import numpy as np
import pandas as pd
import pytest

from analysis.claims.assessment import assess
from analysis.claims.catalogue import FINDINGS
from analysis.claims.frame import decisive_of, of_finding
from analysis.evidence.evidence import Settings
from analysis.evidence.intervals import INTERVALS
from analysis.sensitivity.forks import FORKS, explore
from analysis.sources import PUBLISHED, Source
from common.errors import UserError
from tests.analysis.adjusted import multipletests
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
    frame = assess(PUBLISHED, SETTINGS).frame
    main = frame[(frame["role"] == "finding") & frame["id"].isin(FINDINGS)].set_index("id")
    assert rows()["state"].to_dict() == main["outcome"].to_dict()
    assert rows()["verdict"].to_dict() == main["verdict"].to_dict()
    assert rows()["effect"]["F8"] == decisive_of(of_finding(frame, "F8")).effect
    assert list(analyses().columns[: 1 + len(FORKS)]) == ["id", *FORKS]
    assert len(published().multiverse.grid) == 2 * len(FINDINGS) == len(analyses()) / 3


def test_adjustments_are_holms_over_all_claims_or_none() -> None:
    raw = rows(adjustment="none")
    known = raw[raw["p"].notna() & (raw["state"] != "fails")].index
    everything = rows(adjustment="all findings")["p_adjusted"]
    # The p's for: those of the claims that lean that way, adjusted over all 17 with evidence.
    assert (raw["p"].dropna() == raw["p_adjusted"].dropna()).all()
    ranked = sorted(raw["p"].dropna())
    smallest = raw["p"].idxmin()
    assert everything[smallest] == pytest.approx(multipletests(ranked, method="holm")[1][0], rel=1e-6)
    assert (everything[known] >= raw["p"][known] - 1e-12).all()


def test_narrow_intervals_and_unadjusted_analyses_are_invalid() -> None:
    assert set(analyses().loc[analyses()["interval"] == "paper", "valid"]) == {False}
    assert set(analyses().loc[analyses()["adjustment"] == "none", "valid"]) == {False}
    assert rows()["valid"].all()


def test_single_choices_that_alter_a_verdict_are_named() -> None:
    """Welch does not support F4 after the adjustment, the paper's narrower interval does."""
    flips = published().multiverse.flips
    assert flips["F2"] == []
    assert flips["F4"] == [
        ("interval", "paper", "holds", False), ("adjustment", "none", "holds", False),
    ]  # fmt: skip
    for fork, option, state, _ in flips["F12"]:
        assert rows(**{fork: option})["state"]["F12"] == state != rows()["state"]["F12"]


def test_runs_are_judged_by_every_rule_and_interval_without_instances() -> None:
    """The measured coverages decide, so that the default is valid and the percentile interval is not."""
    source = Source(label="x", runs=best_runs(drawn({REAL: 1.0, MADE_UP: 0.0})))
    found = explore(source, SETTINGS).analyses
    assert set(found["selection"]) == {"seed", "mean", "pooled"}
    assert {"t", "paper", "bootstrap"} <= set(found["interval"]) and "crossed" not in set(found["interval"])
    why = found[found["adjustment"] == "family"].groupby("interval")["why_not"].first()
    assert why["pooled"] == why["t"] == ""
    assert (why["paper"], why["bootstrap"]) == ("covers 88 %", "covers 84 %")


@pytest.mark.slow
def test_runs_are_judged_under_every_rule_interval_and_protocol(tmp_path) -> None:
    runs, folder = with_instances(
        tmp_path / "instances", np.random.default_rng(0), models=(MADE_UP, REAL), counts={}, shift=0.02
    )
    source = Source(label="x", runs=runs, instances=folder)
    standard = Source(label="y", runs=runs, protocol="standard")
    found = explore(source, SETTINGS, standard=standard).grid
    kinds = found.groupby(["protocol", "selection"])["interval"].agg(lambda values: sorted(set(values)))
    assert kinds["paper", "seed"] == sorted(INTERVALS)
    assert kinds["standard", "pooled"] == sorted(
        name for name, one in INTERVALS.items() if not one.needs_instances
    )


def test_a_table_without_runs_is_refused() -> None:
    empty = best_runs(drawn({REAL: 1.0})).iloc[:0]
    with pytest.raises(UserError, match="has no runs to judge"):
        explore(Source(label="header.csv", runs=empty), SETTINGS)
