"""Which grade goes before which, and the grade of each of the 19 claims from the published cells."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.claims.verdicts import ALPHA, GRADES, Tally, grade_of
from common.provenance import ROOT

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


def test_the_page_has_the_grades_in_the_order_in_which_they_are_tried() -> None:
    page = (ROOT / "docs" / "claims.md").read_text("utf-8")
    order = [name for name in re.findall(r"^\d\. \*\*([a-z ]+)\*\*", page, re.MULTILINE) if name in GRADES]
    assert order == list(GRADES)


def test_no_claim_whose_deciding_interval_is_outside_its_region_is_undecided(verdicts) -> None:
    for verdict in verdicts.values():
        if verdict.verdict == "undecided":
            assert not verdict.decisive.outside and not verdict.tree.decides_against.outside


weighed = st.builds(
    Tally,
    p_for=st.floats(0, 1), p_for_adjusted=st.floats(0, 1), p_against=st.floats(0, 1),
    p_against_adjusted=st.floats(0, 1), hold=st.integers(0, 3), fail=st.integers(0, 3), outside=st.booleans(),
    known=st.booleans(),
)  # fmt: skip


@given(weighed)
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
