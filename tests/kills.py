"""Commands killed at random moments: the next call ends with the bytes of one that was left alone, nothing more."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from common.provenance import ROOT

KILLS = 10
_OF_A_CALL = ("provenance.json", "run.json", ".ingest.json", ".lock")
"""How files end that say when and how a call was made, or which times an ingest remembers."""


def _call(
    words: Sequence[str], folder: Path, **environment: str
) -> subprocess.Popen[bytes]:
    folder.mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, *words],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env=os.environ
        | {"PYTHONPATH": str(ROOT), "CLM_OR_MLM_CACHE": str(folder.parent / "cache")}
        | environment,
    )


def finished(words: Sequence[str], folder: Path, **environment: str) -> None:
    """Run Python with these words in a folder of its own, to its end."""
    process = _call(words, folder, **environment)
    _, said = process.communicate(timeout=900)
    assert process.returncode in (0, 1), said.decode()


def tree(folder: Path, aside: Sequence[str] = ()) -> dict[str, bytes]:
    """Return all files but those of a call and those below the folders `aside`."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and not path.name.endswith(_OF_A_CALL)
        and path.name != "lock"
        and path.relative_to(folder).parts[0] not in aside
    }


def survives(
    words: Sequence[str],
    tmp_path: Path,
    *,
    aside: Sequence[str] = (),
    settled: Callable[[Path], None] = lambda folder: None,
    **environment: str,
) -> None:
    """Do a call once whole, then killed ten times and once whole elsewhere, and compare.

    Args:
        words: what comes after `python`.
        tmp_path: for both folders; the call works in its current folder.
        aside: folders in it with what may differ, such as logs.
        settled: waits after a kill for what it leaves to end by itself.
        environment: variables of the call.
    """
    began = time.monotonic()
    finished(words, tmp_path / "clean", **environment)
    lasts = time.monotonic() - began
    draw, killed = random.Random(7), 0
    for _ in range(4 * KILLS):
        process = _call(words, tmp_path / "killed", **environment)
        try:
            process.wait(draw.uniform(0.1, 0.9) * lasts)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            killed += 1
        process.communicate()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        settled(tmp_path / "killed")
        if killed == KILLS:
            break
        # The whole call ended before its time came: the next one begins with nothing
        if process.returncode == 0:
            (tmp_path / "killed").rename(tmp_path / f"ended-{time.monotonic_ns()}")
    assert killed == KILLS
    finished(words, tmp_path / "killed", **environment)
    clean, after = tree(tmp_path / "clean", aside), tree(tmp_path / "killed", aside)
    only_one_has = set(after) ^ set(clean)
    assert not only_one_has, only_one_has
    differ = [name for name in clean if clean[name] != after[name]]
    assert not differ, differ
