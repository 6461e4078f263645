"""Mistakes that a user can correct, in one sentence that says how."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["UserError", "nearest"]


class UserError(ValueError):
    """A mistake in the user's input: the message says what is wrong, where, and what to do, in one sentence.

    Command lines print the message and exit with 2, without a traceback (`common.cli.run`).
    """


def nearest(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the closest of `known`, or an empty string when nothing is close."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
