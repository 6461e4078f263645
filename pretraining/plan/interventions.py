"""Changes to a run from a step on: batches left out, another peak rate. Standard library only.

`skip=1200:50` leaves out the 50 batches that step 1200 and those after it would have had; `peak_lr_from=1200:3e-4`
gives steps from 1200 on another peak. Steps count from 0 at random weights. A run may be resumed with changes that
begin at its checkpoint or later; earlier ones are what the checkpoint was made with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from common.errors import UserError

__all__ = ["batch_number", "before", "read_changes", "value_at"]

T = TypeVar("T", int, float)
_MOST = 2**40


def read_changes(key: str, text: str, kind: Callable[[str], T]) -> tuple[tuple[int, T], ...]:
    """Return the (step, value) pairs of a setting such as `1200:50,4000:10`.

    Raises:
        UserError: it is not written so, a value is not above 0, or the steps do not rise.
    """
    changes: list[tuple[int, T]] = []
    for word in filter(None, text.split(",")):
        step, _, value = word.partition(":")
        try:
            change = int(step), kind(value)
        except ValueError:
            raise UserError(f"{key}={text!r}: write STEP:VALUE, several with commas between") from None
        if not (0 <= change[0] < _MOST and 0 < change[1] < _MOST):
            raise UserError(f"{key}={text!r}: steps are at least 0, values above 0 and both below 2^40")
        if changes and change[0] <= changes[-1][0]:
            raise UserError(f"{key}={text!r}: the steps must rise")
        changes.append(change)
    return tuple(changes)


def batch_number(skips: tuple[tuple[int, int], ...], step: int) -> int:
    """Return which batch of the order a step trains on."""
    return step + sum(count for at, count in skips if at <= step)


def value_at(changes: tuple[tuple[int, T], ...], step: int, first: T) -> T:
    """Return the value that holds at a step, `first` before all changes."""
    return next((value for at, value in reversed(changes) if at <= step), first)


def before(changes: tuple[tuple[int, T], ...], step: int) -> list[list[T | int]]:
    """Return the changes that touch steps before one, as they are recorded."""
    return [[at, value] for at, value in changes if at < step]
