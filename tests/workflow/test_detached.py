"""Calls that outlive the shell that starts them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from common.errors import UserError
from common.provenance import ROOT

CODE = """
import sys
from pathlib import Path
from workflow.detached import start_detached
script = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
print(start_detached([sys.executable, "-c", script], sys.argv[1], Path(sys.argv[2])), flush=True)
import time; time.sleep(60)
"""


def _wait(path: Path) -> int:
    end = time.monotonic() + 30
    while not path.is_file() or not path.read_text().strip():
        assert time.monotonic() < end
        time.sleep(0.1)
    return int(path.read_text())


@pytest.mark.parametrize("way", ["tmux", "nohup"])
def test_it_lives_on_when_its_session_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """As at a logout: the group of the shell that started it is ended. By the real tmux, where it is installed."""
    if way == "tmux" and shutil.which("tmux") is None:
        pytest.skip("no tmux here")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bash", "nohup", "tmux"):
        if (found := shutil.which(name)) and (name != "tmux" or way == "tmux"):
            (programs / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("TMUX_TMPDIR", str(programs))
    log = tmp_path / "a b" / "log"
    log.parent.mkdir()
    command = [sys.executable, "-c", CODE, "a-study", str(log)]
    shell = subprocess.Popen(command, cwd=ROOT, start_new_session=True, stdout=subprocess.PIPE, text=True)
    assert shell.stdout is not None
    said = shell.stdout.readline()
    assert said.startswith(
        "runs in tmux: tmux attach -t a-study" if way == "tmux" else "runs in the background"
    )
    number = _wait(log)
    try:
        os.killpg(shell.pid, signal.SIGHUP)
        shell.kill()
        shell.communicate()
        time.sleep(1)
        assert os.getsid(number) != shell.pid
        os.kill(number, 0)
    finally:
        os.kill(number, signal.SIGKILL)


def test_one_that_cannot_be_started_is_no_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from workflow.detached import start_detached

    (tmp_path / "tmux").write_text("#!/bin/sh\necho no server >&2\nexit 1\n")
    (tmp_path / "tmux").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(UserError, match="nothing runs in tmux: no server"):
        start_detached(["true"], "x", tmp_path / "log")
