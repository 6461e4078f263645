"""The tiny study from text to tables, killed and repaired; on Slurm, and in the image, where these are at hand."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from common.provenance import ROOT
from workflow.tiny import MODELS, write_tiny_study

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]

ENVIRON = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def _start(folder: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "workflow", "tiny", "--dir", str(folder), *words]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=ENVIRON,
        start_new_session=True,
    )


def _finish(folder: Path, *words: str) -> str:
    process = _start(folder, *words)
    text, _ = process.communicate()
    assert process.returncode == 0, text[-6000:]
    return text


def _runs(folder: Path) -> dict[str, int]:
    return {
        str(path.relative_to(folder)): path.stat().st_mtime_ns
        for path in folder.glob("results/*/*/*/*/results.json")
    }


def _check_repairs(folder: Path, *words: str) -> None:
    """Everything is there; a second call does nothing; a deleted run comes back and no other is touched."""
    runs = _runs(folder)
    assert len(runs) == 2 * 4 * 2 * 2
    made = folder / "analysis" / "all"
    for name in ("scores.csv", "claims.md", "figures/figure3.pdf", "runs.parquet"):
        assert (made / name).is_file(), name
    # Two of the paper's places hold this study's models, and say so.
    table = (made / "tables" / "table10.md").read_text()
    assert "TINY STUDY" in table
    assert table.count("n=2") == 4
    assert "TINY STUDY" in (made / "figures" / "figure3.txt").read_text()
    assert "Nothing to be done" in _finish(folder, *words)
    assert _runs(folder) == runs
    lost = sorted(runs)[3]
    shutil.rmtree((folder / lost).parent)
    _finish(folder, *words)
    again = _runs(folder)
    assert {name for name in runs if again[name] != runs[name]} == {lost}


def test_on_this_machine_killed_in_the_middle(tmp_path: Path) -> None:
    process = _start(tmp_path)
    limit = time.monotonic() + 600
    while not list(tmp_path.glob("pretraining/stages/*/step-*/state.json")):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < limit
        time.sleep(0.2)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    _finish(tmp_path)
    _check_repairs(tmp_path)


def _slurm() -> bool:
    return (
        bool(shutil.which("sinfo")) and subprocess.run(["sinfo", "-h"], capture_output=True).returncode == 0
    )


def _image() -> list[str]:
    """Return the options that make jobs run in the full image, where it was built."""
    image = ROOT / "build" / "full.sif"
    return ["--image", str(image)] if image.is_file() else []


def _running(*rules: str) -> list[str]:
    """Return the ids of this user's running jobs of some rules."""
    command = ["squeue", "--me", "-h", "-t", "R", "-o", "%i %k"]
    rows = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    return [row.split()[0] for row in rows if any(f"rule_{rule}" in row for rule in rules)]


def _wait_for(process: subprocess.Popen[str], *rules: str) -> str:
    """Return the id of the first job of these rules that runs."""
    while True:
        if found := _running(*rules):
            return found[0]
        assert process.poll() is None, process.communicate()[0][-6000:]
        time.sleep(0.3)


def _kill(process: subprocess.Popen[str]) -> None:
    """Kill a call as `kill -9` of it and of what it started does; its Slurm jobs keep running."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


@pytest.mark.slurm
@pytest.mark.skipif(not _slurm(), reason="no Slurm answers here")
def test_on_slurm_killed_and_with_jobs_cancelled(tmp_path: Path) -> None:
    words = ["--profile", "slurm", *_image()]
    first = _start(tmp_path, *words)
    _wait_for(first, "stage")
    _kill(first)
    second = _start(tmp_path, *words)
    subprocess.run(["scancel", _wait_for(second, "cell")], check=True)
    text, _ = second.communicate()
    # Where Slurm's accounting says so, what somebody cancelled is left to the next call.
    assert second.returncode in (0, 3), text[-6000:]
    _finish(tmp_path, *words)
    _check_repairs(tmp_path, *words)


@pytest.mark.slurm
@pytest.mark.skipif(not _slurm(), reason="no Slurm answers here")
def test_a_stage_that_meets_slurms_time_limit_goes_on_in_the_next_job(tmp_path: Path) -> None:
    write_tiny_study(tmp_path)
    study = (tmp_path / "study.toml").read_text()
    # More steps than any machine does in six minutes, with checkpoints only where Slurm's warning asks for one.
    longer = study.replace(str(list(MODELS)), '["tiny-t-mlm40-100000"]').replace(
        "save_every = 5", "save_every = 100000"
    )
    (tmp_path / "study.toml").write_text(longer.replace("eval_every = 20", "eval_every = 100000"))
    settings = (tmp_path / "workflow.toml").read_text()
    (tmp_path / "limit.toml").write_text(settings.replace("limit_hours = 0.25", "limit_hours = 0.05"))
    command = [
        sys.executable,
        "-m",
        "workflow",
        "all",
        "--profile",
        "slurm",
        "--dir",
        str(tmp_path / "study"),
    ]
    command += ["--settings", str(tmp_path / "limit.toml"), *_image(), "--", "--until", "stage"]
    command += ["--slurm-init-seconds-before-status-checks", "5", "--seconds-between-status-checks", "5"]
    log = tmp_path / "study/logs/stage/tiny-t-mlm40.log"
    with (tmp_path / "out").open("w") as sink:
        process = subprocess.Popen(command, stdout=sink, stderr=sink, env=ENVIRON, start_new_session=True)
    try:
        while len(saved := _steps(log, r"asked to stop; saved at step (\d+)")) < 2:
            assert process.poll() is None, (tmp_path / "out").read_text()[-6000:]
            time.sleep(0.5)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        subprocess.run(["scancel", *_running("stage")], stderr=subprocess.DEVNULL)
    # Every job resumes where the one before it stopped, and Slurm reported when.
    started = _steps(log, r"tiny-t-mlm40: step (\d+) to")
    assert started[:2] == [0, saved[0]]
    assert 0 < saved[0] < saved[1]
    reports = "\n".join(path.read_text() for path in tmp_path.glob("study/logs/slurm/rule_stage/*/*.log"))
    who = "by the clock" if _image() else "the scheduler says so by SIGUSR1"
    assert f"the time limit is near ({who})" in reports


def _steps(log: Path, pattern: str) -> list[int]:
    return [int(step) for step in re.findall(pattern, log.read_text())] if log.is_file() else []
