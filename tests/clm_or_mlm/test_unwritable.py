"""A user who may read the package and the runs, but write to neither: an error names the place, and a cache helps."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from common.provenance import ROOT
from tests.messages import check

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None,
    reason="needs root, to give up its rights over other users' files, and setpriv",
)

NOBODY = 65534


def call(
    *words: str, cwd: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command without root's rights over files."""
    return subprocess.run(
        [
            "setpriv",
            "--bounding-set=-all",
            "--inh-caps=-all",
            sys.executable,
            "-m",
            "clm_or_mlm",
            *words,
        ],
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **environment},
        text=True,
        capture_output=True,
        check=False,
    )


@pytest.fixture
def theirs(store: Path, tmp_path: Path) -> Path:
    """A folder with a run store and a home, all of another user."""
    shutil.move(store, tmp_path / "theirs" / "store")
    (tmp_path / "theirs" / "home").mkdir()
    for path in (tmp_path / "theirs", *(tmp_path / "theirs").rglob("*")):
        os.chown(path, NOBODY, NOBODY)
        path.chmod(0o755 if path.is_dir() else 0o644)
    return tmp_path / "theirs"


def test_read_only_stores_instances_are_in_a_cache(
    theirs: Path, tmp_path: Path
) -> None:
    words = (
        "scores",
        "--source",
        "store",
        "--dataset",
        "sst2",
        "--interval",
        "crossed",
    )
    refused = call(*words, cwd=theirs, HOME=str(theirs / "home"))
    assert refused.returncode == 2
    assert (
        "cannot write to the cache (Permission denied); set CLM_OR_MLM_CACHE"
        in refused.stderr
    )
    assert len(refused.stderr.splitlines()) == 1
    cache = tmp_path / "cache"
    read = call(
        *words, cwd=theirs, HOME=str(theirs / "home"), CLM_OR_MLM_CACHE=str(cache)
    )
    assert read.returncode == 0, read.stderr
    assert len(read.stdout.splitlines()) == 3
    assert {path.name for path in theirs.iterdir()} == {"store", "home"}
    assert list((theirs / "home").iterdir()) == [] and cache.is_dir()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("scores", "--out", "scores.csv"), "--out scores.csv"),
        pytest.param(
            ("figure", "3", "--format", "svg"), "build: ", marks=pytest.mark.slow
        ),
        pytest.param(
            ("ingest", "store", "--out", "runs.parquet"),
            "--out runs.parquet",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_an_output_one_may_not_write_is_named(
    theirs: Path, words: tuple[str, ...], named: str
) -> None:
    answer = call(*words, cwd=theirs, HOME=str(theirs / "home"))
    assert answer.returncode == 2
    check(
        answer.stderr.removesuffix("\n"),
        f"error: {named}",
        "Permission denied",
        "; ",
        "choose another",
    )
    assert {path.name for path in theirs.iterdir()} == {"store", "home"}
