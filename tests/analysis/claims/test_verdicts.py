"""The tree, the families, the grades and the sentences: by hand, and of the published cells."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from analysis.claims.statements import all_of, any_of, both_of
from analysis.claims.verdicts import ALPHA, GRADES, Tally, grade_of, judge
from analysis.claims.wording import sentence
from common.provenance import ROOT
from tests.analysis.claims.given import Given, finding_of, part, verdict_of


def test_all_needs_its_weakest_part():
    body = all_of("all", [part("a"), part("b")])
    found = verdict_of(body, a=(0.001, 1.0), b=(0.04, 1.0))
    assert (found.verdict, found.p_for, found.decisive.comparison.label) == ("supported", 0.04, "b")
    found = verdict_of(body, a=(0.001, 1.0), b=(0.06, 1.0))
    assert (found.verdict, found.p_for) == ("partly supported", 0.06)


def test_one_failing_part_contradicts_all_when_it_survives_bonferroni():
    body = all_of("all", [part("a"), part("b")])
    found = verdict_of(body, a=(0.4, 1.0), b=(1.0, 0.02))
    assert (found.verdict, found.p_against, found.decisive.comparison.label) == ("contradicted", 0.04, "b")
    assert verdict_of(body, a=(0.4, 1.0), b=(1.0, 0.03)).verdict == "undecided"
    assert verdict_of(body, a=(0.001, 1.0), b=(1.0, 0.02)).verdict == "mixed"
    assert verdict_of(body, a=(0.001, 1.0), b=(1.0, 0.03)).verdict == "partly supported"


def test_one_of_many_pays_for_the_search():
    body = any_of("any", [part("a"), part("b")])
    assert verdict_of(body, a=(0.02, 1.0), b=(0.9, 0.9)).verdict == "supported"
    assert verdict_of(body, a=(0.03, 1.0), b=(0.9, 0.9)).verdict == "undecided"
    assert verdict_of(body, a=(1.0, 0.04), b=(1.0, 0.05)).verdict == "contradicted"
    assert verdict_of(body, a=(1.0, 0.04), b=(1.0, 0.06)).verdict == "undecided"


def test_nested_statements_combine():
    body = all_of("all", [any_of("any", [part("a"), part("b")]), part("c")])
    found = verdict_of(body, a=(0.01, 1.0), b=(0.5, 0.5), c=(0.03, 1.0))
    assert found.p_for == pytest.approx(0.03)
    found = verdict_of(body, a=(0.02, 1.0), b=(0.5, 0.5), c=(0.03, 1.0))
    assert found.p_for == pytest.approx(0.04) and found.decisive.comparison.label == "a"


def test_what_is_missing_can_be_contradicted_but_not_supported():
    body = all_of("all", [part("a"), part("b")])
    found = verdict_of(body, a=(0.001, 1.0), b=None)
    assert found.verdict == "partly supported" and (found.tree.hold, len(found.tree.units)) == (1, 2)
    assert found.decisive.comparison.label == "a"
    assert verdict_of(body, a=(0.1, 1.0), b=None).verdict == "not decidable from this source"
    assert "1 of 2 comparisons can be computed" in sentence(found) and "not there" in sentence(found)
    assert verdict_of(body, a=(1.0, 0.01), b=None).verdict == "contradicted"
    nothing = verdict_of(body, a=None, b=None)
    assert nothing.verdict == "not decidable from this source" and not nothing.known
    assert verdict_of(any_of("any", [part("a"), part("b")]), a=(0.01, 1.0), b=None).verdict == "supported"


def test_brackets_within_all_of_move_no_p():
    ps = {"a": (0.01, 1.0), "b": (0.2, 0.03), "c": (0.3, 0.02), "d": (0.5, 0.5)}
    parts = [part(name) for name in ps]
    flat = verdict_of(all_of("all", parts), **ps)
    nested = verdict_of(all_of("all", [all_of("two", parts[:2]), all_of("more", parts[2:])]), **ps)
    for name in ("p_for", "p_against", "verdict"):
        assert getattr(flat, name) == getattr(nested, name)
    assert (nested.tree.hold, nested.tree.fail, len(nested.tree.units)) == (1, 0, 4)


def test_a_pair_that_makes_one_part_counts_once():
    ps = {"a": (0.01, 1.0), "b": (0.02, 1.0), "c": (0.3, 1.0)}
    found = verdict_of(all_of("all", [both_of("both", part("a"), part("b")), part("c")]), **ps)
    assert (found.tree.hold, len(found.tree.units)) == (1, 2)


def test_families_are_adjusted_by_holm_apart_and_without_the_undecidable():
    ps = {"a": (0.01, 1.0), "b": (0.02, 1.0), "c": (0.04, 1.0), "d": None, "e": (0.04, 1.0)}
    findings = {
        name: finding_of(part(name), name, "ratio" if name != "e" else "dynamics")
        for name in ("a", "b", "c", "d", "e")
    }
    found = {v.finding.id: v for v in judge(findings, Given(**ps).result)}
    expected = multipletests([0.01, 0.02, 0.04], method="holm")[1]
    assert [found[name].p_for_adjusted for name in "abc"] == pytest.approx(list(expected))
    assert [found[name].family_size for name in "abe"] == [3, 3, 1]
    assert found["d"].verdict == "not decidable from this source"
    assert found["e"].verdict == "supported"


def test_a_claim_that_only_holds_unadjusted_says_so():
    findings = {"a": finding_of(part("a"), "a"), "b": finding_of(part("b"), "b")}
    found = judge(findings, Given(a=(0.04, 1.0), b=(0.5, 1.0)).result)[0]
    assert found.verdict == "supported before adjustment"
    assert "holds on its own (p 0.040) but not after Holm" in sentence(found)


EXPECTED = {
    "F1": ("supported", 6, 0, 6),
    "F2": ("supported", 9, 0, 9),
    "F3": ("partly supported", 3, 0, 4),
    "F4": ("supported before adjustment", 3, 0, 3),
    "F5a": ("supported", 4, 0, 4),
    "F5b": ("partly supported", 2, 0, 8),
    "F5c": ("supported", 3, 0, 3),
    "F5d": ("undecided", 0, 0, 2),
    "F5e": ("partly supported", 4, 0, 8),
    "F6": ("partly supported", 15, 0, 19),
    "F7": ("not decidable from this source", 0, 0, 4),
    "F8": ("partly supported", 8, 0, 12),
    "F9": ("mixed", 1, 1, 12),
    "F10": ("not decidable from this source", 0, 0, 4),
    "F11": ("partly supported", 1, 0, 4),
    "F12": ("contradicted before adjustment", 0, 1, 4),
    "F13": ("supported before adjustment", 2, 0, 2),
    "F14": ("undecided", 0, 0, 4),
    "F15": ("partly supported", 3, 0, 4),
}
"""Grade, parts that hold at least, parts that fail at least, parts."""


def test_the_published_cells_give_every_claim_the_grade_written_down(verdicts) -> None:
    found = {name: (v.verdict, v.tree.hold, v.tree.fail, len(v.tree.units)) for name, v in verdicts.items()}
    assert found == EXPECTED
    assert verdicts["F8"].reported[0].verdict == "mixed"


def test_the_page_has_the_grades_in_the_order_in_which_they_are_tried() -> None:
    page = (ROOT / "docs" / "claims.md").read_text("utf-8")
    order = [name for name in re.findall(r"^\d\. \*\*([a-z ]+)\*\*", page, re.MULTILINE) if name in GRADES]
    assert order == list(GRADES)


def test_no_claim_whose_deciding_interval_is_outside_its_region_is_undecided(verdicts) -> None:
    for verdict in verdicts.values():
        if verdict.verdict == "undecided":
            assert not verdict.decisive.outside and not verdict.tree.decides_against.outside


tallies = st.builds(
    Tally,
    p_for=st.floats(0, 1), p_for_adjusted=st.floats(0, 1), p_against=st.floats(0, 1),
    p_against_adjusted=st.floats(0, 1), hold=st.integers(0, 3), fail=st.integers(0, 3), outside=st.booleans(),
    known=st.booleans(),
)  # fmt: skip


@given(tallies)
def test_every_statement_has_one_grade_and_it_says_what_is_shown(found: Tally) -> None:
    name = grade_of(found).name
    if name == "supported":
        assert found.p_for_adjusted <= ALPHA
    if name in ("undecided", "not decidable from this source"):
        assert not (found.hold or found.outside) and found.p_for > ALPHA < found.p_against
        assert (name == "undecided") == found.known
    if found.hold and found.fail and found.p_for > ALPHA < found.p_for_adjusted:
        assert name == "mixed"
    if name.startswith("contradicted"):
        assert not (found.hold and found.fail)
    if name == "partly supported":
        assert found.hold and not found.fail


@pytest.mark.parametrize(
    ("numbers", "name"),
    [
        ((0.04, 0.04, 1, 1, 2, 0, False, True), "supported"),
        ((0.04, 0.06, 1, 1, 2, 0, False, True), "supported before adjustment"),
        ((0.5, 0.5, 0.01, 0.01, 1, 1, True, True), "mixed"),
        ((0.5, 0.5, 0.01, 0.01, 0, 1, True, True), "contradicted"),
        ((0.5, 0.5, 0.03, 0.06, 0, 1, True, True), "contradicted before adjustment"),
        ((0.5, 0.5, 0.2, 0.2, 0, 0, True, True), "contradicted before adjustment"),
        ((0.5, 0.5, 0.2, 0.2, 2, 0, True, False), "partly supported"),
        ((0.5, 0.5, 0.2, 0.2, 0, 0, False, True), "undecided"),
        ((1, 1, 1, 1, 0, 0, False, False), "not decidable from this source"),
    ],
)
def test_the_first_that_fits_is_given(numbers: tuple, name: str) -> None:
    assert grade_of(Tally(**dict(zip(Tally.__dataclass_fields__, numbers, strict=True)))).name == name
