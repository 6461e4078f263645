"""The answer in two sentences: every outcome has its own, and the numbers are those of the verdicts."""

from __future__ import annotations

import math

import pytest

from analysis.claims.answer import HEADLINES, MAIN, answer
from analysis.claims.assessment import assess
from analysis.claims.catalogue import CLAIMS
from analysis.claims.evidence import Finding
from analysis.claims.statements import Comparison, Contrast
from analysis.claims.verdicts import Verdict, judge
from analysis.sources import PUBLISHED, open_source
from analysis.statistics.scores_table import Settings


def verdicts(p_for: float, p_against: float, *, effect: float = 1.0, few: bool = False) -> list[Verdict]:
    """Verdicts on the catalogue where every comparison has these p's; `few`: only the 12k budget is known."""

    def finding_of(comparison: Comparison) -> Finding:
        if not isinstance(comparison, Contrast) or (few and "12k" not in comparison.label):
            return Finding(comparison=comparison, missing="no runs of it")
        return Finding(
            comparison=comparison,
            effect=effect,
            low=effect - 0.25,
            high=effect + 0.25,
            p_for=p_for,
            p_against=p_against,
        )

    return judge(CLAIMS, finding_of)


@pytest.mark.parametrize(
    ("p_for", "p_against", "begins", "says"),
    [
        (1e-9, 1.0, "Yes, after CLM: ", "in at least 12 of 12 comparisons (simultaneous 95 %)"),
        (1.0, 1e-9, "Not after CLM: ", "in at least 0 of 12 comparisons"),
        (0.5, 0.5, "Undecided: ", "none of 12 comparisons shows"),
    ],
)
def test_each_outcome_has_its_sentence(p_for: float, p_against: float, begins: str, says: str) -> None:
    sentence = answer(verdicts(p_for, p_against)).sentences[0]
    assert sentence.startswith(begins) and says in sentence and "+1.0 points [+0.8, +1.2]" in sentence
    if p_against < 0.05:
        assert "is shown to be worse in at least 12" in sentence


def test_a_source_with_some_comparisons_counts_those_alone() -> None:
    sentence = answer(verdicts(1e-9, 1.0, few=True)).sentences[0]
    assert "in at least 4 of the 4 comparisons (of 12) that this source allows" in sentence
    assert sentence.startswith("Sometimes")


def test_a_source_without_any_says_why() -> None:
    nothing = judge(CLAIMS, lambda comparison: Finding(comparison=comparison, missing="no runs of 610m"))
    found = answer(nothing)
    assert found.sentences[0].endswith("beats MLM alone: no runs of 610m.")
    assert f"Of {len(CLAIMS)} findings tested {len(CLAIMS)} need another source;" in found.sentences[1]


def test_the_published_answer_is_that_of_its_verdicts() -> None:
    judged = assess(PUBLISHED, Settings()).verdicts
    found = answer(judged)
    [main] = [verdict for verdict in judged if verdict.claim.id == MAIN]
    assert main.typical is not None and not math.isnan(main.typical.effect)
    assert f"at least {main.tree.hold} of {len(main.tree.units)}" in found.sentences[0]
    assert f"{main.typical.effect:+.1f} points" in found.sentences[0]
    assert sum(int(n) for n in found.sentences[1].replace(",", "").split() if n.isdecimal()) == 2 * len(
        judged
    )
    assert [verdict.claim.id for verdict in found.headlines] == list(HEADLINES)


def test_stand_ins_are_called_so() -> None:
    source = open_source("miniature")
    judged = assess(source, Settings(interval="t"), second_opinion=False).verdicts
    assert "stand-ins for the paper's models" in answer(judged, stand_ins=True).sentences[0]
