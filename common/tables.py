"""Whatever a command shows, written in one place: text, Markdown, LaTeX, CSV, JSON, Parquet.

A command builds a `TableDocument`, one plain value: lines and tables for people, a frame and plain data for programs.
`FORMATS` are the ways to write any document; `write` puts one of them on standard output or into a file.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
import textwrap
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from common.files import write_bytes
from common.plain_text import visible
from common.registry import Registry

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console
    from rich.table import Table

_TEX = str.maketrans(
    {
        "\\": "\\textbackslash{}",
        "%": "\\%",
        "_": "\\_",
        "&": "\\&",
        "#": "\\#",
        "$": "\\$",
        "{": "\\{",
        "}": "\\}",
        "~": "\\textasciitilde{}",
        "^": "\\textasciicircum{}",
        "±": "$\\pm$",
        "<": "$<$",
        ">": "$>$",
        "\u221a": "$\\surd$",
        "\u2212": "$-$",
        "\u03c3": "$\\sigma$",
        "\u00d7": "$\\times$",
    }
)
"""What LaTeX needs in place of each character that it would take as a command, or that its text fonts may lack."""

_LONG = 24
"""Characters beyond which a terminal may wrap a cell: intervals stay on a line, names and sentences do not."""

Rows = Sequence[Sequence[str]]
"""Rows of texts of one length, the first of them the head."""


@dataclass(frozen=True)
class Grid:
    """A table of texts."""

    rows: Rows
    """The first row is the head; a cell may have several lines."""
    numbers: Container[int] = ()
    """Columns that are aligned on the right."""
    caption: str = ""
    """The caption of the LaTeX table."""
    label: str = ""
    """The label of the LaTeX table, after `tab:`."""
    stubs: int = 1
    """How many columns of the LaTeX table are aligned on the left."""
    grouped: bool = False
    """Whether LaTeX groups rows with the same first cell: a line above each group, and the cell only in its first row.
    """
    bold: Container[tuple[int, int]] = ()
    """Cells that LaTeX sets in bold, by row (the head is 0) and column."""
    colours: Mapping[str, str] = field(default_factory=dict)
    """Colours of cells on a terminal, by the words that such a cell begins with."""


@dataclass(frozen=True, kw_only=True)
class TableDocument:
    """What a command shows."""

    body: Sequence[str | Grid] = ()
    """For people: lines, and tables among them."""
    records: pd.DataFrame | None = None
    """For programs: CSV and Parquet, and JSON when there is no `data`."""
    digits: str | None = None
    """How CSV writes numbers: `%.6g`; None: every digit."""
    data: object = None
    """What JSON holds; numbers that are nan or infinite become null."""
    indent: int = 1
    """How many spaces the JSON is indented by."""
    pages: Mapping[str, Callable[[], str]] = field(default_factory=dict)
    """Formats that this document writes in its own way, each with a function that returns the text."""


def plain_table(rows: Rows, numbers: Container[int] = ()) -> list[str]:
    """Return the lines of a table with aligned columns; columns in `numbers` are aligned on the right."""
    rows = [[visible(text) for text in row] for row in rows]
    columns = zip(*rows, strict=True)
    widths = [max(map(len, column)) for column in columns]
    lines = []
    for row in rows:
        cells = []
        for column, text in enumerate(row):
            align = str.rjust if column in numbers else str.ljust
            cells.append(align(text, widths[column]))
        lines.append("  ".join(cells).rstrip())
    return lines


def markdown_table(rows: Rows, numbers: Container[int] = ()) -> list[str]:
    """Return the lines of a Markdown table whose head is the first row; a cell's text is escaped, never markup."""
    lines = []
    for row in rows:
        cells = " | ".join(_markdown_cell(text) for text in row)
        lines.append(f"| {cells} |")
    # The line below the head says how columns are aligned: `---:` is on the right.
    columns = range(len(rows[0]))
    rules = ["---:" if column in numbers else "---" for column in columns]
    lines.insert(1, f"|{'|'.join(rules)}|")
    return lines


def _markdown_cell(text: str) -> str:
    """Return a text as a cell of a Markdown table: `<br>` for line breaks, no HTML of its own, no separators."""
    lines = []
    for line in text.splitlines():
        line = visible(line).replace("&", "&amp;").replace("<", "&lt;")
        lines.append(line.replace("|", "\\|"))
    return "<br>".join(lines)


def signed(value: float) -> str:
    """Return a number with two decimals and its sign; zero, also a rounded one, has no sign; nan is `-`."""
    if value != value:  # only nan differs from itself
        return "-"
    text = f"{value:+.2f}"
    return text[1:] if float(text) == 0 else text


def _lines(
    document: TableDocument, table: Callable[[Rows, Container[int]], list[str]]
) -> str:
    """Return the document line by line, its tables drawn by `table`."""
    lines: list[str] = []
    for part in document.body:
        if isinstance(part, Grid):
            lines += table(part.rows, part.numbers)
        else:
            lines.append(part)
    return "".join(f"{line}\n" for line in lines)


def _latex(document: TableDocument) -> str:
    """Return the tables; they need booktabs and graphicx, and shrink to the width of the text."""
    return "\n".join(
        _latex_table(part) for part in document.body if isinstance(part, Grid)
    )


def _latex_table(grid: Grid) -> str:
    """Return a table in LaTeX; a cell of several lines becomes as many rows of the table."""
    head, *others = grid.rows
    body = [f"{' & '.join(_tex(head))} \\\\", "\\midrule"]
    group = None

    # The head is row 0 of the grid.
    for number, row in enumerate(others, 1):
        if grid.grouped:
            first, *rest = row
            if first == group:
                row = ["", *rest]
            # The line below the head is also the line above the first group.
            elif group is not None:
                body.append("\\midrule")
            group = first

        lines_of_cells = [cell.split("\n") for cell in row]
        # The first lines of all cells are a row of LaTeX, the second lines the next; shorter cells stay empty there.
        for texts in itertools.zip_longest(*lines_of_cells, fillvalue=""):
            cells = _tex(texts)
            for column, cell in enumerate(cells):
                if (number, column) in grid.bold:
                    cells[column] = f"\\textbf{{{cell}}}"
            body.append(f"{' & '.join(cells)} \\\\")

    columns = "l" * grid.stubs + "r" * (len(head) - grid.stubs)
    lines = [
        "% needs \\usepackage{booktabs,graphicx}",
        "\\begin{table}[t]",
        "\\centering\\small\\setlength{\\tabcolsep}{4pt}",
        f"\\caption{{{grid.caption.translate(_TEX)}}}",
        f"\\label{{tab:{grid.label}}}",
        # Shrinks the table only if it is wider than the text.
        f"\\resizebox{{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}}{{!}}{{\\begin{{tabular}}{{{columns}}}",
        "\\toprule",
        *body,
        "\\bottomrule",
        "\\end{tabular}}",
        "\\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _tex(texts: Iterable[str]) -> list[str]:
    return [text.translate(_TEX) for text in texts]


def _csv(document: TableDocument) -> str:
    assert document.records is not None
    return document.records.to_csv(index=False, float_format=document.digits)


def _json(document: TableDocument) -> str:
    """Return the document's data as JSON, or its records where there are no data."""
    if document.data is None:
        assert document.records is not None
        return document.records.round(6).to_json(orient="records", indent=2) + "\n"
    # JSON has no nan; without `allow_nan=False` Python would write it all the same.
    data = _finite(document.data)
    return json.dumps(data, indent=document.indent, allow_nan=False) + "\n"


def _finite(value: object) -> object:
    """Return plain data as JSON can hold them: with None in place of nan and infinity, and without NumPy's types."""
    if isinstance(value, Mapping):
        return {str(name): _finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    # NumPy's numbers have a method `item` that returns Python's; to look for it avoids an import of NumPy.
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _parquet(document: TableDocument) -> bytes:
    assert document.records is not None
    content = BytesIO()
    document.records.reset_index(drop=True).to_parquet(content, index=False)
    return content.getvalue()


@dataclass(frozen=True, kw_only=True)
class TableFormat:
    """A way to write any document."""

    name: str
    """What `--format` calls it."""
    ending: str
    """The ending of its files, without a dot."""
    write: Callable[[TableDocument], str | bytes]
    is_text: bool = True
    """Whether it can be printed to a terminal."""


FORMATS: Registry[TableFormat] = Registry(
    "format",
    [
        TableFormat(
            name="text",
            ending="txt",
            write=lambda document: _lines(document, plain_table),
        ),
        TableFormat(
            name="markdown",
            ending="md",
            write=lambda document: _lines(document, markdown_table),
        ),
        TableFormat(name="latex", ending="tex", write=_latex),
        TableFormat(name="csv", ending="csv", write=_csv),
        TableFormat(name="json", ending="json", write=_json),
        TableFormat(name="parquet", ending="parquet", write=_parquet, is_text=False),
    ],
)
"""Every way to write a document."""

PRINTED = ("text", "markdown", "csv", "json")
"""The formats of most commands."""


def document_bytes(document: TableDocument, form: str) -> bytes:
    """Return the document in a format: its own page where it has one, else as `FORMATS` writes any document."""
    page = document.pages.get(form)
    content = FORMATS[form].write(document) if page is None else page()
    return content.encode() if isinstance(content, str) else content


def show(document: TableDocument, form: str) -> str:
    """Return the document in a format of text; it ends in a line break."""
    return document_bytes(document, form).decode()


def _print_document(document: TableDocument) -> None:
    """Print lines and tables to standard output, which is a terminal; nothing is wider than the terminal."""
    # Imported here: writing to files does not need it.
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=False)
    for part in document.body:
        if isinstance(part, Grid):
            console.print(_terminal_table(part, console))
        else:
            # `**` is Markdown's mark of bold words.
            text = visible(part).replace("**", "")
            # Names of models have hyphens, so a line must not break at one.
            lines = textwrap.wrap(text, console.width, break_on_hyphens=False)
            # An empty line has no lines in it, and is printed as it is.
            print("\n".join(lines) or text)


def _terminal_table(grid: Grid, console: Console) -> Table:
    """Return a table whose long columns are wrapped where it would be wider than the terminal."""
    from rich.table import Table
    from rich.text import Text

    head, *rows = [[visible(text) for text in row] for row in grid.rows]
    # The width of a column is that of the longest line in its cells.
    widths = []
    for column in zip(head, *rows, strict=True):
        lines = "\n".join(column).split("\n")
        widths.append(max(map(len, lines)))

    # Short columns stay whole only if each long column then still gets at least half of `_LONG`. Two blanks follow
    # each column.
    least = [width if width <= _LONG else _LONG // 2 for width in widths]
    fits = sum(least) + 2 * len(least) <= console.width
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for number, title in enumerate(head):
        table.add_column(
            Text(title),
            justify="right" if number in grid.numbers else "left",
            no_wrap=fits and widths[number] <= _LONG,
            # A word that is wider than its column goes on in the next line; by default it would be cut.
            overflow="fold",
        )

    for row in rows:
        cells = [Text(cell, style=_colour(grid, cell)) for cell in row]
        table.add_row(*cells)

    return table


def _colour(grid: Grid, cell: str) -> str:
    """Return the colour of a cell: that of the longest words of `grid.colours` that it begins with; else empty."""
    words = [word for word in grid.colours if cell.startswith(word)]
    return grid.colours[max(words, key=len)] if words else ""


def default_format(piped: str, out: Path | None) -> str:
    """Return the format of a document whose user chose none: `text` for a terminal, else `piped`, for programs.

    Args:
        piped: the format for a file or another program.
        out: the file that the user named; None: standard output.
    """
    return "text" if out is None and sys.stdout.isatty() else piped


def write(document: TableDocument, form: str, out: Path | None) -> None:
    """Write the document to a file or, without one, to standard output; text is fitted to a terminal.

    Args:
        document: what to write.
        form: a name of `FORMATS`.
        out: the file; None: standard output.
    """
    # A document without a body has a page of its own for text, which `show` returns as it is.
    if out is None and form == "text" and document.body and sys.stdout.isatty():
        _print_document(document)
    elif out is None:
        sys.stdout.write(show(document, form))
    else:
        write_bytes(out, document_bytes(document, form))
