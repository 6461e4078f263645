"""The letter as a document: Markdown, and an HTML page that prints on one sheet."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from analysis.letter.content import Letter
from common.tables import Document, Heading, fill_template

__all__ = ["LETTER_FORMATS", "letter_document"]

LETTER_FORMATS = ("markdown", "html")
"""How the letter is written."""

_TEMPLATE = Path(__file__).parent / "templates" / "letter.html"


def letter_document(letter: Letter) -> Document:
    """Return the letter; its points are numbered section by section."""
    body: list[str | Heading] = [f"# {letter.title}"]
    for section in letter.sections:
        body += ["", Heading(section.title)]
        if section.lead:
            body += ["", section.lead]
        if section.points:
            body += ["", *(f"{place}. {point}" for place, point in enumerate(section.points, 1))]
    return Document(body=body, pages={"html": partial(fill_template, _TEMPLATE, letter=letter)})
