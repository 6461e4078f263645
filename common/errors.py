"""Mistakes that a user can correct, in one sentence that says how."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from common.plain_text import first_of

_SHORT, _FEW = 4, 6


class UserError(ValueError):
    """A mistake in the user's input: the message says what is wrong, where, and what to do, in one sentence.

    Command lines print the message and exit with 2, without a traceback (`common.cli.run`).
    """


class NotApplicableError(UserError):
    """What was asked for is not there to be had: nothing is missing that this source should have."""


@contextlib.contextmanager
def refused_as(sentence: Callable[[BaseException], str]) -> Iterator[None]:
    """Turn whatever the block's library raises into a `UserError`: where its Rust panics, that is no `Exception`.

    Args:
        sentence: returns what is wrong, from what was raised.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise UserError(sentence(error)) from None


def nearest(word: str, known: Iterable[str], *, at_least: float = 0.62) -> str:
    """Return `; did you mean 'x'?` for the closest of `known`, or an empty string when nothing is close.

    Up to four that are equally close are all named; more are no help. A short name with a number in it can only be the
    beginning of another: H10 may be H100, but with F99 nobody means F9. Case does not count: SST-2 may be sst2.

    Args:
        word: what was given.
        known: what could have been meant.
        at_least: share of the characters that agree, `difflib`'s ratio.
    """
    names = {name.casefold(): name for name in known}
    word = word.casefold()
    if len(word) < _SHORT and not word.isalpha():
        for folded in [*names]:
            if not folded.startswith(word):
                del names[folded]
    # The closest come first; a fifth that is equally close shows that there are too many to name.
    close = difflib.get_close_matches(word, names, n=5, cutoff=at_least)
    ratios = [difflib.SequenceMatcher(None, folded, word).ratio() for folded in close]
    equally_close = ratios.count(max(ratios, default=0.0))
    if equally_close not in range(1, 5):
        return ""
    *others, last = sorted(repr(names[folded]) for folded in close[:equally_close])
    meant = f"{', '.join(others)} or {last}" if others else last
    return f"; did you mean {meant}?"


def path_hint(path: Path, holds: str) -> str:
    """Return what could have been meant by a path that is not there: the nearest name, or what is there instead.

    Empty where nothing is. Of a path whose parent is missing, too, the nearest name of the first missing part.

    Args:
        path: what was given.
        holds: pattern of a file in a folder of the kind that was meant.
    """
    missing = path
    while not missing.parent.is_dir():
        missing = missing.parent
    folder = missing.parent
    pattern = holds if missing == path else "*"
    try:
        names = sorted(
            entry.name for entry in folder.iterdir() if any(entry.glob(pattern))
        )
    except OSError:
        # This user may not read the folder.
        return ""
    there = ""
    if names and missing == path:
        there = f"; in {folder}: {first_of(names, _FEW)}"
    return nearest(missing.name, names) or there


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its kind where it has none: libraries tend to write pages."""
    lines = str(error).strip().splitlines()
    return lines[0][:300].rstrip(".") if lines else type(error).__name__
