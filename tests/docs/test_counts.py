"""Every count of a page, a command or a picture is that of a judged finding, and as many marks are filled."""

import re

import numpy as np
import pytest
from matplotlib.colors import same_color
from matplotlib.figure import Figure

from analysis.claims.answer import answer
from analysis.claims.catalogue import ANSWERS, FINDINGS
from analysis.claims.judged import JudgedFinding
from analysis.claims.pages.explain import verdicts_document
from analysis.claims.titles import ANSWER
from analysis.claims.verdicts import OUTCOMES
from clm_or_mlm.report.content import gather
from clm_or_mlm.report.html_page import render_page
from common.provenance import ROOT
from common.tables import show
from paper_figures.figure import CLEAR
from tests.paper_figures.drawn import PUBLISHED, collected, picture

ASSESSMENT = PUBLISHED.assessment
IN_WORDS = {"none": 0}


def main(finding: str) -> JudgedFinding:
    return ASSESSMENT.judged[finding]


def counts_of(text: str, of: int) -> set[int]:
    """Return every count of so many things in a text: `in 6 of 12`, `1 to 2 of the 12`, `none of 12`."""
    found = re.findall(rf"(\w+) of (?:the )?{of}\b(?! models)", text)
    return {
        IN_WORDS[word] if word in IN_WORDS else int(word)
        for word in found
        if word in IN_WORDS or word.isdecimal()
    }


def pages() -> dict[str, str]:
    """Return all that counts the comparisons of a quarter of CLM with MLM alone."""
    paths = ("README.md", "docs/build-an-encoder.md", "docs/claims.md")
    return {
        **{path: (ROOT / path).read_text(encoding="utf-8") for path in paths},
        "headline": answer(ASSESSMENT).headline,
        "claims": show(verdicts_document(ASSESSMENT, [ANSWER, *FINDINGS]), "text"),
        "claims F8": show(verdicts_document(ASSESSMENT, ["F8"]), "text"),
        "figure answer": collected("answer").title,
    }


@pytest.mark.parametrize("page", pages())
def test_pages_and_commands_count_comparisons_alike(
    page: str,
) -> None:
    row, f8 = main(ANSWER), main("F8")
    assert (row.holds_in, row.fails_in) == (f8.holds_in, f8.fails_in)
    text = pages()[page]
    counts = counts_of(text, row.parts)
    if page == "README.md":  # also what pretraining and other seeds would leave
        counts -= {2, 8}
    assert counts <= {row.holds_in, row.fails_in}
    assert row.holds_in in counts_of(text, row.parts)


def test_how_many_findings_there_are_of_each_kind() -> None:
    outcomes = [main(name).outcome for name in FINDINGS]
    counts = {
        one.counted[1].split()[0]: outcomes.count(one.name) for one in OUTCOMES.values()
    }
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    [said] = re.findall(
        r"Of (\d+) findings[^,]*, (\d+) hold, (\d+) fail, (\d+) hold in\s+part and (\d+) are open",
        readme,
    )
    assert list(map(int, said)) == [
        len(outcomes),
        *(outcomes.count(one.name) for one in OUTCOMES.values()),
    ]
    assert (
        counts["hold"]
        and f"{outcomes.count('holds')} of {len(outcomes)} findings"
        in collected("claims").title
    )
    assert (
        f"Of {len(outcomes)} findings, {outcomes.count('holds')} hold"
        in answer(ASSESSMENT).findings
    )


def filled(figure: Figure, size: float = 0.0) -> int:
    """Return how many marks of single rows are filled, of those of a size."""
    marks = [
        line
        for ax in figure.axes
        for line in ax.lines
        if np.size(line.get_xdata()) == 1
    ]
    return sum(
        line.get_marker() not in ("x", "None", 6, 7)
        and not same_color(line.get_markerfacecolor(), "white")
        for line in marks
        if not size or line.get_markersize() == size
    )


def test_as_many_marks_are_filled_as_the_title_counts() -> None:
    assert filled(picture("claims"), size=5) == int(
        collected("claims").title.split()[0]
    )
    row, title = main(ANSWER), collected("answer").title
    assert f"in {row.holds_in} of {row.known} comparisons" in title
    assert filled(picture("answer")) == row.holds_in + row.fails_in


@pytest.mark.parametrize("name", ["2", "4", "6", "9", "10"])
def test_as_many_marks_are_filled_as_a_caption_counts(name: str) -> None:
    said = sum(
        int(count)
        for count in re.findall(
            r"(\d+) of \d+", collected(name).caption.partition("\n")[0]
        )
    )
    assert filled(picture(name)) == said == sum(collected(name).data[CLEAR] == True)  # noqa: E712


def test_a_quarter_of_clm_counts_in_figure_6_as_in_the_answer() -> None:
    found = {
        int(share): int(count)
        for share, count in re.findall(
            r"(\d+)\s%\sCLM in (\d+) of 12", collected("6").caption
        )
    }
    assert found == {share: main(one.id).holds_in for share, one in ANSWERS.items()}


def test_the_report_fills_what_its_verdicts_count() -> None:
    page = render_page(gather(PUBLISHED, []), {})
    strip = page[page.index('class="strip"') : page.index('id="sure"')]
    # One in its sentence
    assert strip.count(" counted") - 1 == main(ANSWER).holds_in + main(ANSWER).fails_in
    for name in FINDINGS:
        card = page[page.index(f'<article id="{name}"') :].partition("<details")[0]
        row = main(name)
        assert f">{row.verdict}<" in card
        if row.known:
            assert card.count(' counted"') == row.holds_in + row.fails_in
