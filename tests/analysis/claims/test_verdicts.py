"""The tree, the families, the grades and the sentences: by hand, and of the published cells."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.claims.statements import AtLeast, all_of, any_of, both_of
from analysis.claims.verdicts import OUTCOMES, judge
from analysis.claims.wording import sentence
from common.provenance import ROOT
from tests.analysis.adjusted import multipletests
from tests.analysis.claims.given import Given, finding_of, part, verdict_of


def test_all_needs_its_weakest_part():
    body = all_of("all", [part("a"), part("b")])
    found = verdict_of(body, a=(0.001, 1.0), b=(0.04, 1.0))
    assert (found.verdict, found.p_for, found.decisive.comparison.label) == ("holds", 0.04, "b")
    found = verdict_of(body, a=(0.001, 1.0), b=(0.06, 1.0))
    assert (found.verdict, found.p_for) == ("holds in 1 of 2", 0.06)


def test_one_failing_part_contradicts_all_when_it_survives_bonferroni():
    body = all_of("all", [part("a"), part("b")])
    found = verdict_of(body, a=(0.4, 1.0), b=(1.0, 0.02))
    assert (found.verdict, found.p_against, found.decisive.comparison.label) == ("fails", 0.04, "b")
    assert verdict_of(body, a=(0.4, 1.0), b=(1.0, 0.03)).verdict == "open"
    assert verdict_of(body, a=(0.001, 1.0), b=(1.0, 0.02)).verdict == "fails"
    assert verdict_of(body, a=(0.001, 1.0), b=(1.0, 0.03)).verdict == "holds in 1 of 2"


def test_one_of_many_pays_for_the_search():
    body = any_of("any", [part("a"), part("b")])
    assert verdict_of(body, a=(0.02, 1.0), b=(0.9, 0.9)).verdict == "holds"
    assert verdict_of(body, a=(0.03, 1.0), b=(0.9, 0.9)).verdict == "open"
    assert verdict_of(body, a=(1.0, 0.04), b=(1.0, 0.05)).verdict == "fails"
    assert verdict_of(body, a=(1.0, 0.04), b=(1.0, 0.06)).verdict == "open"


def test_nested_statements_combine():
    body = all_of("all", [any_of("any", [part("a"), part("b")]), part("c")])
    found = verdict_of(body, a=(0.01, 1.0), b=(0.5, 0.5), c=(0.03, 1.0))
    assert found.p_for == pytest.approx(0.03)
    found = verdict_of(body, a=(0.02, 1.0), b=(0.5, 0.5), c=(0.03, 1.0))
    assert found.p_for == pytest.approx(0.04) and found.decisive.comparison.label == "a"


def test_what_is_missing_can_be_contradicted_but_not_supported():
    body = all_of("all", [part("a"), part("b")])
    found = verdict_of(body, a=(0.001, 1.0), b=None)
    assert found.verdict == "holds in 1 of 2" and (found.tree.hold, len(found.tree.units)) == (1, 2)
    assert found.decisive.comparison.label == "a"
    assert verdict_of(body, a=(0.1, 1.0), b=None).verdict == "open"
    assert "1 of 2 comparisons can be computed" in sentence(found) and "not there" in sentence(found)
    assert verdict_of(body, a=(1.0, 0.01), b=None).verdict == "fails"
    nothing = verdict_of(body, a=None, b=None)
    assert nothing.verdict == "open" and not nothing.known
    assert verdict_of(any_of("any", [part("a"), part("b")]), a=(0.01, 1.0), b=None).verdict == "holds"


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
    assert found["d"].verdict == "open"
    assert found["e"].verdict == "holds"


def test_a_claim_that_only_holds_unadjusted_says_so():
    findings = {"a": finding_of(part("a"), "a"), "b": finding_of(part("b"), "b")}
    found = judge(findings, Given(a=(0.04, 1.0), b=(0.5, 1.0)).result)[0]
    assert found.verdict == "holds in 1 of 1"
    assert "The whole statement holds on its own (p 0.040) but not after Holm" in sentence(found)


EXPECTED = {
    "F1": ("holds", 6, 0, 6),
    "F2": ("holds", 9, 0, 9),
    "F3": ("holds in 3 of 4", 3, 0, 4),
    "F4": ("holds in 3 of 3", 3, 0, 3),
    "F5a": ("holds", 4, 0, 4),
    "F5b": ("holds in 2 of 8", 2, 0, 8),
    "F5c": ("holds", 3, 0, 3),
    "F5d": ("open", 0, 0, 2),
    "F5e": ("holds in 4 of 8", 4, 0, 8),
    "F6": ("holds in 15 of 19", 15, 0, 19),
    "F7": ("open", 0, 0, 4),
    "F8": ("holds in 8 of 12", 8, 0, 12),
    "F9": ("fails", 1, 1, 12),
    "F10": ("open", 0, 0, 4),
    "F11": ("holds in 1 of 4", 1, 0, 4),
    "F12": ("fails", 0, 1, 4),
    "F13": ("holds in 2 of 2", 2, 0, 2),
    "F14": ("open", 0, 0, 4),
    "F15": ("holds in 3 of 4", 3, 0, 4),
}
"""Verdict, parts that hold at least, parts that fail at least, parts."""


def test_the_published_cells_give_every_finding_the_verdict_written_down(verdicts) -> None:
    found = {name: (v.verdict, v.hold, v.fail, len(v.tree.units)) for name, v in verdicts.items()}
    assert found == EXPECTED
    assert verdicts["F8"].reported[0].verdict == "fails"


def test_the_page_has_the_outcomes_in_the_order_in_which_they_are_tried() -> None:
    page = (ROOT / "docs" / "claims.md").read_text("utf-8")
    order = re.findall(r"^\d\. \*\*([a-z *]+)\*\*", page, re.MULTILINE)
    assert [name.replace("*", "") for name in order] == list(OUTCOMES)


ps = st.floats(0, 1)


@given(st.lists(st.tuples(ps, ps), min_size=1, max_size=5), ps, ps, st.integers(1, 5))
def test_every_statement_has_one_outcome_and_it_says_what_is_shown(
    values: list[tuple[float, float]], p_for: float, p_against: float, count: int
) -> None:
    """The rules of the page once more, from the p's of the parts alone."""
    parts = [part(f"p{place}") for place in range(len(values))]
    count = min(count, len(parts))
    tree = verdict_of(
        AtLeast(label="k of n", count=count, parts=tuple(parts)),
        **{f"p{place}": value for place, value in enumerate(values)},
    ).tree
    hold, fail = (sum(multipletests([v[way] for v in values], 0.05, "holm")[0]) for way in (0, 1))
    expected = "open"
    if hold:
        expected = "holds in k of n"
    if p_against <= 0.05 or (count == len(values) and fail):
        expected = "fails"
    if p_for <= 0.05:
        expected = "holds"
    assert tree.outcome(p_for, p_against, hold=tree.hold, fail=tree.fail).name == expected


def test_a_statement_chosen_among_others_is_counted_with_theirs() -> None:
    values = {name: (p, 1.0) for name, p in zip("abcdef", (0.004, 0.02, 0.5, 0.5, 0.5, 0.5), strict=True)}
    findings = {
        name: replace(finding_of(any_of("any", [part(one) for one in names]), name), chosen=True)
        for name, names in (("x", "ab"), ("y", "cdef"))
    }
    chosen = judge(findings, Given(**values).result)[0]
    assert (chosen.tree.hold, chosen.hold) == (2, 1)
    assert sum(multipletests([p for p, _ in values.values()], 0.05, "holm")[0][:2]) == 1
