"""Every number of the README's answer, however it is worded, is one that the commands print."""

import re

import pytest

from analysis.claims.answer import Answer
from common.provenance import ROOT
from tests.analysis.how_sure import seeds_again

NUMBER = re.compile(r"(?<![\w.])[-+]?(\d+(?:,\d{3})*(?:\.\d+)?)(?=[KM%]?\b|\s|$|\])")
SCALE = {"100", "40", "610", "12,000"}
"""Points are out of 100; the paper's ratio of masking and size of model; what 12K means."""


def answer_block() -> str:
    """Return what stands between the title and the first table or heading, without addresses and pictures."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").split("\n", 1)[1]
    block = re.split(r"\n(?=\||#)", text)[0]
    return re.sub(r"!\[[^\]]*\]|\]\([^)]*\)|arXiv:\S+", " ", block)


def numbers(text: str) -> set[str]:
    return set(NUMBER.findall(text))


@pytest.fixture
def printed(published: Answer) -> set[str]:
    """The numbers that `claims --format markdown`, the report and the script of how-sure.md print."""
    said = (
        published.headline,
        published.pretraining,
        *published.splits,
        *published.cautions,
        published.findings,
        seeds_again(),
    )
    return numbers(" ".join(said))


def test_each_number_of_the_answer_is_printed_by_a_command(printed: set[str]) -> None:
    said = numbers(answer_block())
    assert len(said) >= 8
    assert said - SCALE <= printed


@pytest.mark.parametrize("number", ["6", "12", "0.24", "0.42", "1", "2"])
def test_answer_counts_what_holds_and_what_retraining_leaves(
    number: str, printed: set[str]
) -> None:
    assert number in numbers(answer_block()) & printed
