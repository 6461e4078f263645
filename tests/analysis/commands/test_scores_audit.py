"""`clm-or-mlm audit`: its exit status and what it writes."""

import json
from pathlib import Path

import pytest

from analysis.store.runs_table import write_runs
from clm_or_mlm.__main__ import main
from common.errors import UserError
from tests.analysis.made_up import random_runs
from tests.analysis.stores import RELEASED


def test_exit_status_says_whether_anything_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit"]) == 0
    assert main(["audit", "--source", str(RELEASED)]) == 0
    write_runs(tmp_path / "runs.parquet", random_runs())
    capsys.readouterr()
    assert (
        main(["audit", "--source", str(tmp_path / "runs.parquet"), "--format", "json"])
        == 1
    )
    assert json.loads(capsys.readouterr().out)["source"] == str(
        tmp_path / "runs.parquet"
    )


def test_the_runs_of_a_small_study_are_listed_as_text_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "runs.txt"
    assert main(["audit", "--source", "miniature", "--out", str(out)]) == 0
    assert (
        capsys.readouterr().out == ""
        and "not compared with the paper's" in out.read_text()
    )
    with pytest.raises(UserError, match=r"miniature: .* leave --format out"):
        main(
            [
                "audit",
                "--source",
                "miniature",
                "--format",
                "json",
                "--out",
                str(tmp_path / "runs.json"),
            ]
        )
