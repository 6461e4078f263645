"""`clm-or-mlm workflow`: what its command understands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clm_or_mlm.__main__ import main
from workflow import commands
from workflow.tiny import MODELS


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the command would run."""
    found: list[dict[str, Any]] = []

    def fake(workflow: object, folder: Path, **options: object) -> bool:
        found.append({"workflow": workflow, "folder": folder, **options})
        return len(found) < 2

    monkeypatch.setattr(commands, "run_workflow", fake)
    return found


def test_words_after_two_dashes_go_to_snakemake_as_they_are(
    calls: list[dict[str, Any]], tmp_path: Path
) -> None:
    words = ["--until", "shards", "--", "-h", "--dry-run"]
    assert main(["workflow", "tiny", "--dir", str(tmp_path), "--", *words]) == 0
    assert calls[0]["words"] == tuple(words)
    assert (calls[0]["folder"], calls[0]["profile"], calls[0]["dry_run"]) == (tmp_path, "local", False)
    assert {job.name for job in calls[0]["workflow"].of_kind("model")} == set(MODELS)


def test_work_that_is_left_is_exit_code_3(
    calls: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["workflow", "tiny", "--dir", str(tmp_path), "--retry-failed"]) == 0
    assert main(["workflow", "tiny", "--dir", str(tmp_path)]) == 3
    assert [call["retry_failed"] for call in calls] == [True, False]
    assert "some jobs are not done; logs are in" in capsys.readouterr().err


def test_a_study_in_the_background_is_called_with_the_options_that_were_given(
    calls: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workflow.engine.detach", lambda words, folder: found.append((words, folder)))
    found: list[tuple[list[str], Path]] = []
    options = ["--profile", "slurm", "--dir", str(tmp_path), "--settings", "s.toml", "--retry-failed"]
    assert main(["workflow", "figure3", "--detach", *options, "--", "--until", "shards"]) == 0
    assert found == [(["figure3", *options, "--", "--until", "shards"], tmp_path)]
    assert calls == []
