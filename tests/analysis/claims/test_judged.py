"""Judged findings and their frame: what is counted, marked and printed of one agrees."""

import pytest

from analysis.claims.assessment import Assessment
from analysis.claims.catalogue import STATEMENTS
from analysis.claims.pages.finding_records import parts_frame
from analysis.claims.statements import comparisons


@pytest.mark.parametrize("by_dataset", [False, True])
def test_parts_marks_and_frame_count_alike(
    assessment: Assessment, by_dataset: bool
) -> None:
    judged = assessment.judged_by_dataset if by_dataset else assessment.judged
    assert list(judged) == list(STATEMENTS)
    for one in judged.values():
        counts = [one.holds_in, one.fails_in]
        counted = [part.counted for part in one.counted]
        marks = list(one.marks.values())
        column = list(parts_frame(one)["counted"])
        for where in (counted, marks, column):
            assert [where.count("holds"), where.count("fails")] == counts
        assert len(marks) == len(one.comparisons)
        assert len(column) - column.count("") == one.known
        assert one.decisive in one.comparisons


def test_a_mean_needs_two_known_comparisons(assessment: Assessment) -> None:
    for one in assessment.judged.values():
        assert one.mean is None or len(one.known_comparisons) > 1


def test_frame_has_comparisons_in_the_order_of_the_finding(
    assessment: Assessment,
) -> None:
    for name, finding in STATEMENTS.items():
        asked = [result.comparison for result in assessment.judged[name].comparisons]
        assert asked == list(comparisons(finding.body))
    frame = parts_frame(assessment.judged["F8"])
    first = frame[(frame["role"] == "verdict") & (frame["claimed"] != "")].iloc[0]
    sides = ("610m-clm-3k-mlm40-12k", "610m-mlm40-12k")
    assert (first["first"], first["second"]) == sides
    place = tuple(first[["task", "dataset", "unit", "claimed"]])
    assert place == ("SC", "average", "points", "> 0")
