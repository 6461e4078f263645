"""Killed at random moments across all stages, a miniature ends in the same bytes, and no run is done twice."""

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
from miniature.data import MADE_UP
from miniature.toy_study import PRETRAINED, STORE, Miniature
from pretraining.training.log import LOG, MEASURED, read_log
from tests.miniature.tiny import TINY

KILLS = 10


def _start(out: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.miniature.tiny", str(out)], cwd=ROOT, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def _ended(root: Path) -> dict[Path, int]:
    """Return when each finished run was written."""
    found = (root / STORE).glob("results/**/results.json")
    return {path.relative_to(root): path.stat().st_mtime_ns for path in found}


def _bytes(root: Path) -> dict[str, str]:
    paths = [
        *(root / STORE).glob("results/**/results.json"),
        *(root / PRETRAINED).glob("models/*/model.safetensors"),
    ]
    return {str(path.relative_to(root)): sha256_file(path) for path in sorted(paths)}


def _curves(root: Path) -> dict[str, list[dict[str, object]]]:
    logs = (root / PRETRAINED).glob(f"models/*/{LOG}")
    return {
        log.parent.name: [{k: v for k, v in row.items() if k not in MEASURED} for row in read_log(log)]
        for log in logs
    }


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_ten_kills_change_nothing(tmp_path: Path) -> None:
    whole, killed = (Miniature.below(tmp_path / name, TINY, MADE_UP).root for name in ("whole", "killed"))
    start = time.monotonic()
    assert _start(tmp_path / "whole").wait() == 0
    took = time.monotonic() - start
    rng = np.random.default_rng(7)
    kept: dict[Path, int] = {}
    reached = []
    for _ in range(KILLS):
        process = _start(tmp_path / "killed")
        # Later starts are at later stages, so that the moments spread over all of them.
        time.sleep(float(rng.uniform(0.15, 0.45)) * took)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        now = _ended(killed)
        assert now.items() >= kept.items(), "a finished run was lost or written again"
        kept = now
        reached.append(len(now))
    assert _start(tmp_path / "killed").wait() == 0
    now = _ended(killed)
    assert now.items() >= kept.items(), "a finished run was done twice"
    assert len(now) == len(TINY.tuned) * 4 * len(TINY.seeds) == 32
    assert reached[0] < 32, "the first kill came after the end"
    assert _bytes(killed) == _bytes(whole)
    assert _curves(killed) == _curves(whole)
