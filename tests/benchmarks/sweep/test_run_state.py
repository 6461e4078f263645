"""Single runs in a store, and the locks of cells."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from benchmarks.runs import RUN, RunKey, record_of, write_results
from benchmarks.sweep.run_state import failure, folder_of, is_done, lock_path, measured, read_score, timings
from common.locks import is_locked, try_lock
from common.manifest import write_manifest
from common.provenance import ROOT

KEY = RunKey(model="m", dataset="sst2", lr=1e-4, seed=0)


def test_a_run_is_missing_failed_or_done(tmp_path: Path) -> None:
    assert not is_done(tmp_path, KEY) and failure(tmp_path, KEY) is None and read_score(tmp_path, KEY) is None
    folder = folder_of(tmp_path, KEY)
    folder.mkdir(parents=True)
    for damaged in ("", "[1]", "not json", '{"status": "failed"}'):
        (folder / RUN).write_text(damaged)
        assert record_of(folder) == {} == timings(tmp_path, KEY) and failure(tmp_path, KEY) is None
    write_manifest(folder / RUN, {"status": "failed", "reason": "the loss is nan"}, {})
    assert failure(tmp_path, KEY) == "the loss is nan" and measured(tmp_path, KEY, "memory") == 0
    (folder / RUN).unlink()
    write_results(tmp_path, KEY, {"validation": [1, 0], "test": [1, 1]})
    assert is_done(tmp_path, KEY) and failure(tmp_path, KEY) is None
    assert read_score(tmp_path, KEY) == (0.5, 1.0)


def test_a_lock_is_released_although_a_forked_child_has_the_file_open(tmp_path: Path) -> None:
    path = lock_path(tmp_path, "m", "sst2")
    with try_lock(path) as mine:
        assert mine and is_locked(path)
        child = os.fork()
        if child == 0:
            signal.pause()
            os._exit(0)
    try:
        assert not is_locked(path)
        with try_lock(path) as again:
            assert again
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_another_process_sees_the_lock(tmp_path: Path) -> None:
    path = lock_path(tmp_path, "m", "sst2")
    code = (
        "import sys; from pathlib import Path; from common.locks import is_locked, try_lock\n"
        "path = Path(sys.argv[1])\n"
        "with try_lock(path) as mine: print(is_locked(path), mine)"
    )

    def other() -> str:
        command = [sys.executable, "-c", code, str(path)]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    with try_lock(path) as mine:
        assert mine
        assert other() == "True False"
    assert other() == "True True"


def test_a_file_system_without_locks_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(self: FileLock, *args: object, **options: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(FileLock, "acquire", refuse)
    with try_lock(tmp_path / "x.lock") as mine:
        assert mine
    assert "this file system has no locks" in caplog.text
