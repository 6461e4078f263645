"""Rows of a frame as tuples, which read better than its own row objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd


def records(frame: pd.DataFrame, *columns: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of `columns` as tuples of Python scalars."""
    return zip(*(frame[column].tolist() for column in columns), strict=True)
