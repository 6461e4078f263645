"""Answers in other languages: MLQA's evaluation as its authors define it, and SQuAD's for XQuAD and TyDi QA."""

from __future__ import annotations

import string
import unicodedata
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torchmetrics.functional.text import squad as torchmetrics_squad

from benchmarks.metrics.metric import METRICS, AnswerPredictions
from benchmarks.metrics.standard import squad_scores
from benchmarks.own_datasets.definition_file import READY, read_definitions
from benchmarks.protocol import LANGUAGES
from benchmarks.ragged import Ragged

ARTICLES = {
    "en": "a an the",
    "es": "un una unos unas el la los las",
    "vi": "của là cái chiếc những",
    "de": "ein eine einen einem eines einer der die das den dem des",
}
WORDS = [*" ".join(ARTICLES.values()).split(), "Haus", "El", "café", "北京", "的", "。", "、", "2008年", "«a»", "ال",
         "البيت", "घर", "।", "it's", "x-y", "...", "—", "¿qué?", "$5", "A", "THE", "龥", "龦"]  # fmt: skip
ANSWER = st.lists(st.sampled_from(WORDS), max_size=5).flatmap(
    lambda words: st.sampled_from(["", " ", "\t "]).map(lambda space: space.join(words))
)


def tokens(text: str, language: str) -> list[str]:
    """MLQA's: small letters, no punctuation of any script, no articles of the language, Chinese by character."""
    bare = "".join(
        mark
        for mark in text.lower()
        if unicodedata.category(mark)[0] != "P" and mark not in string.punctuation
    )
    if language == "ar":
        bare = " ".join(bare.split("\u0627\u0644"))
    parted = "".join(
        f" {mark} " if language == "zh" and "\u4e00" <= mark <= "\u9fa5" else mark for mark in bare
    )
    articles = ARTICLES.get(language, "").split()
    return [word for word in parted.split() if word not in articles]


def f1(ours: list[str], gold: list[str]) -> float:
    shared = sum((Counter(ours) & Counter(gold)).values())
    return 2 * shared / (len(ours) + len(gold)) if shared else float(not ours and not gold)


@settings(max_examples=300)
@given(ANSWER, st.lists(ANSWER, min_size=1, max_size=3), st.sampled_from(LANGUAGES))
def test_answers_are_compared_as_mlqas_authors_do(predicted: str, answers: list[str], language: str) -> None:
    """But for answers of punctuation and articles alone: an empty answer to none is right here, as in SQuAD 2.0."""
    golds = [found for answer in answers if (found := tokens(answer, language))] or [[]]
    ours = tokens(predicted, language)
    exact, overlap = squad_scores(predicted, answers, language)
    assert exact == max(ours == gold for gold in golds)
    assert overlap == pytest.approx(max(f1(ours, gold) for gold in golds), abs=1e-12)


@pytest.mark.parametrize(
    ("language", "predicted", "gold", "mlqa", "squad"),
    [
        ("zh", "北京大学", "北京", (0, 2 / 3), (0, 0)),
        ("zh", "北京。", "北京", (1, 1), (0, 0)),
        ("de", "der Hund", "ein Hund", (1, 1), (0, 0.5)),
        ("es", "¿la casa?", "casa", (1, 1), (0, 2 / 3)),
        ("ar", "البيت", "بيت", (1, 1), (0, 0)),
        ("hi", "घर।", "घर", (1, 1), (0, 0)),
    ],
)
def test_a_language_has_its_own_rules_in_mlqa_and_none_in_squad(
    language: str, predicted: str, gold: str, mlqa: tuple[float, float], squad: tuple[float, float]
) -> None:
    assert squad_scores(predicted, [gold], language) == pytest.approx(mlqa)
    assert squad_scores(predicted, [gold]) == pytest.approx(squad)
    answer = {"answer_start": [0], "text": [gold]}
    theirs = torchmetrics_squad({"prediction_text": predicted, "id": "1"}, {"answers": answer, "id": "1"})
    assert [float(theirs[name]) / 100 for name in ("exact_match", "f1")] == pytest.approx(squad)
    empty = Ragged.of([[0]])
    made = AnswerPredictions(chosen=empty, gold=empty, texts=[predicted], answers=[[gold]], language=language)
    assert METRICS["standard QA f1"].compute(made).value == pytest.approx(mlqa[1])


def test_ready_datasets_are_compared_as_their_authors_do() -> None:
    """XQuAD's and TyDi QA's name SQuAD's evaluation, whatever the language."""
    found = {path.stem: {one.name: one.language for one in read_definitions(path)} for path in READY.values()}
    assert found["mlqa"] == {f"mlqa_{language}": language for language in LANGUAGES}
    assert not any(language for file in found if file != "mlqa" for language in found[file].values())
