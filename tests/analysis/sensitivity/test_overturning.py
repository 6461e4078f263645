import pytest

from analysis.claims.catalogue import FINDINGS, SHOWN
from analysis.claims.judged import judge
from analysis.claims.pretraining_spread import (
    SHARED_LUCK,
    measured_spreads,
    with_pretraining_spread,
)
from analysis.evidence.settings import Settings
from analysis.sensitivity.overturning import MOVED, SPREADS, other_margins
from analysis.sources import PUBLISHED
from tests.analysis.sensitivity.found import overturned

FOUND = PUBLISHED.evidence(Settings(interval="t")).result


def test_only_decided_verdicts_can_be_overturned() -> None:
    assert list(overturned()) == list(SHOWN)
    for one in overturned().values():
        assert one.decided == (one.spread["models"] is not None)
    assert {
        name for name, one in overturned().items() if one.main.outcome == "holds"
    } == {
        "answer",
        "F1",
        "F2",
        "F5a",
        "F5b",
        "F5c",
        "F9",
        "F16",
    }


@pytest.mark.parametrize(
    ("name", "sharing"), [("F1", "models"), ("F5a", "trunks"), ("F5c", "models")]
)
def test_the_spread_is_the_first_that_overturns(name: str, sharing: str) -> None:
    spread = overturned()[name].spread[sharing]
    assert spread is not None
    before = SPREADS[SPREADS.index(spread) - 1]
    for sd, holds in ((before, True), (spread, False)):
        results = with_pretraining_spread(FOUND, sd, SHARED_LUCK[sharing])
        found = judge(FINDINGS.values(), results)[name]
        assert (found.outcome == "holds") == holds


def test_parts_and_means_at_each_spread_are_those_of_the_claim() -> None:
    f8 = overturned()["F8"].moved
    assert [f8["models", sd].holds_in for sd in MOVED] == [6, 5, 2, 1, 1]
    for sharing in SHARED_LUCK:
        widths = [
            mean.high - mean.low for sd in MOVED if (mean := f8[sharing, sd].mean)
        ]
        assert len(widths) == len(MOVED) and widths == sorted(widths)
    # A difference of gaps over tasks loses what moves all tasks of a trunk alike.
    assert overturned()["F2"].spread["trunks and tasks"] is None


def test_answer_falls_at_a_third_of_the_least_measured_spread() -> None:
    spreads = {
        name: min(sd for sd in one.spread.values() if sd is not None)
        for name, one in overturned().items()
        if one.decided
    }
    assert min(spreads, key=lambda name: spreads[name]) == "answer"
    assert spreads["answer"] == pytest.approx(0.08, abs=0.005)
    assert min(one.sd for one in measured_spreads()) > 2.8 * spreads["answer"]


def test_only_f4_f11_f12_and_f13_hang_on_the_margins() -> None:
    changed = other_margins(FOUND)
    assert changed[1.2] == {"F4": "holds", "F13": "holds"}
    assert changed[0.8] == {"F4": "holds in 2 of 3", "F13": "holds in 1 of 2"}
    assert changed[0.5]["F12"] == "fails"
    assert set().union(*changed.values()) == {"F4", "F11", "F12", "F13"}
