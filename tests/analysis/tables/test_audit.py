"""The audit's statuses, its summary and exit status, and the paper's arithmetic."""

import json
from dataclasses import replace

import pytest

from analysis.sources import open_source
from analysis.tables.audit import Audit, audit, audit_document
from analysis.tables.paper_arithmetic import Reference
from common.tables import show
from tests.analysis.stores import released_source


def cell_of(
    found, dataset: str = "sst2", table: int = 2, model: str = "610m-mlm40-42k"
):
    [cell] = [
        c
        for c in found.cells
        if (c.table, c.model, c.dataset) == (table, model, dataset)
    ]
    return cell


def test_released_runs_are_exact() -> None:
    cell = cell_of(audit(released_source()))
    assert (cell.status, cell.agreement, cell.n_runs) == ("exact", "exact", 30)


def test_small_shifts_are_within_the_interval_large_ones_differ() -> None:
    assert cell_of(audit(released_source(-0.005))).status == "within interval"
    found = audit(released_source(-0.02))
    assert cell_of(found).status == "differs"
    assert cell_of(found).difference == pytest.approx(-2.0, abs=0.005)
    assert found.differs


def test_the_authors_own_files_are_exact_or_differ() -> None:
    def status(shift: float, label: str) -> str:
        return cell_of(audit(replace(released_source(shift), label=label))).status

    assert status(-0.001, "mine") == "within interval"
    assert status(-0.001, "released") == "differs"
    assert status(0.0, "released") == "exact"


def test_missing_runs_are_counted_and_still_compared() -> None:
    cell = cell_of(audit(released_source(keep=29)))
    assert cell.status == "incomplete: 29 of 30"
    assert cell.agreement == "exact"
    average = cell_of(audit(released_source()), "average")
    assert (average.status, average.mean) == ("incomplete: 30 of 90", None)


def test_published_source_has_no_runs_anywhere() -> None:
    found = audit(open_source("published"))
    assert {cell.status for cell in found.cells} == {"no runs"}
    assert len(found.cells) == 800
    assert not found.differs


def test_summary_counts_every_cell_once() -> None:
    rows = audit(released_source(keep=29)).summary()
    assert [row["table"] for row in rows] == [*range(2, 18), "all", "distinct"]
    for row in rows:
        kinds = ("exact", "within interval", "differs", "incomplete", "no runs")
        assert sum(row[kind] for kind in kinds) == row["cells"]
    assert rows[-2]["cells"] == 800
    assert rows[-2]["incomplete_but_exact"] == 3


def test_repeats_are_counted_once() -> None:
    found = audit(released_source())
    assert found.summary()[-1]["cells"] == len(found.distinct) == 736
    # SST-2 of the 42K model stands in Tables 2, 10 and 14
    assert found.summary()[-2]["exact"] == 3
    assert found.summary()[-1]["exact"] == 1
    keys = [(cell.model, cell.task, cell.dataset) for cell in found.distinct]
    assert set(keys) == {(cell.model, cell.task, cell.dataset) for cell in found.cells}


def page(form: str, found: Audit) -> str:
    return show(audit_document(found), form)


def test_json_has_the_documented_form() -> None:
    content = json.loads(page("json", audit(released_source())))
    assert {"cells", "arithmetic", "summary"} <= set(content)
    assert (
        content["summary"]["all"]["cells"] == 800
        and content["summary"]["2"]["cells"] == 60
    )
    assert {"table", "model", "task", "dataset", "status"} <= set(content["cells"][0])


def test_the_page_names_source_and_cells() -> None:
    found = audit(released_source(-0.02))
    text = page("markdown", found)
    assert "(source: test)" in text and "610m-mlm40-42k" in text and "differs" in text
    assert "Its cells with runs" in text
    assert "Its cells with runs" not in page(
        "markdown", audit(open_source("published"))
    )


def test_without_runs_no_count_is_printed_and_zero_has_no_sign() -> None:
    text = page("markdown", audit(open_source("published")))
    assert "cells by table" not in text and "0 differs" not in text
    assert "has no runs" in text
    assert "-0.00" not in page("markdown", audit(released_source(-0.00002)))
    released = page("markdown", audit(released_source()))
    assert (
        "prints 800 cells in Tables 2-17; 64 of them repeat a cell of Tables 2-5"
        in released
    )
    assert "leaves 736 scores. Of these: 1 exact" in released


def test_the_statements_are_listed_by_what_they_are_held_against() -> None:
    text = page("markdown", audit(open_source("published")))
    lists = text.split("\n## ")[1:]
    assert [one.split("\n")[0] for one in lists] == [
        reference.heading for reference in Reference
    ]
    assert (
        "7 of 13 against the paper itself, 1 of 1 against its code, 1 of 1 against its release"
        in text
    )
    assert (
        "standard deviation of 0.02" in lists[1] and "1,017 runs are absent" in lists[2]
    )
