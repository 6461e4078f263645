"""Locks between processes, and what a process that ends leaves behind."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from common.locks import is_locked, try_lease, try_lock, wait_for_lock
from common.provenance import ROOT
from tests.commands import python

HOLDER = """
import sys, time
from pathlib import Path
from common.locks import try_lock
with try_lock(Path(sys.argv[1])) as held:
    print(held, flush=True)
    time.sleep(60)
"""


def holder(path: Path, before: str = "") -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", before + HOLDER, str(path)], stdout=subprocess.PIPE, text=True, cwd=ROOT
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


NO_FLOCK = """
import fcntl, os, errno, sys, time
def refuse(*_):
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
fcntl.flock = refuse
"""


def test_where_flock_is_not_implemented_a_file_keeps_the_second_process_out(tmp_path: Path) -> None:
    """As on Lustre mounted without flock; a killed holder's file is taken over."""
    path = tmp_path / "lock"
    process = holder(path, NO_FLOCK)
    ask = NO_FLOCK + "from pathlib import Path\nfrom common.locks import is_locked, try_lock\n"
    ask += "p = Path(sys.argv[1])\nprint(is_locked(p))\nwith try_lock(p) as held:\n    print(held)\n"
    assert python("-c", ask, path, code=0).stdout.split() == ["True", "False"]
    end(process)
    assert python("-c", ask, path, code=0).stdout.split() == ["False", "True"]


LEASE = """
import sys, time
from pathlib import Path
from common.locks import try_lease
with try_lease(Path(sys.argv[1]), lambda: None, seconds=float(sys.argv[2])) as holder:
    print(holder, flush=True)
    time.sleep(60)
"""


def _lease(path: Path, seconds: float, before: str = "") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", before + LEASE, str(path), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


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
    far = _lease(path, 2.0, ELSEWHERE)
    assert far.stdout is not None and far.stdout.readline() == "None\n"
    assert "host=elsewhere" in path.read_text()
    with try_lease(path, lambda: None, seconds=2.0) as holder:
        assert holder == f"process {far.pid} on host elsewhere"
    far.kill()
    far.communicate()
    started = time.monotonic()
    with try_lease(path, lambda: None, seconds=2.0) as holder:
        assert holder is None
    # Nobody here can see whether a process of another host lives: its lease is waited for.
    assert time.monotonic() - started > 1.5
    assert not path.exists()


def test_a_lease_of_a_killed_process_of_this_host_is_free_at_once(tmp_path: Path) -> None:
    path = tmp_path / "lease"
    process = _lease(path, 60.0)
    assert process.stdout is not None and process.stdout.readline() == "None\n"
    started = time.monotonic()
    with try_lease(path, lambda: None, seconds=60.0) as holder:
        assert holder == f"process {process.pid} on host {os.uname().nodename}"
    process.kill()
    process.communicate()
    with try_lease(path, lambda: None, seconds=60.0) as holder:
        assert holder is None
    assert time.monotonic() - started < 20
