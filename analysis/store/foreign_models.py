"""Models whose names are outside the released scheme: refused unless they were added."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

from common.errors import UserError
from pretraining.model_names import parse

__all__ = ["model_error"]


def model_error(name: str, added: Sequence[str] = ()) -> str | None:
    """Return why `name` cannot be a model of the table, or None when it can.

    A name in the released scheme can, whether or not the study trained it; any other only when it is in
    `added` or matches one of its shell patterns (`bert-*`).
    """
    if any(fnmatch.fnmatchcase(name, pattern) for pattern in added):
        return None
    try:
        parse(name)
    except UserError as error:
        return f"{error}; a model of your own is taken with --add-model {name}"
    return None
