"""The tree, the families and the sentences, on findings given by hand."""

from __future__ import annotations

import pytest
from statsmodels.stats.multitest import multipletests

from analysis.claims.catalogue import CLAIMS
from analysis.claims.statements import all_of, any_of, both_of
from analysis.claims.verdicts import judge
from analysis.claims.wording import sentence
from analysis.evidence.evidence import Settings
from analysis.sources import PUBLISHED
from tests.analysis.claims.given import Given, claim_of, part, verdict_of


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
    claims = {
        name: claim_of(part(name), name, "ratio" if name != "e" else "dynamics")
        for name in ("a", "b", "c", "d", "e")
    }
    found = {v.claim.id: v for v in judge(claims, Given(**ps).finding)}
    expected = multipletests([0.01, 0.02, 0.04], method="holm")[1]
    assert [found[name].p_for_adjusted for name in "abc"] == pytest.approx(list(expected))
    assert [found[name].family_size for name in "abe"] == [3, 3, 1]
    assert found["d"].verdict == "not decidable from this source"
    assert found["e"].verdict == "supported"


def test_a_claim_that_only_holds_unadjusted_says_so():
    claims = {"a": claim_of(part("a"), "a"), "b": claim_of(part("b"), "b")}
    found = judge(claims, Given(a=(0.04, 1.0), b=(0.5, 1.0)).finding)[0]
    assert found.verdict == "supported before adjustment"
    assert "holds on its own (p 0.040) but not after Holm" in sentence(found)


def test_published_cells_decide_what_they_can():
    verdicts = {v.claim.id: v for v in judge(CLAIMS, PUBLISHED.evidence(Settings()).finding)}
    undecided = {name for name, v in verdicts.items() if v.verdict == "not decidable from this source"}
    assert undecided == {"F7", "F10"}
    assert verdicts["F1"].verdict == verdicts["F2"].verdict == verdicts["F5c"].verdict == "supported"
    assert verdicts["F8"].reported[0].verdict == "mixed"
