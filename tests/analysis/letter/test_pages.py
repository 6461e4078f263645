from __future__ import annotations

import html
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from analysis.letter.content import Letter, Section, write_letter
from analysis.letter.pages import FORMATS, letter_html, letter_latex, letter_pdf
from analysis.sources import PUBLISHED
from analysis.statistics.scores_table import Settings
from common.errors import UserError
from tests.analysis.stores import released_source

needs_tex = pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex")
SETTINGS = Settings(interval="t")
LETTER = write_letter(PUBLISHED, SETTINGS)


def test_every_text_has_every_section_and_point() -> None:
    for form in (one for one in FORMATS.values() if one.is_text):
        text = form.content(LETTER)
        assert isinstance(text, str) and text.endswith("\n")
        assert all(section.title in html.unescape(text) for section in LETTER.sections)
        assert text.count("MS MARCO") >= 1 and "-0.00" not in text


def test_what_is_special_in_html_and_latex_is_escaped() -> None:
    letter = Letter(
        title="<a> & 50 %", sections=(Section(title="t_1", lead="", points=("x < y",)),), differs=False
    )
    assert "&lt;a&gt; &amp; 50 %" in letter_html(letter) and "x &lt; y" in letter_html(letter)
    assert "$<$a$>$ \\& 50 \\%" in letter_latex(letter) and "t\\_1" in letter_latex(letter)


@needs_tex
@pytest.mark.parametrize("shift", [None, 0.0, -0.02])
def test_it_is_one_page_without_overfull_boxes(shift: float | None, tmp_path: Path) -> None:
    letter = LETTER if shift is None else write_letter(released_source(shift), SETTINGS)
    (tmp_path / "letter.tex").write_text(letter_latex(letter), encoding="utf-8")
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "letter.tex"],
        cwd=tmp_path, capture_output=True, text=True, check=True, errors="replace",
    )  # fmt: skip
    assert "(1 page," in done.stdout
    assert not re.search(r"Overfull", done.stdout)


@needs_tex
def test_the_pdf_has_the_same_bytes_each_time() -> None:
    first = letter_pdf(LETTER)
    assert first.startswith(b"%PDF")
    assert first == letter_pdf(LETTER)


def test_without_tex_one_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match="needs pdflatex"):
        letter_pdf(LETTER)


@needs_tex
def test_a_character_that_tex_does_not_know_is_one_sentence() -> None:
    with pytest.raises(UserError, match="pdflatex fails"):
        letter_pdf(Letter(title="\u4e2d", sections=(), differs=False))
