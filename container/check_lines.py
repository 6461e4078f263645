"""What a check of a machine or an image says: ok, warn (it works, but you should know) or fail, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from common.errors import UserError

__all__ = ["CheckLine", "fail", "ok", "refusal", "refuse", "report", "warn"]


class CheckLine(NamedTuple):
    """One check's answer."""

    status: str
    """`ok`, `warn` or `fail`."""
    what: str
    """The thing that was looked at."""
    seen: str
    """What was seen."""
    advice: str = ""
    """What to do; empty when all is well."""

    @property
    def sentence(self) -> str:
        """What was seen and what to do, as an error says it."""
        return f"{self.seen}; {self.advice}" if self.advice else self.seen


ok, warn, fail = (partial(CheckLine, status) for status in ("ok", "warn", "fail"))
"""Make a line: what was looked at, what was seen, what to do."""


def refusal(what: str, error: UserError) -> CheckLine:
    """Return an error as the line that fails for it."""
    seen, _, advice = str(error).partition("; ")
    return fail(what, seen, advice)


def refuse(lines: Iterable[CheckLine]) -> list[CheckLine]:
    """Return the lines; the first that fails is a `UserError`, and what comes after it is not looked at."""
    found = []
    for line in lines:
        if line.status == "fail":
            raise UserError(line.sentence)
        found.append(line)
    return found


def report(lines: list[CheckLine]) -> tuple[str, int]:
    """Return the lines as text, with what to do under those that are not ok; and 1 if one failed."""
    width = max(len(line.what) for line in lines) + 2
    rows = []
    for line in lines:
        rows.append(f"{line.status:6}{line.what:{width}}{line.seen}\n")
        if line.advice:
            rows.append(f"{'':6}{'':{width}}-> {line.advice}\n")
    counts = {status: sum(line.status == status for line in lines) for status in ("ok", "warn", "fail")}
    text = "".join(rows) + ", ".join(f"{number} {status}" for status, number in counts.items()) + "\n"
    return text, int(counts["fail"] > 0)
