"""The forms in which most results are printed: a text that is Markdown too, CSV, JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

import pandas as pd

from analysis.csv_text import csv_text
from common.registry import Registry
from common.text_tables import Format, Rows, markdown_table, plain_table

__all__ = ["Table", "frame_csv", "frame_json", "text_formats"]

T = TypeVar("T")
Given = TypeVar("Given", contravariant=True)
Table = Callable[[Rows], list[str]]
"""From rows of texts to the lines of a table."""


class _Text(Protocol[Given]):
    def __call__(self, result: Given, table: Table = ..., /) -> str: ...


def text_formats(
    text: _Text[T],
    *,
    csv: Callable[[T], str],
    json: Callable[[T], str],
    markdown: Callable[[T], str] | None = None,
    more: Iterable[Format[T]] = (),
) -> Registry[Format[T]]:
    """Return the forms of a result.

    Args:
        text: from the result and a way to set tables to a text.
        csv: from the result to CSV.
        json: from the result to JSON.
        markdown: None: `text` with its tables as Markdown's.
        more: further forms.
    """
    return Registry(
        "format",
        [
            Format(name="text", ending="txt", show=lambda result: text(result, plain_table)),
            Format(
                name="markdown", ending="md", show=markdown or (lambda result: text(result, markdown_table))
            ),
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
