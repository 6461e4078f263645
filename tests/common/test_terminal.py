"""Documents on a terminal of 80 columns, which a pseudo-terminal stands for."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest

PAIR = ("610m-clm-10k-mlm40-42k", "610m-mlm40-42k")


def on_a_terminal(*words: str, columns: int = 80) -> str:
    """Return what a command prints on a terminal of so many columns, with its colours."""
    child, master = pty.fork()
    if child == 0:
        os.environ.pop("COLUMNS", None)
        os.environ["TERM"] = "xterm-256color"
        os.execv(sys.executable, [sys.executable, "-m", "clm_or_mlm", *words])
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    printed = b""
    while True:
        try:
            more = os.read(master, 65536)
        except OSError:  # the other end is closed
            break
        if not more:
            break
        printed += more
    os.waitpid(child, 0)
    os.close(master)
    return printed.decode().replace("\r", "")


@pytest.mark.parametrize(
    ("words", "has"),
    [
        (["claims"], ["F15", "holds", "docs/claims.md"]),
        (["claims", "F8"], ["F8", "holds in 8 of 12"]),
        (["compare", *PAIR], ["all tasks", "[+1.11, +2.41]", "A ahead"]),
        (["compare", "610m-*42k"], ["mean rank", "P(first)"]),
        (["scores", "--model", PAIR[1]], ["NDCG@10", "[90.54, 92.30]"]),
        (["table", "10"], ["42K", "92.41 (±0.18)"]),
        (["models"], [PAIR[0]]),
    ],
    ids=lambda value: " ".join(value)[:30],
)
def test_nothing_is_wider_than_the_terminal_and_nothing_is_cut(words: list[str], has: list[str]) -> None:
    printed = re.sub("\x1b\\[[0-9;]*m", "", on_a_terminal(*words))
    assert max(map(len, printed.splitlines())) <= 80
    assert "…" not in printed
    for text in has:
        assert text in printed


def test_verdicts_are_coloured_on_a_terminal_alone() -> None:
    assert "\x1b[38;5;" in on_a_terminal("claims", "F5")
    piped = subprocess.run(
        [sys.executable, "-m", "clm_or_mlm", "claims", "F5"], capture_output=True, check=True
    )
    assert b"\x1b" not in piped.stdout
