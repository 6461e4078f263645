"""The frame of findings: its rows agree with each other, and no reader looks at the trees behind it."""

import ast

import pandas as pd
import pytest

from analysis.claims.assessment import Assessment
from analysis.claims.catalogue import STATEMENTS
from analysis.claims.frame import (
    ROLES,
    FindingRow,
    comparisons_of,
    frame_of,
    known_of,
    main_of,
    mean_of,
    rows,
)
from analysis.claims.statements import comparisons
from common.provenance import ROOT


def test_rows_and_frame_are_the_same(assessment: Assessment) -> None:
    frame = assessment.frame
    assert tuple(frame.columns) == FindingRow._fields and set(frame["role"]) == set(
        ROLES
    )
    pd.testing.assert_frame_equal(frame_of(rows(frame)), frame)
    assert frame_of([]).dtypes.equals(frame.dtypes)


@pytest.mark.parametrize("by_dataset", [False, True])
def test_what_is_counted_is_what_the_findings_count(
    assessment: Assessment, by_dataset: bool
) -> None:
    frame = assessment.frame_by_dataset if by_dataset else assessment.frame
    assert list(dict.fromkeys(frame["id"])) == list(STATEMENTS)
    for _, found in frame.groupby("id"):
        main, counted = main_of(found), list(found["counted"])
        assert (counted.count("holds"), counted.count("fails")) == (
            main.holds_in,
            main.fails_in,
        )
        assert len(counted) - counted.count("") == main.parts
        assert found["decisive"].sum() == 1 and (mean_of(found) is not None) <= (
            len(known_of(found)) > 1
        )


def test_comparisons_stand_in_the_order_of_the_finding_with_sides_and_place(
    assessment: Assessment,
) -> None:
    for name, finding in STATEMENTS.items():
        found = comparisons_of(assessment.frame[assessment.frame["id"] == name])
        assert list(found["comparison"]) == list(comparisons(finding.body))
    f8 = assessment.frame[assessment.frame["id"] == "F8"]
    first = rows(comparisons_of(f8))[0]
    assert (first.first, first.second) == ("610m-clm-3k-mlm40-12k", "610m-mlm40-12k")
    assert (first.task, first.dataset, first.unit, first.claimed) == (
        "SC",
        "average",
        "points",
        "> 0",
    )


def test_no_reader_looks_at_the_trees() -> None:
    for folder in (
        "paper_figures",
        "clm_or_mlm",
        "analysis/claims/pages",
        "analysis/sensitivity",
    ):
        for path in (ROOT / folder).rglob("*.py"):
            imported = {
                alias.name
                for node in ast.walk(ast.parse(path.read_text("utf-8")))
                if isinstance(node, ast.ImportFrom)
                for alias in node.names
            }
            assert not imported & {"AtLeast", "Branch", "evaluate"}, path
