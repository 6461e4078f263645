"""Frames as CSV that is safe to open: no cell is taken for a formula or obeyed by a terminal."""

from __future__ import annotations

import pandas as pd

from common.text_tables import csv_cell

__all__ = ["csv_text"]


def csv_text(frame: pd.DataFrame, *, float_format: str | None = None) -> str:
    """Return the columns as CSV without an index, missing values as empty fields; equal frames give equal text."""
    safe = {
        csv_cell(str(name)): column if pd.api.types.is_numeric_dtype(column) else _texts(column)
        for name, column in frame.items()
    }
    return pd.DataFrame(safe, index=frame.index).to_csv(
        index=False, lineterminator="\n", float_format=float_format
    )


def _texts(column: pd.Series) -> pd.Series:
    cells = [csv_cell(value) if isinstance(value, str) else value for value in column]
    return pd.Series(cells, index=column.index, dtype=object)
