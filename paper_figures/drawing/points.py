"""The contract between a figure's SVG and its CSV: which mark is which row.

Every mark that stands for a row of the CSV is an element `<g id="point-7">` of the SVG, where 7 is the row, counted
from 0 without the header. A page can attach to it what the row says. Marks that stand for no single row (lines,
intervals, curves of losses) have no such id. A frame that is drawn has as its index the rows of the CSV.
"""

from __future__ import annotations

from collections.abc import Hashable

__all__ = ["point_id"]


def point_id(row: Hashable) -> str:
    """Return the id of the mark of a row of the CSV."""
    return f"point-{row}"
