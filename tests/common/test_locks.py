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

from common.errors import UserError
from common.files import is_alive
from common.locks import end_holder, holder_of, try_lease, wait_for_lease
from common.provenance import ROOT

HOLDER = """
import sys, time
from pathlib import Path
from common.locks import try_lease
with try_lease(Path(sys.argv[1])) as other:
    print(other, flush=True)
    time.sleep(60)
"""

# As on Lustre mounted without flock.
NO_FLOCK = """
import fcntl, os, errno
def refuse(*_):
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
fcntl.flock = fcntl.lockf = refuse
"""

ELSEWHERE = """
import filelock._identity, filelock._marker, filelock._soft
for module in (filelock._identity, filelock._marker, filelock._soft):
    if hasattr(module, "host_name"):
        module.host_name = lambda: "elsewhere"
"""


@contextlib.contextmanager
def holder(path: Path, before: str = "") -> Iterator[subprocess.Popen[str]]:
    """Hold a lease in another process, which is killed at the end of the block."""
    words = [sys.executable, "-c", before + HOLDER, str(path)]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "None\n"
        yield process
        process.kill()


@pytest.fixture
def nobody_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that may not wait: whoever asks for a lease is answered at once."""

    def refuse(seconds: float) -> None:
        raise AssertionError(f"it slept {seconds} s")

    monkeypatch.setattr(time, "sleep", refuse)


def touched_seconds_ago(path: Path, seconds: float) -> None:
    then = path.stat().st_mtime - seconds
    os.utime(path, (then, then))


@pytest.mark.usefixtures("nobody_sleeps")
@pytest.mark.parametrize("before", ["", NO_FLOCK], ids=["flock", "no flock"])
def test_a_killed_holder_of_this_machine_loses_its_lease(
    tmp_path: Path, before: str
) -> None:
    path = tmp_path / "deep" / "lease"
    assert holder_of(path) is None
    with holder(path, before) as process:
        words = f"process {process.pid} on host {os.uname().nodename}"
        assert str(holder_of(path)).startswith(words)
        with try_lease(path) as other:
            assert str(other).startswith(words)
    assert holder_of(path) is None
    with try_lease(path) as other:
        assert other is None
    assert not path.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="zombies are recognised by /proc")
@pytest.mark.usefixtures("nobody_sleeps")
def test_zombie_loses_its_lease(tmp_path: Path) -> None:
    path = tmp_path / "lease"
    with holder(path) as process:
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert "(zombie)" in Path(f"/proc/{process.pid}/status").read_text()
        assert not is_alive(process.pid) and is_alive(os.getpid()) and is_alive(1)
        assert holder_of(path) is None
        with try_lease(path) as other:
            assert other is None


@pytest.mark.usefixtures("nobody_sleeps")
@pytest.mark.parametrize("content", ["", "filelock/2\npid=1"])
def test_a_lease_written_in_part_is_old_after_two_minutes(
    content: str, tmp_path: Path
) -> None:
    path = tmp_path / "lease"
    path.write_text(content)
    with try_lease(path) as other:
        assert other == "another process"
    before = time.time() - 130
    os.utime(path, (before, before))
    assert holder_of(path) is None
    with try_lease(path) as other:
        assert other is None
    assert not path.exists()


@pytest.mark.usefixtures("nobody_sleeps")
def test_a_file_of_others_is_no_lease(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    path.write_text("12\n")
    os.utime(path, (0, 0))
    with (
        pytest.raises(UserError, match=r"\.lock is not what .* move it elsewhere"),
        try_lease(path),
    ):
        pass
    assert path.read_text() == "12\n"


@pytest.mark.usefixtures("nobody_sleeps")
@pytest.mark.parametrize("before", ["", NO_FLOCK], ids=["flock", "no flock"])
def test_a_holder_elsewhere_counts_for_two_minutes(tmp_path: Path, before: str) -> None:
    path = tmp_path / "lease"
    with holder(path, before + ELSEWHERE) as far:
        words = f"process {far.pid} on host elsewhere"
    # It was killed, which nobody here can see but by the age of its last touch.
    for age, expected in ((0, words), (110, words), (20, None)):
        touched_seconds_ago(path, age)
        assert holder_of(path) == expected
        with try_lease(path) as other:
            assert other == expected
    assert not path.exists()


def test_a_holder_is_asked_to_end_on_its_own_machine(tmp_path: Path) -> None:
    path = tmp_path / "lease"
    with holder(path) as process:
        assert end_holder(path)
        assert process.wait(20) == -signal.SIGTERM
    assert end_holder(path) and holder_of(path) is None
    elsewhere = tmp_path / "elsewhere"
    with holder(elsewhere, ELSEWHERE) as far:
        assert not end_holder(elsewhere) and far.poll() is None


@pytest.mark.parametrize("ahead", [-3600, 0, 3600])
def test_the_clock_that_counts_is_the_file_systems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: float
) -> None:
    path = tmp_path / "lease"
    real = time.time
    with holder(path, ELSEWHERE):
        monkeypatch.setattr(time, "time", lambda: real() + ahead)
        with try_lease(path) as other:
            assert other is not None and holder_of(path) == other
        touched_seconds_ago(path, 600)
        assert holder_of(path) is None
        assert len(list(tmp_path.iterdir())) == 1
        with try_lease(path) as other:
            assert other is None


def test_the_lease_is_free_although_a_fork_has_its_file_open(tmp_path: Path) -> None:
    path = tmp_path / "lease"
    with try_lease(path) as other:
        assert other is None
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
    try:
        assert holder_of(path) is None
        with try_lease(path) as other:
            assert other is None
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_waiting_says_so_and_gets_the_lease(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "lease"
    with holder(path) as process:

        def end() -> None:
            process.kill()
            process.wait()

        threading.Timer(0.5, end).start()
        with (
            caplog.at_level(logging.INFO),
            wait_for_lease(path, "another process reads; waiting"),
        ):
            assert process.returncode == -signal.SIGKILL
            assert f"process {os.getpid()}" in str(holder_of(path))
    assert "another process reads; waiting" in caplog.text


def test_of_processes_that_find_an_old_lease_one_takes_it(tmp_path: Path) -> None:
    path = tmp_path / "lease"
    with holder(path, ELSEWHERE):
        pass
    touched_seconds_ago(path, 600)
    ask = """
import sys, time
from pathlib import Path
from common.locks import try_lease
with try_lease(Path(sys.argv[1])) as other:
    print(other is None, flush=True)
    sys.stdin.read()
"""
    asking = [
        subprocess.Popen(
            [sys.executable, "-c", ask, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for _ in range(4)
    ]
    answers = [process.stdout.readline() for process in asking if process.stdout]
    for process in asking:
        process.communicate("")
    assert sorted(answers) == ["False\n"] * 3 + ["True\n"]
