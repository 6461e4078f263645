"""What claims are made of: merged weights, rules in words, the mean of the comparisons."""

import math

import pytest

from analysis.claims.catalogue import FINDINGS
from analysis.claims.statements import (
    AtLeast,
    all_of,
    any_of,
    comparisons,
    difference,
    shared_trunks,
    typical_contrast,
    weighted,
)
from analysis.evidence.contrasts import AnyContrast, Spread
from analysis.evidence.settings import Settings
from analysis.sources import PUBLISHED
from tests.analysis.claims.given import part

FINDING_OF = PUBLISHED.evidence(Settings(interval="t")).result


def test_equal_cells_of_a_weighted_sum_are_merged() -> None:
    merged = weighted(
        "x",
        [
            (1.0, "a", "SC"),
            (-0.5, "b", "SC"),
            (-0.5, "b", "SC"),
            (1.0, "c", "SC"),
            (-1.0, "c", "SC"),
        ],
    )
    assert [(term.weight, term.model) for term in merged.terms] == [
        (1.0, "a"),
        (-1.0, "b"),
    ]
    assert merged.terms[0].cell == ("a", "SC", "average")
    gap = difference("x", "a", "b", "QA", low=1.0)
    assert [term.weight for term in gap.terms] == [1.0, -1.0] and gap.low == 1.0


def test_rules_are_in_words_and_comparisons_in_order() -> None:
    parts = [part(name) for name in "abc"]
    assert (
        all_of("x", parts).rule == "all 3 parts"
        and any_of("x", parts).rule == "one of 3 parts"
    )
    two = AtLeast(label="x", count=2, parts=tuple(parts))
    assert (
        two.rule == "at least 2 of 3 parts"
        and all_of("x", parts[:1]).rule == "one part"
    )
    nested = all_of("y", [two, part("d")])
    assert [one.label for one in comparisons(nested)] == ["a", "b", "c", "d"]
    with pytest.raises(AssertionError):
        AtLeast(label="x", count=4, parts=tuple(parts))


def asked(name: str) -> list[AnyContrast]:
    return list(comparisons(FINDINGS[name].body))


def effects(name: str) -> list[float]:
    return [FINDING_OF(one).effect for one in asked(name)]


@pytest.mark.parametrize("name", ["F1", "F2", "F5c", "F6", "F8", "F9", "F14", "F15"])
def test_the_typical_effect_is_the_mean_of_the_effects(name: str) -> None:
    typical = typical_contrast(asked(name))
    assert typical is not None
    found = FINDING_OF(typical)
    assert found.effect == pytest.approx(sum(effects(name)) / len(effects(name)))
    assert found.low < found.effect < found.high


def test_typical_effect_turns_claims_below_zero() -> None:
    typical = typical_contrast(asked("F3"))
    assert typical is not None
    signs = [-1 if math.isinf(one.low) else 1 for one in asked("F3")]
    assert signs == [1, 1, -1, -1]
    expected = (
        sum(sign * effect for sign, effect in zip(signs, effects("F3"), strict=True))
        / 4
    )
    assert FINDING_OF(typical).effect == pytest.approx(expected)


def test_typical_effect_counts_ranges_without_directions_only() -> None:
    typical = typical_contrast(asked("F4"))
    assert typical is not None and "CLM - MLM on TC, 610m" in typical.label
    alone = typical_contrast(one for one in asked("F4") if not one.has_direction)
    assert alone is not None and (alone.low, alone.margin) == (-0.25, 0.25)
    ranges = typical_contrast(one for one in asked("F13") if one.is_range)
    assert ranges is not None and (ranges.low, ranges.high) == (-0.5, 0.5)


def test_searches_and_spreads_have_no_typical_effect() -> None:
    assert typical_contrast(asked("F5a")) is None
    assert (
        typical_contrast([Spread(label="r", task="SC", narrow=("a",), wide=("b",))])
        is None
    )


def test_models_of_one_trunk_are_named_together() -> None:
    assert (
        shared_trunks(asked("F8"))
        == "the 6 models compared branch from 2 trunks (610m-clm, 610m-mlm40)"
    )
    # Six base models, each from random weights of its own
    assert shared_trunks(asked("F1")) == ""
    own = [difference("x", "mine", "yours", "SC")]
    assert shared_trunks(own) == ""
    steps = [difference("x", "1b-clm-42k-1000", "1b-clm-42k", "SC")]
    assert shared_trunks(steps) == "the 2 models compared branch from 1 trunk (1b-clm)"
