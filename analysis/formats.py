"""The forms in which most results are written: a text that is Markdown too, CSV, JSON; and other files."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import pandas as pd

from analysis.csv_text import csv_text
from common.registry import Registry
from common.text_tables import Format, Rows, markdown_table, plain_table

__all__ = ["FileFormat", "Table", "finite", "frame_csv", "frame_json", "text_formats"]

T = TypeVar("T")
Given = TypeVar("Given", contravariant=True)
Table = Callable[[Rows], list[str]]
"""From rows of texts to the lines of a table."""


@dataclass(frozen=True, kw_only=True)
class FileFormat(Generic[T]):
    """A form in which a thing is written to a file."""

    name: str
    """What `--format` calls it."""
    ending: str
    """The ending of its files, without a dot."""
    content: Callable[[T], str | bytes]
    """Returns the content of a file."""
    is_text: bool = True
    """Whether it can be printed to a terminal."""


class _Text(Protocol[Given]):
    def __call__(self, result: Given, table: Table = ..., /) -> str: ...


def text_formats(
    text: _Text[T],
    *,
    csv: Callable[[T], str],
    json: Callable[[T], str],
    more: Iterable[Format[T]] = (),
) -> Registry[Format[T]]:
    """Return the forms of a result.

    Args:
        text: from the result and a way to set tables to a text.
        csv: from the result to CSV.
        json: from the result to JSON.
        more: further forms.
    """
    return Registry(
        "format",
        [
            Format(name="text", ending="txt", show=lambda result: text(result, plain_table)),
            Format(name="markdown", ending="md", show=lambda result: text(result, markdown_table)),
            Format(name="csv", ending="csv", show=csv),
            Format(name="json", ending="json", show=json),
            *more,
        ],
    )


def frame_csv(frame: pd.DataFrame) -> str:
    """Return a frame as CSV with six significant digits."""
    return csv_text(frame, float_format="%.6g")


def frame_json(frame: pd.DataFrame) -> str:
    """Return a frame as JSON, a record a row, six decimals."""
    return frame.round(6).to_json(orient="records", indent=2) + "\n"


def finite(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Return a row as JSON can hold it: None for every number that is none or infinite."""
    return {
        str(name): None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in row.items()
    }
