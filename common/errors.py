"""Mistakes that a user can correct, in one sentence that says how."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from common.plain_text import first_of

_SHORT = 4
"""A word with a digit that has fewer characters than this can only be the beginning of what was meant."""
_FEW = 6
"""Names of a folder's content that a message shows."""


class UserError(ValueError):
    """A mistake in the user's input: the message says what is wrong, where, and what to do, in one sentence.

    Command lines print the message and exit with 2, without a traceback (`common.cli.run`).
    """


class NotApplicableError(UserError):
    """What was asked for is not there to be had: nothing is missing that this source should have."""


@contextlib.contextmanager
def refused_as(sentence: Callable[[BaseException], str]) -> Iterator[None]:
    """Turn whatever the library that the block calls raises into a `UserError`.

    Args:
        sentence: returns what is wrong, from what was raised.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        raise
    # Where a library's Rust code panics, what is raised is not an `Exception`.
    except BaseException as error:
        raise UserError(sentence(error)) from None


def nearest(word: str, known: Iterable[str], *, at_least: float = 0.62) -> str:
    """Return `; did you mean 'x'?` for the closest of `known`, or an empty string when nothing is close.

    Up to four that are equally close are all named; more are no help. A short name with a number in it can only be the
    beginning of another: H10 may be H100, but with F99 nobody means F9. Case does not count: SST-2 may be sst2.

    Args:
        word: what was given.
        known: what could have been meant.
        at_least: least share of the characters that agree, `difflib`'s ratio, of a name that is close.
    """
    names = {name.casefold(): name for name in known}
    word = word.casefold()
    if len(word) < _SHORT and not word.isalpha():
        names = {
            folded: name for folded, name in names.items() if folded.startswith(word)
        }

    # The closest come first; a fifth that is equally close shows that there are too many to name.
    close = difflib.get_close_matches(word, names, n=5, cutoff=at_least)
    ratios = [difflib.SequenceMatcher(None, folded, word).ratio() for folded in close]
    equally_close = ratios.count(max(ratios, default=0.0))
    if not 1 <= equally_close <= 4:
        return ""
    closest = close[:equally_close]
    *others, last = sorted(repr(names[folded]) for folded in closest)
    meant = f"{', '.join(others)} or {last}" if others else last
    return f"; did you mean {meant}?"


def path_hint(path: Path, holds: str) -> str:
    """Return the end of a sentence on what could have been meant by the path of a folder that is not there.

    It says the nearest name, or else which folders of that kind are there instead; it is empty where there are none.
    Of a path whose parent is missing as well, the nearest name of the first missing part.

    Args:
        path: the path that was given.
        holds: pattern of a file in a folder of the kind that was meant.
    """
    # The first part of the path that is missing, or that is a file on the way; its parent is a folder that is
    # there.
    missing = path
    while not missing.parent.is_dir():
        missing = missing.parent
    folder = missing.parent
    is_last_part = missing == path

    # Which names of this folder could have been meant: where only the last part of the path is missing,
    # folders of the kind. Where an earlier part is missing, a folder on the way to the one that was meant.
    # Such a folder may hold anything, but must not be empty: `*`.
    pattern = holds if is_last_part else "*"
    try:
        # A file, in which nothing is, has no match either.
        names = sorted(
            entry.name for entry in folder.iterdir() if any(entry.glob(pattern))
        )
    except OSError:
        # This user may not read the folder.
        return ""

    # For a part on the way, folders with another name say nothing of the one that was meant.
    there = ""
    if names and is_last_part:
        there = f"; in {folder}: {first_of(names, _FEW)}"
    return nearest(missing.name, names) or there


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its kind where it has none: libraries tend to write pages."""
    lines = str(error).strip().splitlines()
    return lines[0][:300].rstrip(".") if lines else type(error).__name__
