from __future__ import annotations

import html

import pytest

from analysis.letter.content import Letter, Section, write_letter
from analysis.letter.pages import LETTER_FORMATS, letter_document
from analysis.sources import PUBLISHED
from analysis.statistics.scores_table import Settings
from common.tables import show

LETTER = write_letter(PUBLISHED, Settings(interval="t"))


@pytest.mark.parametrize("form", LETTER_FORMATS)
def test_every_page_has_every_section_and_point(form: str) -> None:
    text = show(letter_document(LETTER), form)
    assert text.endswith("\n") and all(section.title in html.unescape(text) for section in LETTER.sections)
    assert text.count("MS MARCO") >= 1 and "-0.00" not in text


def test_what_is_special_in_html_is_escaped() -> None:
    letter = Letter(
        title="<a> & 50 %", sections=(Section(title="t_1", lead="", points=("x < y",)),), differs=False
    )
    page = show(letter_document(letter), "html")
    assert "&lt;a&gt; &amp; 50 %" in page and "x &lt; y" in page
