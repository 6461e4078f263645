"""Formats are named, ordered and add what readers of a picture look for."""

from __future__ import annotations

import pytest

from common.errors import UserError
from paper_figures.output.formats import FORMATS, formats_named


def test_formats_are_checked_and_ordered() -> None:
    assert [form.name for form in formats_named(["svg", "pdf"])] == ["pdf", "svg"]
    with pytest.raises(UserError, match=r"unknown format 'pgn'; did you mean 'png'\?"):
        formats_named(["pgn"])


@pytest.mark.parametrize("name", FORMATS)
def test_no_format_writes_a_date_or_a_version(name: str) -> None:
    metadata = FORMATS[name].metadata("title", "words")
    assert {"CreationDate", "Date", "Software", "Creator"} & metadata.keys()
    assert {value for key, value in metadata.items() if key not in ("Title", "Subject", "Description")} == {
        None
    }


def test_an_svg_is_described_once_and_escaped() -> None:
    content = b"<svg width='1'>\n <defs>a</defs><defs>b</defs></svg>"
    text = FORMATS["svg"].finish(content, "A & B", "x < y").decode()
    assert text.startswith('<svg role="img" ')
    assert text.count("<title>A &amp; B</title>") == text.count("<desc>x &lt; y</desc>") == 1
    assert FORMATS["png"].finish(content, "A", "B") == content
