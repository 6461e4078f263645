"""The smallest toy study from text to tables, killed and repaired; on Slurm see `tests/workflow/slurm`."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from common.provenance import ROOT
from tests.commands import python
from tests.workflow import smallest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]

WORDS = ("-m", "clm_or_mlm", *smallest.WORDS, "--dir")
ENVIRON = {"OMP_NUM_THREADS": "1"}


def _runs(folder: Path) -> dict[str, int]:
    return {
        str(path.relative_to(folder)): path.stat().st_mtime_ns
        for path in folder.glob("results/*/*/*/*/results.json")
    }


def test_killed_in_the_middle_it_is_finished_by_the_same_call(
    tmp_path: Path,
) -> None:
    """In the end everything is there; a call more does nothing; a deleted run comes back and no other is touched."""
    words = (*WORDS, tmp_path)
    process = subprocess.Popen(
        [sys.executable, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=os.environ | ENVIRON, cwd=ROOT, start_new_session=True,
    )  # fmt: skip
    limit = time.monotonic() + 600
    while not list(tmp_path.glob("pretraining/stages/*/step-*/state.json")):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < limit
        time.sleep(0.2)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    python(*words, code=0, **ENVIRON)
    runs = _runs(tmp_path)
    assert len(runs) == 2 * 4 * 2 * 2
    made = tmp_path / "analysis" / "all"
    for name in ("scores.csv", "claims.md", "figures/figure3.pdf", "runs.parquet"):
        assert (made / name).is_file(), name
    # Two of the paper's places hold this study's models, and say so.
    table = (made / "tables" / "table10.md").read_text()
    assert "TINY STUDY" in table
    assert table.count("n=2") == 4
    assert "TINY STUDY" in (made / "figures" / "figure3.txt").read_text()
    again = python(*words, code=0, **ENVIRON)
    assert "all done" in again.stdout and "1 of " not in again.stderr
    assert _runs(tmp_path) == runs
    lost = sorted(runs)[3]
    shutil.rmtree((tmp_path / lost).parent)
    python(*words, code=0, **ENVIRON)
    after = _runs(tmp_path)
    assert {name for name in runs if after[name] != runs[name]} == {lost}
