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
from tests.miniature.tiny import TINY, small_curves


def _start(out: Path, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.miniature.tiny", str(out), *words], cwd=ROOT, start_new_session=True,
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
@pytest.mark.parametrize(("words", "kills"), [((), 10), (("curves",), 3)], ids=["tiny", "curves"])
def test_kills_change_nothing(words: tuple[str, ...], kills: int, tmp_path: Path) -> None:
    form = small_curves(tmp_path) if words else TINY
    whole, killed = (Miniature.below(tmp_path / name, form, MADE_UP).root for name in ("whole", "killed"))
    start = time.monotonic()
    assert _start(tmp_path / "whole", *words).wait() == 0
    took = time.monotonic() - start
    rng = np.random.default_rng(7)
    kept: dict[Path, int] = {}
    reached = []
    for _ in range(kills):
        process = _start(tmp_path / "killed", *words)
        # Later starts are at later stages, so that the moments spread over all of them.
        time.sleep(float(rng.uniform(0.15, 0.45)) * took)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        now = _ended(killed)
        assert now.items() >= kept.items(), "a finished run was lost or written again"
        kept = now
        reached.append(len(now))
    assert _start(tmp_path / "killed", *words).wait() == 0
    now = _ended(killed)
    assert now.items() >= kept.items(), "a finished run was done twice"
    assert len(now) == form.fine_tunings
    assert reached[0] < form.fine_tunings, "the first kill came after the end"
    assert _bytes(killed) == _bytes(whole)
    assert _curves(killed) == _curves(whole)
