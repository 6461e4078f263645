"""Rows of texts as a table for terminals or for Markdown."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["grid"]


def grid(rows: Sequence[Sequence[str]], markdown: bool) -> list[str]:
    """Return the lines of an aligned or a Markdown table, the first row its head."""
    if markdown:
        head, *body = rows
        return [
            f"| {' | '.join(head)} |",
            f"|{'---|' * len(head)}",
            *(f"| {' | '.join(row)} |" for row in body),
        ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
