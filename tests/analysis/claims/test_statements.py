"""What claims are made of: regions, merged weights, rules in words."""

from __future__ import annotations

import math

import pytest

from analysis.claims.statements import AtLeast, all_of, any_of, comparisons, difference, weighted
from analysis.evidence.contrasts import Contrast, Spread
from tests.analysis.claims.given import part


@pytest.mark.parametrize(
    ("low", "high", "words", "inside"),
    [(0.0, math.inf, "> 0", 0.1), (-math.inf, 1.5, "< 1.5", 1.4), (-0.5, 0.5, "in (-0.5, 0.5)", 0.0)],
)
def test_a_region_is_open_and_has_its_ends_in_words(
    low: float, high: float, words: str, inside: float
) -> None:
    contrast = Contrast(label="x", terms=(), low=low, high=high)
    assert contrast.region == words and contrast.holds(inside)
    assert not contrast.holds(low) and not contrast.holds(high)
    assert contrast.is_range == (math.isfinite(low) and math.isfinite(high))


def test_a_ratio_of_spreads_holds_below_one() -> None:
    spread = Spread(label="x", task="SC", narrow=("a",), wide=("b",))
    assert spread.holds(0.99) and not spread.holds(1.0) and not spread.is_range and spread.region == "< 1"


def test_equal_cells_of_a_weighted_sum_are_merged() -> None:
    merged = weighted(
        "x", [(1.0, "a", "SC"), (-0.5, "b", "SC"), (-0.5, "b", "SC"), (1.0, "c", "SC"), (-1.0, "c", "SC")]
    )
    assert [(term.weight, term.model) for term in merged.terms] == [(1.0, "a"), (-1.0, "b")]
    assert merged.terms[0].cell == ("a", "SC", "average")
    gap = difference("x", "a", "b", "QA", low=1.0)
    assert [term.weight for term in gap.terms] == [1.0, -1.0] and gap.low == 1.0


def test_rules_are_in_words_and_comparisons_in_order() -> None:
    parts = [part(name) for name in "abc"]
    assert all_of("x", parts).rule == "all 3 parts" and any_of("x", parts).rule == "one of 3 parts"
    two = AtLeast(label="x", count=2, parts=tuple(parts))
    assert two.rule == "at least 2 of 3 parts" and all_of("x", parts[:1]).rule == "one part"
    nested = all_of("y", [two, part("d")])
    assert [one.label for one in comparisons(nested)] == ["a", "b", "c", "d"]
    with pytest.raises(AssertionError):
        AtLeast(label="x", count=4, parts=tuple(parts))
