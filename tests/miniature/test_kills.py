"""Killed at random moments across all its steps, a study ends in the same bytes, and no run is done twice."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from common.files import sha256_file
from common.provenance import ROOT
from pretraining.training.log import LOG, MEASURED, read_log
from tests.workflow import smallest
from tests.workflow.engine.test_engine import _works_in

KILLS = 6
RUNS = len(smallest.MODELS) * len(smallest.DATASETS) * 4
"""Two rates by two seeds."""


def _start(folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "clm_or_mlm", *smallest.WORDS, "--dir", str(folder)],
        cwd=ROOT,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def _ended(folder: Path) -> dict[Path, int]:
    """Return when each finished run was written."""
    found = folder.glob("results/**/results.json")
    return {path.relative_to(folder): path.stat().st_mtime_ns for path in found}


def _bytes(folder: Path) -> dict[str, str]:
    patterns = (
        "results/**/results.json",
        "pretraining/models/*/model.safetensors",
        "analysis/all/scores.csv",
    )
    paths = sorted(path for pattern in patterns for path in folder.glob(pattern))
    return {str(path.relative_to(folder)): sha256_file(path) for path in paths}


def _curves(folder: Path) -> dict[str, list[dict[str, object]]]:
    return {
        log.parent.name: [
            {k: v for k, v in row.items() if k not in MEASURED} for row in read_log(log)
        ]
        for log in folder.glob(f"pretraining/models/*/{LOG}")
    }


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_kills_change_nothing(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    start = time.monotonic()
    assert _start(whole).wait() == 0
    took = time.monotonic() - start
    rng = np.random.default_rng(7)
    kept: dict[Path, int] = {}
    reached = []
    for _ in range(KILLS):
        process = _start(killed)
        # Later starts are at later stages, so that the moments spread over all of them.
        time.sleep(float(rng.uniform(0.15, 0.45)) * took)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        while _works_in(killed):
            time.sleep(0.1)
        now = _ended(killed)
        assert now.items() >= kept.items(), "a finished run was lost or written again"
        kept = now
        reached.append(len(now))
    assert _start(killed).wait() == 0
    now = _ended(killed)
    assert now.items() >= kept.items(), "a finished run was done twice"
    assert len(now) == RUNS
    assert reached[0] < RUNS, "the first kill came after the end"
    assert _bytes(killed) == _bytes(whole)
    assert _curves(killed) == _curves(whole)
