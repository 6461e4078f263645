"""`clm-or-mlm workflow`: what its command understands."""

from pathlib import Path
from typing import Any

import pytest

from clm_or_mlm.__main__ import main
from tests.workflow import smallest
from workflow import commands
from workflow.slurm_submit import Submission


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the command would run."""
    found: list[dict[str, Any]] = []

    def fake(workflow: object, folder: Path, **options: object) -> bool | Submission:
        found.append({"workflow": workflow, "folder": folder, **options})
        if options["profile"] == "slurm":
            return Submission(numbers={"done/a": "7"}, left=["done/b", "done/c"])
        return len(found) < 2

    monkeypatch.setattr(commands, "run_workflow", fake)
    return found


def test_work_that_is_left_is_exit_code_3(
    calls: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*smallest.WORDS, "--dir", str(tmp_path), "--retry-failed"]) == 0
    assert main([*smallest.WORDS, "--dir", str(tmp_path)]) == 3
    assert [call["retry_failed"] for call in calls] == [True, False]
    assert (calls[0]["folder"], calls[0]["profile"], calls[0]["dry_run"]) == (
        tmp_path,
        "local",
        False,
    )
    assert {job.name for job in calls[0]["workflow"].of_kind("model")} == set(
        smallest.MODELS
    )
    assert "some jobs are not done; logs are in" in capsys.readouterr().err


def test_what_was_submitted_is_said(
    calls: list[dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(commands, "examine", lambda _: [])
    assert main([*smallest.WORDS, "--dir", str(tmp_path), "--profile", "slurm"]) == 0
    said = capsys.readouterr().out
    assert "1 jobs submitted, 2 wait for a place in Slurm's queue" in said
    assert f"clm-or-mlm cancel --dir {tmp_path}" in said
