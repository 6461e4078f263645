"""Rows of texts as a table for terminals or for Markdown."""

from __future__ import annotations

from collections.abc import Container, Sequence

__all__ = ["grid"]


def grid(rows: Sequence[Sequence[str]], markdown: bool = False, *, numbers: Container[int] = ()) -> list[str]:
    """Return the lines of an aligned or a Markdown table, the first row its head.

    Args:
        rows: texts, as many in each row.
        markdown: whether the table is for Markdown.
        numbers: columns that are aligned on the right.
    """
    if markdown:
        head, *body = rows
        return [
            f"| {' | '.join(head)} |",
            f"|{'---|' * len(head)}",
            *(f"| {' | '.join(row)} |" for row in body),
        ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            text.rjust(width) if column in numbers else text.ljust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
