"""The paper's own arithmetic."""

import pandas as pd
import pytest

from analysis.tables.paper_arithmetic import check_arithmetic


def test_arithmetic_finds_the_known_oddities() -> None:
    checks = {check.id: check for check in check_arithmetic()}
    differing = {name for name, check in checks.items() if check.status == "differs"}
    assert differing == {
        "tokens-per-step-table",
        "evaluation-runs",
        "models",
        "released-files",
        "two-stage-steps",
        "cpt-steps",
        "decay-share",
        "initial-weights",
        "table-reference",
    }
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
