"""Rows of texts as tables for terminals, Markdown and web pages, and the forms in which a thing can be printed."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from common.plain_text import visible

__all__ = [
    "Format",
    "Rows",
    "csv_cell",
    "fill_template",
    "markdown_cell",
    "markdown_table",
    "plain_table",
    "signed",
]

T = TypeVar("T")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a formula of a spreadsheet begins with."""
_NUMBER = re.compile(r"[+-]?(?:[0-9.](?:[0-9.,;:%()\[\]eE+ \u00b1\u2013-]| to )*)?")
"""A number, its interval and its error are none, nor is the dash for what there is not."""

Rows = Sequence[Sequence[str]]
"""Rows of texts of one length, the first of them the head."""


@dataclass(frozen=True, kw_only=True)
class Format(Generic[T]):
    """A form of text in which a thing is printed; a command has a `Registry` of them."""

    name: str
    """What `--format` calls it."""
    ending: str
    """The ending of its files, without a dot."""
    show: Callable[[T], str]
    """Returns the text, which ends in a line break."""


def plain_table(rows: Rows, numbers: Container[int] = ()) -> list[str]:
    """Return the lines of a table with aligned columns, those of `numbers` aligned on the right."""
    rows = [[visible(text) for text in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            text.rjust(width) if column in numbers else text.ljust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def markdown_table(rows: Rows, rules: Sequence[str] = ()) -> list[str]:
    """Return the lines of a Markdown table, the first row its head.

    Args:
        rows: the texts; what Markdown, HTML or a terminal would obey is escaped (`markdown_cell`).
        rules: for each column what stands below its heading: `---` (the default), or `---:` for numbers.
    """
    head, *body = ([markdown_cell(text) for text in row] for row in rows)
    lines = [f"| {' | '.join(row)} |" for row in (head, *body)]
    return [lines[0], f"|{'|'.join(rules or ['---'] * len(head))}|", *lines[1:]]


def markdown_cell(text: str) -> str:
    """Return a text as a cell of a Markdown table: `<br>` for line breaks, no HTML of its own, no separators."""
    lines = (
        visible(line).replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|")
        for line in text.splitlines()
    )
    return "<br>".join(lines)


def csv_cell(text: str) -> str:
    """Return a text as a cell of a CSV that no spreadsheet takes for a formula, and no terminal for a command."""
    return f"'{visible(text)}" if text[:1] in _FORMULA and not _NUMBER.fullmatch(text) else visible(text)


def signed(value: float, digits: int = 2) -> str:
    """Return a number with its sign, what rounds to zero without one; `-` for nan."""
    if value != value:
        return "-"
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text


def fill_template(path: Path, **values: object) -> str:
    """Return a jinja2 template of HTML with its values filled in, escaped unless the template calls them `safe`."""
    import jinja2  # not for those who print text

    environment = jinja2.Environment(
        finalize=lambda value: value if hasattr(value, "__html__") else html.escape(str(value)),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    return environment.from_string(path.read_text("utf-8")).render(values)
