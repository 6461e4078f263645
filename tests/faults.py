"""Commands in which the n-th write, rename or sync fails: the next call ends with the bytes of a whole one."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from common.errors import UserError
from pretraining.training.log import TIMINGS
from tests.kills import tree

PLACES = (
    (os, "fsync"),
    (os, "rename"),
    (os, "replace"),
    (Path, "write_bytes"),
    (Path, "mkdir"),
)


@contextmanager
def failing(number: int) -> Iterator[list[str]]:
    """Let the call of that number fail as on a full disk, 0: none; yield the names of all calls."""
    calls: list[str] = []

    def counted(name: str, of: Callable[..., object]) -> Callable[..., object]:
        def call(*words: object, **more: object) -> object:
            calls.append(name)
            if len(calls) == number:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            # A disk's time, which tells nothing here
            return None if name == "fsync" else of(*words, **more)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for place, name in PLACES:
            patch.setattr(place, name, counted(name, getattr(place, name)))
        yield calls


def survives_failures(
    call: Callable[[Path], object], tmp_path: Path, *, few: bool
) -> int:
    """Do a call once whole, then with each of its writes failing and once more, and compare; return how many failed.

    Args:
        call: works in the folder that it is given.
        tmp_path: for all folders.
        few: only the first, the last and five between.
    """
    with failing(0) as calls:
        call(tmp_path / "clean")
    whole, numbers = _tree(tmp_path / "clean"), range(1, len(calls) + 1)
    reported = 0
    for number in numbers[:: max(1, len(numbers) // 6)] if few else numbers:
        folder = tmp_path / f"{number}"
        with failing(number):
            try:
                call(folder)
            except (UserError, OSError) as error:
                assert "\n" not in str(error)
                reported += 1
        call(folder)
        after = _tree(folder)
        assert set(after) == set(whole), (
            number,
            calls[number - 1],
            set(after) ^ set(whole),
        )
        assert not (differ := [name for name in whole if whole[name] != after[name]]), (
            number,
            differ,
        )
    assert reported
    print(f"{len(calls)} writes, {reported} of those tried were reported")
    return reported


def _tree(folder: Path) -> dict[str, bytes]:
    return {
        name: content
        for name, content in tree(folder).items()
        if not name.endswith(TIMINGS)
    }
