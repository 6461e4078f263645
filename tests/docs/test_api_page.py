"""docs/api.md is what the docstrings say, and every public name is on it."""

from __future__ import annotations

import clm_or_mlm as cm
from tests.docs.api_page import PAGE, page


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.docs.api_page writes it again"


def test_every_name_has_a_heading_and_words() -> None:
    sections = dict(part.split("\n", 1) for part in page().split("\n## ")[1:])
    assert {heading.strip("`").partition("(")[0] for heading in sections} == set(cm.__all__)
    assert all(len(text.split()) > 5 for text in sections.values())
