"""Calls that outlive the shell that starts them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from common.errors import UserError
from common.provenance import ROOT
from workflow.detached import WAYS, start_detached


def _wait(path: Path) -> str:
    end = time.monotonic() + 30
    while not path.is_file() or not path.read_text().strip():
        assert time.monotonic() < end
        time.sleep(0.1)
    return path.read_text().strip()


def test_it_lives_on_when_its_session_is_ended(tmp_path: Path) -> None:
    """As at a logout: the group of the shell that started it is ended."""
    script = "import os, time, sys; print(os.getpid(), flush=True); time.sleep(float(sys.argv[1]))"
    command = [sys.executable, "-c", script, "3"]
    start = (
        # Tests that were themselves started by nohup ignore the signal, and so would this shell.
        "import signal, sys\nsignal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
        "from pathlib import Path\nfrom workflow.detached import start_detached\n"
        f"print(start_detached({command!r}, 'x', Path(sys.argv[1]), 'nohup'))\nimport time; time.sleep(60)\n"
    )
    log = tmp_path / "a b" / "log"
    log.parent.mkdir()
    shell = subprocess.Popen(
        [sys.executable, "-c", start, str(log)],
        cwd=ROOT,
        start_new_session=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert shell.stdout is not None and shell.stdout.readline() == "runs in the background\n"
    number = int(_wait(log))
    os.killpg(shell.pid, signal.SIGHUP)
    shell.communicate()
    assert os.getsid(number) != shell.pid
    os.kill(number, 0)


def test_what_does_not_survive_a_logout_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        UserError, match="nothing could be started: systemd: no systemd-run here; tmux: no tmux here"
    ):
        start_detached(["true"], "x", tmp_path / "log")
    with pytest.raises(UserError, match="unknown way to detach 'tmuxx'; did you mean 'tmux'"):
        start_detached(["true"], "x", tmp_path / "log", "tmuxx")
    (tmp_path / "systemd-run").write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "systemd-run").chmod(0o755)
    (tmp_path / "loginctl").write_text("#!/bin/sh\necho Linger=no\n")
    (tmp_path / "loginctl").chmod(0o755)
    with pytest.raises(UserError, match="lingering is off for this user"):
        start_detached(["true"], "x", tmp_path / "log", "systemd")


def test_a_job_of_its_own_is_asked_of_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sbatch").write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/words\necho 77\n')
    (tmp_path / "sbatch").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert (
        start_detached(["python", "-m", "workflow"], "x", tmp_path / "log", "job") == "runs as Slurm job 77"
    )
    words = (tmp_path / "words").read_text()
    assert "--job-name=controller-x" in words and f"exec python -m workflow >> {tmp_path}/log 2>&1" in words
    assert not WAYS["job"].usual
