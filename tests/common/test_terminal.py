"""Documents on a terminal of 80 columns, which a pseudo-terminal stands for."""

import fcntl
import io
import os
import pty
import re
import struct
import sys
import termios
from collections import Counter
from string import ascii_letters

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clm_or_mlm.__main__ import main
from common.tables import Grid, TableDocument, write

PAIR = ("610m-clm-10k-mlm40-42k", "610m-mlm40-42k")


CALLS = """
import sys
from clm_or_mlm.__main__ import main
for words in {commands!r}:
    assert not main(words)
    print("\x1e", end="", flush=True)
"""
"""Calls commands one after another; what each prints ends in a record separator."""
COMMANDS = {
    ("claims",): ["F15", "holds", "docs/claims.md"],
    ("claims", "F8"): ["F8", "holds in 6 of 12"],
    ("claims", "F5"): ["F5b"],
    ("compare", *PAIR): ["all tasks", "[+1.11, +2.41]", "A ahead"],
    ("compare", "610m-*42k"): ["highest mean over all tasks first", "A ahead"],
    ("scores", "--model", PAIR[1]): ["NDCG@10", "[90.54, 92.30]"],
    ("table", "10"): ["42K", "92.41 (±0.18)"],
    ("models",): [PAIR[0]],
}
"""What each is to have."""


@pytest.fixture(scope="module")
def printed() -> dict[tuple[str, ...], str]:
    """What each command prints on a terminal of 80 columns, with its colours; they share one process."""
    child, master = pty.fork()
    if child == 0:
        os.environ.pop("COLUMNS", None)
        os.environ["TERM"] = "xterm-256color"
        os.execv(
            sys.executable,
            [sys.executable, "-c", CALLS.format(commands=list(COMMANDS))],
        )
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
    text = b""
    while True:
        try:
            more = os.read(master, 65536)
        except OSError:  # the other end is closed
            break
        if not more:
            break
        text += more
    os.waitpid(child, 0)
    os.close(master)
    *parts, rest = text.decode().replace("\r", "").split("\x1e")
    assert rest == "", rest
    return dict(zip(COMMANDS, parts, strict=True))


def test_nothing_is_wider_than_the_terminal_and_nothing_is_cut(
    printed: dict[tuple[str, ...], str],
) -> None:
    for words, has in COMMANDS.items():
        text = re.sub("\x1b\\[[0-9;]*m", "", printed[words])
        assert max(map(len, text.splitlines())) <= 80, words
        assert "…" not in text, words
        assert all(part in text for part in has), text


def test_verdicts_are_coloured_on_a_terminal_alone(
    printed: dict[tuple[str, ...], str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert "\x1b[38;5;" in printed["claims", "F5"]
    assert not main(["claims", "F5"])
    assert "\x1b" not in capsys.readouterr().out


CELLS = st.lists(
    st.text(ascii_letters, min_size=1, max_size=40), min_size=1, max_size=4
).map(" ".join)
GRIDS = st.integers(1, 5).flatmap(
    lambda columns: st.lists(st.tuples(*[CELLS] * columns), min_size=2, max_size=5)
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@given(rows=GRIDS, sentence=CELLS, columns=st.integers(60, 140))
def test_any_table_fits_and_every_letter_is_printed(
    rows: list[tuple[str, ...]], sentence: str, columns: int
) -> None:
    body: list[str | Grid] = [
        sentence,
        Grid(rows, numbers={0}, colours={rows[1][0]: "green"}),
    ]
    terminal = Terminal()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        patch.setenv("TERM", "xterm-256color")
        patch.delenv("NO_COLOR", raising=False)
        patch.setattr(sys, "stdout", terminal)
        write(TableDocument(body=body), "text", None)
    printed = terminal.getvalue()
    text = re.sub("\x1b\\[[0-9;]*m", "", printed)
    assert max(map(len, text.splitlines())) <= columns
    letters = Counter(
        "".join([sentence, *(cell for row in rows for cell in row)]).replace(" ", "")
    )
    assert Counter(re.sub(r"\s", "", text)) == letters
    assert "\x1b[32m" in printed
