"""The tree, the families, the grades and the sentences: by hand, and of the published cells."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.claims.assessment import Assessment
from analysis.claims.judged import judge
from analysis.claims.statements import AtLeast, all_of, any_of, both_of
from analysis.claims.verdicts import OUTCOMES, outcome_of
from analysis.claims.wording import sentence, verdict_in_words
from common.provenance import ROOT
from tests.analysis.adjusted import multipletests
from tests.analysis.claims.given import Given, finding_of, judged, part


def test_all_needs_its_weakest_part():
    body = all_of("all", [part("a"), part("b")])
    found = judged(body, a=(0.001, 1.0), b=(0.04, 1.0))
    assert (found.verdict, found.p_for, found.decisive.label) == (
        "holds",
        0.04,
        "b",
    )
    weaker = judged(body, a=(0.001, 1.0), b=(0.06, 1.0))
    assert (weaker.verdict, weaker.p_for) == ("holds in 1 of 2", 0.06)


def test_one_failing_part_contradicts_all_after_bonferroni():
    body = all_of("all", [part("a"), part("b")])
    found = judged(body, a=(0.4, 1.0), b=(1.0, 0.02))
    assert (
        found.verdict,
        found.p_against,
        found.decisive.label,
    ) == (
        "fails",
        0.04,
        "b",
    )
    assert judged(body, a=(0.4, 1.0), b=(1.0, 0.03)).verdict == "open"
    assert judged(body, a=(0.001, 1.0), b=(1.0, 0.02)).verdict == "fails"
    assert judged(body, a=(0.001, 1.0), b=(1.0, 0.03)).verdict == "holds in 1 of 2"


def test_one_of_many_pays_for_the_search():
    body = any_of("any", [part("a"), part("b")])
    assert judged(body, a=(0.02, 1.0), b=(0.9, 0.9)).verdict == "holds"
    assert judged(body, a=(0.03, 1.0), b=(0.9, 0.9)).verdict == "open"
    assert judged(body, a=(1.0, 0.04), b=(1.0, 0.05)).verdict == "fails"
    assert judged(body, a=(1.0, 0.04), b=(1.0, 0.06)).verdict == "open"


def test_nested_statements_combine():
    body = all_of("all", [any_of("any", [part("a"), part("b")]), part("c")])
    assert judged(
        body, a=(0.01, 1.0), b=(0.5, 0.5), c=(0.03, 1.0)
    ).p_for == pytest.approx(0.03)
    found = judged(body, a=(0.02, 1.0), b=(0.5, 0.5), c=(0.03, 1.0))
    assert found.p_for == pytest.approx(0.04) and found.decisive.label == "a"


def test_what_is_missing_can_be_contradicted_but_not_supported():
    body = all_of("all", [part("a"), part("b")])
    found = judged(body, a=(0.001, 1.0), b=None)
    assert (found.verdict, found.holds_in, found.known, found.parts) == (
        "holds in 1 of 1 (1 not run)",
        1,
        1,
        2,
    )
    assert found.decisive.label == "a"
    assert judged(body, a=(0.1, 1.0), b=None).verdict == "open"
    assert "1 of 2 comparisons can be computed" in sentence(
        found
    ) and "not there" in sentence(found)
    assert judged(body, a=(1.0, 0.01), b=None).verdict == "fails"
    nothing = judged(body, a=None, b=None)
    assert nothing.verdict == "open" and not nothing.known
    assert (
        judged(any_of("any", [part("a"), part("b")]), a=(0.01, 1.0), b=None).verdict
        == "holds"
    )


def test_what_is_missing_is_not_corrected_for():
    lacking = dict.fromkeys("bcd")
    parts = [part(name) for name in "abcd"]
    assert judged(all_of("all", parts), a=(0.04, 1.0), **lacking).holds_in == 1
    assert judged(all_of("all", parts), a=(1.0, 0.04), **lacking).verdict == "fails"
    assert judged(any_of("any", parts), a=(0.04, 1.0), **lacking).verdict == "holds"
    half = AtLeast(label="half", count=2, parts=tuple(parts))
    assert judged(half, a=(1e-9, 1.0), **lacking).outcome == "holds in k of n"


def test_brackets_within_all_of_move_no_p():
    ps = {"a": (0.01, 1.0), "b": (0.2, 0.03), "c": (0.3, 0.02), "d": (0.5, 0.5)}
    parts = [part(name) for name in ps]
    flat = judged(all_of("all", parts), **ps)
    nested = judged(
        all_of("all", [all_of("two", parts[:2]), all_of("more", parts[2:])]), **ps
    )
    for name in ("p_for", "p_against", "verdict"):
        assert getattr(flat, name) == getattr(nested, name)
    assert (nested.holds_in, nested.fails_in, nested.parts) == (1, 0, 4)


def test_a_pair_that_makes_one_part_counts_once():
    ps = {"a": (0.01, 1.0), "b": (0.02, 1.0), "c": (0.3, 1.0)}
    found = judged(
        all_of("all", [both_of("both", part("a"), part("b")), part("c")]), **ps
    )
    assert (found.holds_in, found.parts) == (1, 2)
    parts = [(part.branch.node.label, part.counted) for part in found.counted]
    assert parts == [
        ("both", "holds"),
        ("c", "open"),
    ]


def test_families_are_adjusted_apart_without_undecidable_ones():
    ps = {
        "a": (0.01, 1.0),
        "b": (0.02, 1.0),
        "c": (0.04, 1.0),
        "d": None,
        "e": (0.04, 1.0),
    }
    findings = [
        finding_of(part(name), name, "ratio" if name != "e" else "dynamics")
        for name in ps
    ]
    found = judge(findings, Given(**ps).result)
    expected = multipletests([0.01, 0.02, 0.04], method="holm")[1]
    assert [found[name].p_for_holm for name in "abc"] == pytest.approx(list(expected))
    assert [one.holm_over for one in found.values()] == [3, 3, 3, 0, 1]
    assert found["d"].verdict == "open"
    assert found["e"].verdict == "holds"


def test_a_claim_that_only_holds_unadjusted_says_so():
    found = judge(
        [finding_of(part(name), name) for name in "ab"],
        Given(a=(0.04, 1.0), b=(0.5, 1.0)).result,
    )["a"]
    assert found.verdict == "holds in 1 of 1, uncorrected"
    assert (
        verdict_in_words(found) == "the only part holds, not after correction (0.080)"
    )
    assert (
        "The whole statement holds on its own (p 0.040) but not after Holm"
        in sentence(found)
    )


@pytest.mark.parametrize("way", [0, 1])
def test_support_and_refutation_pass_the_same_bar(way: int) -> None:
    """A p of 0.02 alone decides; next to another finding of the family it needs 0.025 and next to two it is open."""
    for others, decided in ((0, True), (1, True), (2, False)):
        ps = {"a": (0.02, 1.0), **{f"o{place}": (0.9, 1.0) for place in range(others)}}
        given_ps = {name: pair[:: 1 - 2 * way] for name, pair in ps.items()}
        findings = [finding_of(part(name), name) for name in ps]
        found = judge(findings, Given(**given_ps).result)["a"]
        [adjusted] = multipletests([0.02, *[0.9] * others], method="holm")[1][:1]
        assert (found.outcome in ("holds", "fails")) == decided == (adjusted <= 0.05)
        if not decided:
            said = ("the only part holds", "open: 1 of 1 parts fails")[way]
            assert verdict_in_words(found) == f"{said}, not after correction (0.060)"


EXPECTED = {
    "F1": ("holds", 6, 0, 6),
    "F2": ("holds", 9, 0, 9),
    "F3": ("holds in 3 of 4", 3, 0, 4),
    "F4": ("holds in 3 of 3, uncorrected", 3, 0, 3),
    "F5a": ("holds", 4, 0, 4),
    "F5b": ("holds", 1, 0, 1),
    "F5c": ("holds", 3, 0, 3),
    "F5d": ("open", 0, 0, 2),
    "F5e": ("holds in 4 of 8", 4, 0, 8),
    "F6": ("holds in 15 of 19", 15, 0, 19),
    "F7": ("open", 0, 0, 4),
    "F8": ("holds in 6 of 12", 6, 0, 12),
    "F9": ("holds", 3, 0, 3),
    "F10": ("open", 0, 0, 4),
    "F11": ("holds in 3 of 4", 3, 0, 4),
    "F12": ("holds in 1 of 4, fails in 1", 1, 1, 4),
    "F13": ("holds in 2 of 2, uncorrected", 2, 0, 2),
    "F14": ("open", 0, 0, 4),
    "F15": ("holds in 3 of 4", 3, 0, 4),
    "F16": ("holds", 7, 0, 7),
    "F17": ("holds in 2 of 3", 2, 0, 3),
}
"""Verdict, parts that hold at least, parts that fail at least, parts."""


def test_published_cells_give_the_verdicts_written_down(
    assessment: Assessment,
) -> None:
    judged = assessment.judged
    counts = {
        name: (one.verdict, one.holds_in, one.fails_in, one.parts)
        for name, one in judged.items()
        if name in EXPECTED
    }
    assert counts == EXPECTED
    assert judged["F8"].reported[0].verdict == "fails"


def test_outcomes_are_listed_in_the_order_they_are_tried() -> None:
    page = (ROOT / "docs" / "claims.md").read_text("utf-8")
    order = re.findall(r"^\d\. \*\*([a-z *]+)\*\*", page, re.MULTILINE)
    assert [name.replace("*", "") for name in order] == list(OUTCOMES)


ps = st.floats(0, 1)


@given(st.lists(st.tuples(ps, ps), min_size=1, max_size=5), ps, ps, st.integers(1, 5))
def test_every_statement_has_one_outcome_in_words(
    values: list[tuple[float, float]], p_for: float, p_against: float, count: int
) -> None:
    """The rules of the page once more, from the p's of the parts alone."""
    parts = [part(f"p{place}") for place in range(len(values))]
    count = min(count, len(parts))
    hold, fail = (
        sum(multipletests([v[way] for v in values], 0.05, "holm")[0]) for way in (0, 1)
    )
    expected = "open"
    if hold:
        expected = "holds in k of n"
    if p_against <= 0.05:
        expected = "fails"
    if p_for <= 0.05:
        expected = "holds"
    found = judged(
        AtLeast(label="k of n", count=count, parts=tuple(parts)),
        **{f"p{place}": value for place, value in enumerate(values)},
    )
    assert (found.holds_in, found.fails_in) == (hold, fail)
    outcome = outcome_of(p_for, p_against, holds_in=hold)
    assert outcome.name == expected


def test_a_statement_chosen_among_others_is_counted_with_theirs() -> None:
    values = {
        name: (p, 1.0)
        for name, p in zip("abcdef", (0.004, 0.02, 0.5, 0.5, 0.5, 0.5), strict=True)
    }
    statements = {
        name: any_of("any", [part(one) for one in names])
        for name, names in (("x", "ab"), ("y", "cdef"))
    }
    findings = [
        replace(
            finding_of(body, name),
            rivals=tuple(one for one in statements.values() if one is not body),
        )
        for name, body in statements.items()
    ]
    found = judge(findings, Given(**values).result)["x"]
    assert (found.alone.holds_in, found.holds_in) == (2, 1)
    assert [part.p_for_holm for part in found.counted] == pytest.approx([0.024, 0.1])
    assert sum(multipletests([p for p, _ in values.values()], 0.05, "holm")[0][:2]) == 1
