"""Locks between processes, and what a process that ends leaves behind."""

from __future__ import annotations

import errno
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from filelock import FileLock

from common.locks import is_locked, try_lock, wait_for_lock
from common.provenance import ROOT

HOLDER = """
import sys, time
from pathlib import Path
from common.locks import try_lock
with try_lock(Path(sys.argv[1])) as held:
    print(held, flush=True)
    time.sleep(60)
"""


def holder(path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "True\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def test_another_process_is_seen_and_its_lock_ends_with_it(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "lock"
    assert not is_locked(path)
    process = holder(path)
    assert is_locked(path)
    with try_lock(path) as held:
        assert not held
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not is_locked(path)
    with try_lock(path) as held:
        assert held
    assert path.read_bytes() == b""
    end(process)


def test_a_lock_is_free_again_although_a_forked_process_has_its_file_open(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with try_lock(path) as held:
        assert held
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
    try:
        assert not is_locked(path)
        with try_lock(path) as held:
            assert held
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_waiting_says_so_and_gets_the_lock(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "lock"
    process = holder(path)
    threading.Timer(0.5, process.kill).start()
    with caplog.at_level(logging.INFO), wait_for_lock(path, "another process reads; waiting"):
        assert process.wait() == -signal.SIGKILL
        assert is_locked(path)
    assert "another process reads; waiting" in caplog.text
    end(process)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_used_after_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    def refuse(self: FileLock) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(FileLock, "_acquire", refuse)
    with try_lock(tmp_path / "lock") as held:
        assert held
    assert "has no locks" in caplog.text
    assert not is_locked(tmp_path / "lock")
