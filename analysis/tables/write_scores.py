"""How scores are written: CSV, Markdown, Parquet. Their columns are `COLUMNS` of `analysis.statistics.scores_table`."""

from __future__ import annotations

import pandas as pd

from analysis.csv_text import csv_text
from analysis.formats import FileFormat
from analysis.records import records
from analysis.statistics.interval import caption_of
from common.registry import Registry
from common.text_tables import markdown_table

__all__ = ["FORMATS", "scores_csv", "scores_markdown", "scores_parquet"]


def scores_csv(scores: pd.DataFrame) -> str:
    """Return the frame as CSV, numbers in percent with six decimals."""
    return csv_text(scores, float_format="%.6f")


def scores_markdown(scores: pd.DataFrame) -> str:
    """Return the frame as a Markdown table, numbers with two decimals as the paper prints them, and the interval."""
    rows = [[_text(value) for value in row] for row in scores.itertuples(index=False)]
    words = caption_of(records(scores, "n_seeds", "interval"))
    return "\n".join([*markdown_table([list(scores.columns), *rows]), "", f"low, high: {words}."]) + "\n"


def scores_parquet(scores: pd.DataFrame) -> bytes:
    """Return the frame as the content of a Parquet file."""
    return scores.reset_index(drop=True).to_parquet(index=False)


def _text(value: object) -> str:
    if value != value:
        return ""
    return f"{value:.2f}" if isinstance(value, float) else str(value)


FORMATS: Registry[FileFormat[pd.DataFrame]] = Registry(
    "format",
    [
        FileFormat(name="csv", ending="csv", content=lambda scores: scores_csv(scores).encode()),
        FileFormat(name="markdown", ending="md", content=lambda scores: scores_markdown(scores).encode()),
        FileFormat(name="parquet", ending="parquet", content=scores_parquet, is_text=False),
    ],
)
"""How scores are written."""
