"""`python -m analysis audit`: its exit status and what it writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.store.runs_table import write_runs
from tests.analysis.made_up import random_runs
from tests.analysis.stores import RELEASED


def test_exit_status_says_whether_anything_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit"]) == 0
    assert main(["audit", "--source", str(RELEASED)]) == 0
    write_runs(tmp_path / "runs.parquet", random_runs())
    capsys.readouterr()
    assert main(["audit", "--source", str(tmp_path / "runs.parquet"), "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["source"] == str(tmp_path / "runs.parquet")
