"""What a check of a machine or an image says: ok, warn (it works, but you should know) or fail, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from common.errors import UserError


class CheckLine(NamedTuple):
    """One check's answer."""

    status: str
    """`ok`, `warn` or `fail`."""
    what: str
    """The thing that was looked at."""
    sentence: str
    """What was seen and, unless all is well, after a semicolon what to do."""


ok, warn, fail = (partial(CheckLine, status) for status in ("ok", "warn", "fail"))
"""Make a line: what was looked at, and a sentence."""


def refuse(lines: Iterable[CheckLine]) -> list[CheckLine]:
    """Return the lines; raise the first that fails as a `UserError`.

    If `lines` is an iterator, the checks after that one are not made.
    """
    passed = []
    for line in lines:
        if line.status == "fail":
            raise UserError(line.sentence)
        passed.append(line)
    return passed


def report_lines(lines: list[CheckLine]) -> tuple[str, int]:
    """Return the lines as text for a command to print, and its exit code.

    Args:
        lines: at least one.

    Returns:
        A row for each line, with what to do in a row below it, and last how many lines have each status; 1 if a line
        failed, else 0.
    """
    width = max(len(line.what) for line in lines) + 2
    counts = {"ok": 0, "warn": 0, "fail": 0}
    text = ""
    for line in lines:
        counts[line.status] += 1
        seen, advice = line.sentence, ""
        # In other sentences than those of ok, what to do stands after the first semicolon.
        if line.status != "ok":
            seen, _, advice = line.sentence.partition("; ")
        text += f"{line.status:6}{line.what:{width}}{seen}\n"

        # The advice is indented to where the sentence begins in the row above it.
        if advice:
            text += f"{'':6}{'':{width}}-> {advice}\n"

    total = ", ".join(f"{number} {status}" for status, number in counts.items())
    return f"{text}{total}\n", int(counts["fail"] > 0)
