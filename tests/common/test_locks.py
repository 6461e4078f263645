"""Locks between processes, and what a process that ends leaves behind."""

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.locks import holder_of, is_locked, try_lease, try_lock, wait_for_lock
from common.provenance import ROOT
from tests.commands import python

HOLDER = """
import sys, time
from pathlib import Path
from common.locks import try_lease, try_lock
path = Path(sys.argv[1])
with try_lease(path, lambda: None, seconds=float(sys.argv[2])) if sys.argv[2:] else try_lock(path) as held:
    print(held, flush=True)
    time.sleep(60)
"""


@contextlib.contextmanager
def holder(
    path: Path, *seconds: float, before: str = ""
) -> Iterator[subprocess.Popen[str]]:
    """Hold a lock or, with seconds, a lease in another process, which is killed at the end of the block."""
    words = [sys.executable, "-c", before + HOLDER, str(path), *map(str, seconds)]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == (
            "None\n" if seconds else "True\n"
        )
        yield process
        process.kill()


def test_another_process_is_seen_and_its_lock_ends_with_it(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "lock"
    assert not is_locked(path)
    with holder(path):
        assert is_locked(path)
        with try_lock(path) as held:
            assert not held
    assert not is_locked(path)
    with try_lock(path) as held:
        assert held
    assert path.read_bytes() == b""


def test_a_lock_is_free_again_although_a_forked_process_has_its_file_open(
    tmp_path: Path,
) -> None:
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


def test_waiting_says_so_and_gets_the_lock(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "lock"
    with holder(path) as process:
        threading.Timer(0.5, process.kill).start()
        with (
            caplog.at_level(logging.INFO),
            wait_for_lock(path, "another process reads; waiting"),
        ):
            assert process.wait() == -signal.SIGKILL
            assert is_locked(path)
    assert "another process reads; waiting" in caplog.text


NO_FLOCK = """
import fcntl, os, errno, sys, time
def refuse(*_):
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
fcntl.flock = refuse
"""


def test_where_flock_is_not_implemented_a_file_keeps_the_second_process_out(
    tmp_path: Path,
) -> None:
    """As on Lustre mounted without flock; a killed holder's file is taken over."""
    path = tmp_path / "lock"
    ask = (
        NO_FLOCK
        + "from pathlib import Path\nfrom common.locks import is_locked, try_lock\n"
    )
    ask += "p = Path(sys.argv[1])\nprint(is_locked(p))\nwith try_lock(p) as held:\n    print(held)\n"
    with holder(path, before=NO_FLOCK):
        assert python("-c", ask, path, code=0).stdout.split() == ["True", "False"]
    assert python("-c", ask, path, code=0).stdout.split() == ["False", "True"]


ELSEWHERE = """
import socket
socket.gethostname = lambda: "elsewhere"
import filelock._identity, filelock._marker, filelock._soft
for module in (filelock._identity, filelock._marker, filelock._soft):
    if hasattr(module, "host_name"):
        module.host_name = lambda: "elsewhere"
"""


def test_a_lease_keeps_another_host_out_while_it_is_touched_and_is_free_when_its_host_is_gone(
    tmp_path: Path,
) -> None:
    path = tmp_path / "lease"
    with holder(path, 2.0, before=ELSEWHERE) as far:
        assert "host=elsewhere" in path.read_text()
        with try_lease(path, lambda: None, seconds=2.0) as who:
            assert who == f"process {far.pid} on host elsewhere"
    started = time.monotonic()
    with try_lease(path, lambda: None, seconds=2.0) as who:
        assert who is None
    # Nobody here can see whether a process of another host lives: its lease is waited for.
    assert time.monotonic() - started > 1.5
    assert not path.exists()


@pytest.mark.parametrize("ahead", [-3600, 0, 3600])
def test_a_lease_of_another_host_is_seen_by_a_clock_that_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: float
) -> None:
    with try_lease(tmp_path / "lease", lambda: None):
        monkeypatch.setattr("socket.gethostname", lambda: "elsewhere")
        real = time.time
        monkeypatch.setattr(time, "time", lambda: real() + ahead)
        assert holder_of(tmp_path / "lease") is not None
        os.utime(tmp_path / "lease", (real() - 600, real() - 600))
        assert holder_of(tmp_path / "lease") is None
        assert len(list(tmp_path.iterdir())) == 1


def test_a_lease_of_a_killed_process_of_this_host_is_free_at_once(
    tmp_path: Path,
) -> None:
    path = tmp_path / "lease"
    with holder(path, 60.0) as process:
        started = time.monotonic()
        with try_lease(path, lambda: None, seconds=60.0) as who:
            assert who == f"process {process.pid} on host {os.uname().nodename}"
    with try_lease(path, lambda: None, seconds=60.0) as who:
        assert who is None
    assert time.monotonic() - started < 20
