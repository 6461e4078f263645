from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seqeval.metrics import f1_score as seqeval_f1
from sklearn.metrics import f1_score
from torchmetrics.functional.text import squad as torchmetrics_squad

from benchmarks.metrics import standard

SEEDS = st.integers(0, 2**32 - 1)
TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


@given(seed=SEEDS)
def test_binary_f1_equals_scikit_learns(seed: int) -> None:
    rng = np.random.default_rng(seed)
    predicted, gold = rng.integers(0, 2, (2, rng.integers(1, 20)))
    assert standard.binary_f1(predicted, gold) == pytest.approx(f1_score(gold, predicted, zero_division=0.0))


@settings(deadline=None)
@given(seed=SEEDS)
def test_entity_f1_equals_seqevals(seed: int) -> None:
    rng = np.random.default_rng(seed)
    gold = [rng.choice(TAGS, n).tolist() for n in rng.integers(1, 12, 15)]
    predicted = [[t if rng.random() < 0.8 else str(rng.choice(TAGS)) for t in row] for row in gold]
    counts = standard.entity_counts(predicted, gold)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = seqeval_f1(gold, predicted)
    assert standard.f1_of_counts(counts) == pytest.approx(expected)


def test_an_entity_needs_its_type_and_both_ends() -> None:
    gold = [["B-PER", "I-PER", "O", "B-LOC"]]
    assert standard.entity_counts([["B-PER", "O", "O", "B-LOC"]], gold).tolist() == [[1, 2, 2]]
    assert standard.f1_of_counts(standard.entity_counts([["O"] * 4], gold)) == 0.0
    assert standard.f1_of_counts(standard.entity_counts([["O"]], [["O"]])) == 0.0


@pytest.mark.parametrize(
    ("predicted", "answers", "exact", "f1"),
    [
        ("The Denver Broncos!", ["denver broncos", "Broncos"], 1.0, 1.0),
        ("Broncos of Denver", ["Denver Broncos"], 0.0, 0.8),
        ("", [], 1.0, 1.0),
        ("Denver", [], 0.0, 0.0),
        ("", ["Denver"], 0.0, 0.0),
        ("a", ["the"], 1.0, 1.0),  # both normalise to nothing
    ],
)
def test_squad_scores_by_hand(predicted: str, answers: list[str], exact: float, f1: float) -> None:
    assert standard.squad_scores(predicted, answers) == pytest.approx((exact, f1))


@given(seed=SEEDS)
def test_squad_scores_equal_torchmetrics(seed: int) -> None:
    rng = np.random.default_rng(seed)
    words = ["the", "Red", "red", "house,", "house", "An", "apple's", "1990", "b"]
    texts = [" ".join(rng.choice(words, rng.integers(1, 6))) for _ in range(4)]
    # SQuAD 2.0's script drops gold answers that normalise to nothing; torchmetrics has SQuAD 1.1's.
    answers = [text for text in texts[1:] if set(text.lower().split()) - {"the", "an"}] or ["red"]
    theirs = torchmetrics_squad(
        {"prediction_text": texts[0], "id": "x"},
        {"answers": {"answer_start": [0] * len(answers), "text": answers}, "id": "x"},
    )
    exact, f1 = standard.squad_scores(texts[0], answers)
    assert (exact * 100, f1 * 100) == pytest.approx(
        (float(theirs["exact_match"]), float(theirs["f1"])), abs=1e-3
    )


def test_one_of_three_relevant_documents_at_rank_one_scores_0_469() -> None:
    run = {"q": {f"d{i}": 1.0 - i / 10 for i in range(10)}}
    qrels = {"q": {"d0": 1, "missing1": 1, "missing2": 1, "d5": 0}}
    assert standard.ranking_scores(run, qrels, "ndcg_cut_10")["q"] == pytest.approx(0.469, abs=5e-4)
    assert standard.ranking_scores(run, qrels, "recall_10")["q"] == pytest.approx(1 / 3)


def test_relevance_grades_count_and_an_unranked_query_scores_zero() -> None:
    qrels = {"q": {"a": 3, "b": 1}, "other": {"a": 1}}
    run = {"q": {"b": 0.9, "a": 0.1}}
    scores = standard.ranking_scores(run, qrels, "ndcg_cut_10")
    expected = (1 / np.log2(2) + 3 / np.log2(3)) / (3 / np.log2(2) + 1 / np.log2(3))
    assert scores["q"] == pytest.approx(expected)
    assert scores["other"] == 0.0
    assert standard.ranking_scores(run, qrels, "recall_100") == {"q": 1.0, "other": 0.0}
