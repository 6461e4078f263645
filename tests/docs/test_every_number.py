"""Every number of five pages is printed by a command or a script, or is one of a few kinds of names and settings."""

import re
from collections.abc import Iterator
from functools import cache

import pytest

from clm_or_mlm.__main__ import main
from common.provenance import ROOT
from tests.analysis import how_sure
from tests.docs.stated import STATED
from tests.speed.interval_coverage import by_cells, published

FINDINGS = "docs/findings.md"
PAGES = (
    "README.md",
    "docs/how-sure.md",
    FINDINGS,
    "docs/claims.md",
    "docs/miniature.md",
)
NUMBER = re.compile(
    r"\d+(?:[.,]\d+)*|\b(?:three|four|five|six|seven|eight|nine|ten|twelve)\b", re.I
)
"""Digits wherever they stand, and number words from three on."""

KINDS = {
    "names of findings, tables, figures and models": (
        r"\bF\d+[a-e]?\b|\b(?:Tables?|Figures?) \d[-\d, and]*|\b(?:210m|610m|1b)-[\w-]*\w"
    ),
    "other names": (
        r"\b(?:SST-2|sst2|SQuAD-v2|T5|H100|Python 3\.11|Apache-2\.0|figure3)\b|arxiv\.org/\S+|`A-s[12]`|"
        r"`[\w. -]+ --?\w[^`]*`"
    ),
    "literature": r"\b[A-Z][\w']+(?: and [A-Z]\w+| et al\.)? \(?(?:19|20)\d\d\b|\beight or nine datasets, not three\b",
    "history of commits": r"\bset when six were known\b",
    "the paper's sizes, budgets, masking ratio and shares of CLM": (
        r"\b(?:210|610)M\b|\b[1-9]\dK\b|\b40 %|\b(?:25|50|75)(?:,| and| to| %)"
    ),
    "the paper's design": (
        r"\b(?:five|ten) (?:cells|other|seeds)\b|\bfive models\b|\b[Tt]hree (?:sizes|shares|budgets|datasets)\b|"
        r"\b(?:the )?four tasks\b"
    ),
    "levels of tests, and what a contrast is held against": (
        r"\b95 %|\bat (?:most )?(?:5 %|0\.05)|\bover 0\.05|\b(?:above|below|within) (?:or below )?[01](?: and 100)?\b|"
        r"\b100 - score|\bn - k \+ 1\b"
    ),
    "lengths and counts of the toy studies (miniature/curves/study.toml)": (
        r"\b(?:840|2,520|5,040)\b|\bpretrained five times\b|\bfive pretrainings\b|\bthe three differences\b"
    ),
    "wordings that a finding has": r"\bby 1 to 3 points\b|\(1, 3\)",
    "measured once, on a machine that a test does not have": (
        r"\b7\.3 GB|\b160 CPU seconds|\b4\.3 CPU hours|\b18,483 result files|\b655 NQ-open|\b200 characters"
    ),
}
"""What no command has to print, by kind."""


def words(text: str) -> str:
    """Return a page or a sentence on one line, without marks of lists and of bold letters."""
    without_marks = re.sub(r"^\d+\. ", "", text, flags=re.MULTILINE).replace("**", "")
    return " ".join(without_marks.split())


@cache
def page(name: str) -> str:
    return words((ROOT / name).read_text(encoding="utf-8"))


@cache
def stated(name: str) -> tuple[str, ...]:
    """Return what commands and scripts state of a page, as it should stand there."""
    if name == "docs/how-sure.md":
        return tuple(map(words, how_sure.lines()))
    return tuple(map(words, STATED[name]()))


def unaccounted(text: str, sentences: tuple[str, ...]) -> Iterator[str]:
    """Yield each number that is in no sentence and of no kind, with what stands around it."""
    patterns = [*map(re.escape, sentences), *KINDS.values(), *SLOW, *ASSERTED]
    spans = [found.span() for one in patterns for found in re.finditer(one, text)]
    for number in NUMBER.finditer(text):
        start, end = number.span()
        if not any(low <= start and end <= high for low, high in spans):
            yield text[max(0, start - 30) : end + 30]


@pytest.mark.parametrize("name", [name for name in PAGES if name != FINDINGS])
def test_each_number_of_a_page_is_accounted_for(name: str) -> None:
    left = list(unaccounted(page(name), stated(name)))
    assert not left, (
        f"{name} has numbers that nothing computes: {left}. Let tests/docs/stated.py (of docs/how-sure.md "
        "tests/analysis/how_sure.py) yield the sentence from what a command prints, or add its kind to KINDS."
    )


@pytest.mark.parametrize("name", [name for name in PAGES if name != FINDINGS])
def test_each_sentence_that_is_computed_stands_on_its_page(name: str) -> None:
    absent = [one for one in stated(name) if one.lower() not in page(name).lower()]
    assert absent == []


def test_the_page_of_findings_is_what_a_command_prints(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["claims", "--format", "markdown"]) == 0
    assert words(capsys.readouterr().out) == page(FINDINGS)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("this holds in 7 of 12 cases", 2),
        ("F8 of Figure 6, 42K steps, 40 % masked (Berger 1982)", 0),
        ("it covers 91 % with five seeds", 1),
        ("six datasets at 610M", 1),
    ],
)
def test_a_number_that_nothing_computes_is_found(text: str, left: int) -> None:
    assert len(list(unaccounted(text, ()))) == left
    assert not list(unaccounted(text, (text,)))


SLOW = (
    r"\| the mean over seeds, for these instances( \| \d\d\.\d){5} \|",
    r"\| the mean over seeds and instances( \| \d\d\.\d){5} \|",
    r"collapse in three seeds of ten, those are covered in \d\d to \d\d % of trials \(`t`: \d\d to \d\d %\)",
)
"""What simulations of minutes give: the tests below."""

ASSERTED = (r"it covers over 91 % in simulations of 40 clusters, else under 82 %",)
"""Bounds of a test: `tests/analysis/statistics/test_crossed_coverage.py`."""


@pytest.mark.slow
def test_coverage_with_test_instances_is_simulated() -> None:
    means = published(2_000).query("dataset == 'average'").set_index("target")
    for target, title in (
        ("seeds", "the mean over seeds, for these instances"),
        ("seeds and instances", "the mean over seeds and instances"),
    ):
        columns = ("paper", "t", "pooled", "bootstrap", "crossed")
        shares = [100 * float(means.at[target, name]) for name in columns]
        cells = " | ".join(f"{share:.1f}" for share in shares)
        assert f"| {title} | {cells} |" in page("docs/claims.md")


@pytest.mark.slow
def test_coverage_where_an_eighth_collapses_is_simulated() -> None:
    found = by_cells(9_200, only=["mixed"]).query("n_cells > 4")
    affected = 100 * found[["pooled_affected", "t_affected"]]
    pooled, student = affected["pooled_affected"], affected["t_affected"]
    assert (
        f"covered in {pooled.min():.0f} to {pooled.max():.0f} % of trials "
        f"(`t`: {student.min():.0f} to {student.max():.0f} %)"
    ) in page("docs/claims.md")
