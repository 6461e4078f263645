"""What something was made from, as a description: a nested dict of plain values that is stored with what was made.

Before anything is made again, reused or resumed, its description is compared with what would be made now.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from common.files import sha256_bytes


def description_hash(record: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a description: the same for the same names and values, in whatever order they stand."""
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return sha256_bytes(text.encode())


def first_difference(
    before: Mapping[str, Any], now: Mapping[str, Any]
) -> tuple[str, Any, Any] | None:
    """Return the first thing in which two descriptions differ, in the order of `now`; None for equal ones.

    Tuples are equal to lists, which they become in a file.

    Args:
        before: the description that was stored.
        now: the description of what would be made now.

    Returns:
        The name of what differs, with dots between the levels (`tuning.steps`), its value in `before`, and its value
        in `now`; a value that is not there is None.
    """
    # Each name once: those of `now` in their order, then those that only `before` has.
    for name in dict.fromkeys((*now, *before)):
        old, new = before.get(name), now.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            inner = first_difference(old, new)
            if inner is not None:
                path, before_value, now_value = inner
                return f"{name}.{path}", before_value, now_value
            continue

        # A name that only one of the two has is a difference, even with the value None.
        is_in_both = name in before and name in now
        if not is_in_both or _plain(old) != _plain(new):
            return name, old, new

    return None


def _plain(value: Any) -> Any:
    """Return a value as a file would give it back, with lists in place of tuples."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
