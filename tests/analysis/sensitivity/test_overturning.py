import pytest

from analysis.claims.catalogue import FINDINGS
from analysis.claims.judged import judge
from analysis.claims.pretraining_spread import SHARED_LUCK, with_pretraining_spread
from analysis.evidence.settings import Settings
from analysis.sensitivity.overturning import MOVED, SPREADS
from analysis.sources import PUBLISHED
from tests.analysis.sensitivity.found import overturned

FOUND = PUBLISHED.evidence(Settings(interval="t")).result


def test_every_claim_has_its_verdict_and_only_a_decided_one_can_be_overturned() -> None:
    assert list(overturned()) == list(FINDINGS)
    for one in overturned().values():
        assert one.decided == (one.spread["models"] is not None)
    assert {
        name for name, one in overturned().items() if one.main.outcome == "holds"
    } == {
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
