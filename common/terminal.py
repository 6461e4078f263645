"""A document on a terminal: tables as wide as it, sentences wrapped at its edge, colours for what was found."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from common.plain_text import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from common.tables import Grid, TableDocument

__all__ = ["print_document"]

_LONG = 24
"""Characters beyond which a cell may be wrapped: intervals stay on a line, names and sentences do not."""


def print_document(document: TableDocument) -> None:
    """Print lines and tables to standard output, which is a terminal; nothing is wider than it."""
    from rich.console import Console

    from common.tables import Grid

    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=False)
    for part in document.body:
        if isinstance(part, Grid):
            console.print(_table(part, console))
        else:
            text = visible(part if isinstance(part, str) else part.text).replace("**", "")
            print("\n".join(textwrap.wrap(text, console.width, break_on_hyphens=False)) or text)


def _table(grid: Grid, console: Console) -> Table:
    """Return a table whose long columns are wrapped where it would be wider than the terminal."""
    from rich.table import Table
    from rich.text import Text

    head, *rows = ([visible(text) for text in row] for row in grid.rows)
    widths = [
        max(len(line) for cell in column for line in cell.split("\n"))
        for column in zip(head, *rows, strict=True)
    ]
    kept = [width if width <= _LONG else _LONG // 2 for width in widths]
    fits = sum(kept) + 2 * len(kept) <= console.width
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for place, (title, width) in enumerate(zip(head, widths, strict=True)):
        table.add_column(
            Text(title),
            justify="right" if place in grid.numbers else "left",
            no_wrap=fits and width <= _LONG,
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(Text(cell, style=_colour(grid, cell)) for cell in row))
    return table


def _colour(grid: Grid, cell: str) -> str:
    """Return the colour of the longest of the table's coloured words that begins a cell; none where none does."""
    words = [word for word in grid.colours if cell.startswith(word)]
    return grid.colours[max(words, key=len)] if words else ""
