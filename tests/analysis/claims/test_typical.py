"""The typical effect is the mean of a claim's comparisons, with the interval of that mean."""

from __future__ import annotations

import math

import pytest

from analysis.claims.catalogue import CLAIMS
from analysis.claims.statements import comparisons, difference
from analysis.claims.typical import shared_trunks, typical_contrast
from analysis.evidence.contrasts import Finding, Spread
from analysis.evidence.evidence import Settings
from analysis.sources import PUBLISHED

FINDING_OF = PUBLISHED.evidence(Settings(interval="t")).finding
A, B = "610m-clm-42k", "610m-mlm40-42k"


def findings(name: str) -> list[Finding]:
    return [FINDING_OF(one) for one in comparisons(CLAIMS[name].body)]


@pytest.mark.parametrize("name", ["F1", "F2", "F5c", "F6", "F8", "F9", "F14", "F15"])
def test_it_is_the_mean_of_the_effects(name: str) -> None:
    every = findings(name)
    typical = typical_contrast(every)
    assert typical is not None
    found = FINDING_OF(typical)
    assert found.effect == pytest.approx(sum(one.effect for one in every) / len(every))
    assert found.low < found.effect < found.high


def test_what_is_claimed_to_be_below_is_turned_round() -> None:
    typical = typical_contrast(findings("F3"))
    assert typical is not None
    signs = [-1 if math.isinf(one.comparison.ends[0]) else 1 for one in findings("F3")]
    assert signs == [1, 1, -1, -1]
    expected = sum(sign * one.effect for sign, one in zip(signs, findings("F3"), strict=True)) / 4
    assert FINDING_OF(typical).effect == pytest.approx(expected)


def test_ranges_count_only_where_nothing_has_a_direction() -> None:
    typical = typical_contrast(findings("F4"))
    assert typical is not None and "CLM - MLM on TC, 610m" in typical.label
    ranges = [one for one in findings("F4") if one.comparison.is_range]
    alone = typical_contrast(ranges)
    assert alone is not None and alone.ends == (-0.25, 0.25)


def test_a_search_in_both_directions_and_a_spread_have_none() -> None:
    assert typical_contrast(findings("F5a")) is None
    assert (
        typical_contrast([Finding(comparison=Spread(label="r", task="SC", narrow=(A,), wide=(B,)))]) is None
    )


def test_models_of_one_trunk_are_named_together_and_others_are_not() -> None:
    assert (
        shared_trunks(findings("F8")) == "the 6 models compared branch from 2 trunks (610m-clm, 610m-mlm40)"
    )
    assert shared_trunks(findings("F1")) == ""  # six base models, each from random weights of its own
    own = [Finding(comparison=difference("x", "mine", "yours", "SC"))]
    assert shared_trunks(own) == ""
    steps = [Finding(comparison=difference("x", "1b-clm-42k-1000", "1b-clm-42k", "SC"))]
    assert shared_trunks(steps) == "the 2 models compared branch from 1 trunk (1b-clm)"
