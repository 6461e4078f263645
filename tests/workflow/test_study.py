"""The tiny study from text to tables, killed and repaired; on Slurm, and in the image, where these are at hand."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from common.provenance import ROOT
from workflow.tiny import MODELS

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
    for name in ("study.png", "study.md", "scores.csv", "claims.md", "figures/figure3.pdf", "runs.parquet"):
        assert (made / name).is_file(), name
    # Two of the paper's places hold this study's models, and say so.
    table = (made / "tables" / "table10.md").read_text()
    assert "TINY STUDY" in table
    assert table.count("n=2") == 4
    assert "TINY STUDY" in (made / "figures" / "figure3.txt").read_text()
    assert all(name in (made / "study.md").read_text() for name in MODELS)
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
    while not list(tmp_path.glob("pretraining/trajectories/*/step-*/state.json")):
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


@pytest.mark.slurm
@pytest.mark.skipif(not _slurm(), reason="no Slurm answers here")
def test_on_slurm_with_a_job_cancelled(tmp_path: Path) -> None:
    image = ROOT / "build" / "full.sif"
    words = ["--profile", "slurm", *(["--image", str(image)] if image.is_file() else [])]
    process = _start(tmp_path, *words)
    cancelled = False
    while process.poll() is None and not cancelled:
        answer = subprocess.run(
            ["squeue", "--me", "-h", "-t", "R", "-o", "%A %k"], capture_output=True, text=True
        )
        for line in answer.stdout.splitlines():
            if "rule_trajectory" in line:
                subprocess.run(["scancel", line.split()[0]], check=True)
                cancelled = True
        time.sleep(0.5)
    text, _ = process.communicate()
    assert process.returncode == 0, text[-6000:]
    assert cancelled
    _check_repairs(tmp_path, *words)
