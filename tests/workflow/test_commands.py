"""`clm-or-mlm workflow`: what its command understands."""

import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from clm_or_mlm.__main__ import main
from common.errors import UserError
from tests.commands import program
from tests.workflow import smallest
from workflow import commands


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
    assert main([*smallest.WORDS, "--dir", str(tmp_path), "--", *words]) == 0
    assert calls[0]["words"] == tuple(words)
    assert (calls[0]["folder"], calls[0]["profile"], calls[0]["dry_run"]) == (
        tmp_path,
        "local",
        False,
    )
    assert {job.name for job in calls[0]["workflow"].of_kind("model")} == set(
        smallest.MODELS
    )


def test_work_that_is_left_is_exit_code_3(
    calls: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*smallest.WORDS, "--dir", str(tmp_path), "--retry-failed"]) == 0
    assert main([*smallest.WORDS, "--dir", str(tmp_path)]) == 3
    assert [call["retry_failed"] for call in calls] == [True, False]
    assert "some jobs are not done; logs are in" in capsys.readouterr().err


def test_a_slurm_job_of_one_core_runs_the_study_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    queue, bin_ = tmp_path / "queue", tmp_path / "bin"
    program(
        bin_ / "sbatch",
        f'case "$*" in *test-only*) ;; *) echo "$@" > {queue}; cat > {queue}.sh; echo 77;; esac',
    )
    program(
        bin_ / "squeue",
        f'case "$*" in *--name=controller*) [ ! -e {queue} ] || echo 77 PENDING;; esac',
    )
    program(bin_ / "sinfo", "")
    program(bin_ / "scancel", f'echo "$@" > {queue}.ended')
    monkeypatch.setenv("PATH", f"{bin_}:{os.environ['PATH']}")
    # Which Slurm would take for the job's number
    site, folder = (tmp_path / "site.toml", tmp_path / "50%j")
    site.write_text('[jobs.cpu]\npartition = "long"\nhours = 5\n')
    words = [
        "workflow",
        "all",
        "--profile",
        "slurm",
        "--dir",
        str(folder),
        "--settings",
        str(smallest.SETTINGS),
    ]
    words += ["--site", str(site), "--retry-failed"]
    assert main([*words, "--detach", "--", "--until", "shards"]) == 0
    assert "Slurm job 77 runs the study" in capsys.readouterr().out
    asked, script = queue.read_text(), Path(f"{queue}.sh").read_text()
    for word in (
        "/50%%j/controller.log",
        "--requeue",
        "--signal=B:USR1@600",
        "-p long -t 300",
        "--nodes=1",
        "--cpus-per-task=1",
    ):
        assert word in asked
    assert (
        shlex.join([*words[1:], "--", "--until", "shards"]) in script
        and "--detach" not in script
    )
    subprocess.run(["bash", "-n", f"{queue}.sh"], check=True)
    with pytest.raises(UserError, match="Slurm job 77"):
        main([*words, "--detach"])
    main(["cancel", "--dir", str(folder)])
    assert Path(f"{queue}.ended").read_text() == "77\n"
