"""Mistakes that a user can correct, in one sentence that says how."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["UserError", "first_line", "nearest"]


class UserError(ValueError):
    """A mistake in the user's input: the message says what is wrong, where, and what to do, in one sentence.

    Command lines print the message and exit with 2, without a traceback (`common.cli.run`).
    """


def nearest(word: str, known: Iterable[str], *, at_least: float = 0.6) -> str:
    """Return `; did you mean 'x'?` for the closest of `known`, or an empty string when nothing is close.

    Args:
        word: what was given.
        known: what could have been meant.
        at_least: share of the characters that agree, `difflib`'s ratio.
    """
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=at_least)
    return f"; did you mean {close[0]!r}?" if close else ""


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its kind where it has none: libraries tend to write pages."""
    lines = str(error).strip().splitlines()
    return lines[0][:300].rstrip(".") if lines else type(error).__name__
