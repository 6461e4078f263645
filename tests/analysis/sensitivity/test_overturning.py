from __future__ import annotations

import math

import pytest

from analysis.claims.catalogue import CLAIMS
from analysis.claims.evidence import PublishedEvidence
from analysis.claims.verdicts import judge, judge_claim
from analysis.sensitivity.evidence import with_pretraining_spread
from analysis.sensitivity.overturning import SPREADS, overturn, state_of
from tests.analysis.sensitivity.found import overturned

FOUND = PublishedEvidence("t").finding


def test_every_claim_has_its_verdict_and_only_a_decided_one_can_be_overturned() -> None:
    assert list(overturned()) == list(CLAIMS)
    for one in overturned().values():
        assert (one.spread is None) == (one.state in ("undecided", "not decidable"))
    assert {name for name, one in overturned().items() if one.state == "supported"} == {
        "F1",
        "F2",
        "F5a",
        "F5c",
    }
    assert {name: one.state_alone for name, one in overturned().items()} | {
        "F4": "supported", "F13": "supported", "F9": "contradicted", "F12": "contradicted",
    } == {name: one.state_alone for name, one in overturned().items()}  # fmt: skip


@pytest.mark.parametrize("name", ["F1", "F5a", "F5c"])
def test_the_spread_is_the_first_that_overturns(name: str) -> None:
    spread = overturned()[name].spread
    assert spread is not None
    before = SPREADS[SPREADS.index(spread) - 1]
    for sd, state in ((before, "supported"), (spread, "undecided")):
        found = {one.claim.id: one for one in judge(CLAIMS, with_pretraining_spread(FOUND, sd))}
        assert state_of(found[name]) == state


def test_alone_it_takes_more() -> None:
    for name in ("F1", "F2", "F5a", "F5c"):
        one = overturned()[name]
        assert one.spread is not None and one.spread_alone is not None and one.spread_alone >= one.spread
        assert (
            state_of(judge_claim(CLAIMS[name], with_pretraining_spread(FOUND, one.spread_alone)))
            == "undecided"
        )


def test_correlations_are_for_printed_cells() -> None:
    assert set(overturned()["F1"].states_by_rho.values()) == {overturned()["F1"].state}
    assert set(overturned()["F4"].states_by_rho.values()) != {overturned()["F4"].state}
    assert overturned()["F4"].states_by_rho[0.5] == "supported"
    assert math.isnan(overturned()["F7"].p_by_rho[0.5])
    from_runs = overturn(FOUND, published=False)
    assert all(not one.states_by_rho for one in from_runs)
