"""A call that outlives this login: in a session of tmux, which can be looked at, or by nohup where there is none."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from common.errors import UserError
from common.provenance import ROOT

__all__ = ["start_detached"]


def start_detached(command: Sequence[str], name: str, log: Path) -> str:
    """Start a command so that it outlives this login, its output to a log; return how, in a sentence.

    Args:
        command: the command.
        name: of the session.
        log: appended to.

    Raises:
        UserError: it could not be started, or ended at once.
    """
    # The shell stays and holds the session's terminal: tmux ends a session whose terminal nobody holds.
    shell = f"cd {shlex.quote(str(ROOT))}; {shlex.join(command)} >> {shlex.quote(str(log))} 2>&1"
    if shutil.which("tmux"):
        answer = subprocess.run(
            ["tmux", "new-session", "-d", "-s", name, shell], capture_output=True, text=True
        )
        time.sleep(1)
        if (
            answer.returncode
            or subprocess.run(["tmux", "has-session", "-t", f"={name}"], capture_output=True).returncode
        ):
            raise UserError(f"nothing runs in tmux: {answer.stderr.strip() or f'see {log}'}")
        return f"runs in tmux: tmux attach -t {name}"
    words = ["nohup", "bash", "-c", shell]
    silent = subprocess.DEVNULL
    process = subprocess.Popen(words, stdin=silent, stdout=silent, stderr=silent, start_new_session=True)
    time.sleep(1)
    if process.poll():
        raise UserError(f"it ended at once with code {process.returncode}: see {log}")
    return f"runs in the background as process {process.pid}"
