import html

import pytest

from analysis.evidence.evidence import Settings
from analysis.letter import LETTER_FORMATS, Letter, Section, letter_document, write_letter
from analysis.sources import PUBLISHED, Source
from analysis.tables.paper_arithmetic import Reference, check_arithmetic
from common.errors import UserError
from common.tables import show
from tests.analysis.stores import released_source

SETTINGS = Settings(interval="t")


@pytest.fixture(scope="module")
def published() -> Letter:
    return write_letter(PUBLISHED, SETTINGS)


def markdown(letter: Letter) -> str:
    return show(letter_document(letter), "markdown")


def test_without_runs_nothing_is_said_to_agree_or_to_differ(published: Letter) -> None:
    text = markdown(published)
    assert "none of the paper's 736 scores was recomputed" in text
    assert " 0 " not in text.split("## The paper against its release")[1].split("\n## ")[0]
    assert "holds (" in text and "pretrained once" in text


def test_released_runs_are_named_and_counted_once() -> None:
    letter = write_letter(released_source(), SETTINGS)
    text = markdown(letter)
    assert "From 30 runs of" in text
    assert "1 of the paper's 736 scores were recomputed: 1 agree to the printed digits" in text
    assert "0 more within the printed interval, 0 are outside it." in text
    assert not letter.differs


def test_what_differs_is_listed_with_both_numbers() -> None:
    letter = write_letter(released_source(-0.02), SETTINGS)
    assert letter.differs
    assert "Table 2, 610m-mlm40-42k, sst2: printed 91.42, recomputed 89.42 (-2.00)" in markdown(letter)


def test_the_paper_is_held_against_itself_its_code_and_its_release_in_lists_of_their_own(
    published: Letter,
) -> None:
    sections = {section.title: section for section in published.sections}
    differing = [check for check in check_arithmetic() if check.status == "differs"]
    for reference in Reference:
        said = [point for point in sections[reference.heading].points if f": {reference.words[0]} " in point]
        assert len(said) == sum(check.against is reference for check in differing) > 0
    itself, code = (sections[one.heading].points for one in (Reference.ITSELF, Reference.CODE))
    assert "two-stage" in itself[0] and "Table 13" in itself[-1]
    assert "drawn from N(0, sigma^2 = 0.2)" in code[0] and len(code) == 1
    assert "64 of them repeat a cell of Tables 2-5" in sections[Reference.ITSELF.heading].lead


def test_other_metrics_are_no_letter_about_the_paper() -> None:
    runs = released_source().runs
    with pytest.raises(UserError, match="metrics other than the paper's"):
        write_letter(Source(label="x", runs=runs, protocol="standard"), SETTINGS)


@pytest.mark.parametrize("form", LETTER_FORMATS)
def test_every_page_has_every_section_and_point(published: Letter, form: str) -> None:
    text = show(letter_document(published), form)
    assert text.endswith("\n") and all(section.title in html.unescape(text) for section in published.sections)
    assert "docs/deviations.md" in text and "-0.00" not in text


def test_what_is_special_in_html_is_escaped() -> None:
    letter = Letter(
        title="<a> & 50 %", sections=(Section(title="t_1", lead="", points=("x < y",)),), differs=False
    )
    page = show(letter_document(letter), "html")
    assert "&lt;a&gt; &amp; 50 %" in page and "x &lt; y" in page
