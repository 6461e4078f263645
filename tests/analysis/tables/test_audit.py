"""The audit's statuses, its summary and exit status, and the paper's arithmetic."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.__main__ import main
from analysis.sources import Source, open_source
from analysis.store.runs_table import write_runs
from analysis.tables.audit import audit
from analysis.tables.audit_report import audit_html, audit_json, audit_markdown
from analysis.tables.paper_arithmetic import check_arithmetic
from tests.analysis.made_up import random_runs
from tests.analysis.stores import RELEASED


def cell_of(found, dataset: str = "sst2", table: int = 2, model: str = "610m-mlm40-42k"):
    [cell] = [c for c in found.cells if (c.table, c.model, c.dataset) == (table, model, dataset)]
    return cell


def released_source(change: float = 0.0, keep: int = 30) -> Source:
    runs = open_source(str(RELEASED)).runs
    assert runs is not None
    runs = runs.assign(test_score=np.clip(runs["test_score"] + change, 0, 1)).iloc[:keep]
    return Source(label="test", runs=runs)


def test_released_runs_are_exact() -> None:
    cell = cell_of(audit(released_source()))
    assert (cell.status, cell.agreement, cell.n_runs) == ("exact", "exact", 30)


def test_a_small_shift_is_within_the_interval_and_a_large_one_differs() -> None:
    assert cell_of(audit(released_source(-0.005))).status == "within interval"
    found = audit(released_source(-0.02))
    assert cell_of(found).status == "differs"
    assert cell_of(found).difference == pytest.approx(-2.0, abs=0.005)
    assert found.differs


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
    assert [row["table"] for row in rows] == [*range(2, 18), "all"]
    for row in rows:
        kinds = ("exact", "within interval", "differs", "incomplete", "no runs")
        assert sum(row[kind] for kind in kinds) == row["cells"]
    assert rows[-1]["cells"] == 800
    assert rows[-1]["incomplete_but_exact"] == 3


def test_json_has_the_documented_form() -> None:
    content = json.loads(audit_json(audit(released_source())))
    assert {"cells", "arithmetic", "summary"} <= set(content)
    assert content["summary"]["all"]["cells"] == 800 and content["summary"]["2"]["cells"] == 60
    assert {"table", "model", "task", "dataset", "status"} <= set(content["cells"][0])


def test_pages_name_source_and_cells() -> None:
    found = audit(released_source(-0.02))
    for page in (audit_markdown(found), audit_html(found)):
        assert "test" in page
        assert "610m-mlm40-42k" in page
        assert "differs" in page
    assert "<h2>Cells with runs" not in audit_html(audit(open_source("published")))


def test_exit_status_says_whether_anything_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit"]) == 0
    assert main(["audit", "--source", str(RELEASED)]) == 0
    write_runs(tmp_path / "runs.parquet", random_runs())
    capsys.readouterr()
    assert main(["audit", "--source", str(tmp_path / "runs.parquet"), "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["source"] == str(tmp_path / "runs.parquet")


def test_arithmetic_finds_the_known_oddities() -> None:
    checks = {check.id: check for check in check_arithmetic()}
    differing = {name for name, check in checks.items() if check.status == "differs"}
    assert differing == {
        "tokens-per-step-table", "evaluation-runs", "models", "released-files", "two-stage-steps", "cpt-steps",
        "decay-share", "initial-weights", "table-reference",
    }  # fmt: skip
    assert checks["two-stage-steps"].recomputed == "130,000"
    assert "122,000" in checks["two-stage-steps"].note
    assert "15,000" in checks["evaluation-runs"].note
    assert checks["cpt-steps"].recomputed == "52,000"


def test_a_wrong_average_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from analysis.tables import paper_arithmetic

    cells = paper_arithmetic.published_cells()
    row = cells.index[(cells["dataset"] == "average")][3]
    changed: pd.DataFrame = cells.copy()
    changed.loc[row, "mean"] += 0.05
    monkeypatch.setattr(paper_arithmetic, "published_cells", lambda: changed)
    status = {check.id: check.status for check in check_arithmetic()}
    assert status["averages"] == "differs"
