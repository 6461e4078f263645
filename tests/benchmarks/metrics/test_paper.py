import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score, ndcg_score

from benchmarks.metrics import paper
from benchmarks.metrics.metric import (
    METRICS,
    ClassPredictions,
    Metric,
    RankingPredictions,
    Score,
    TagPredictions,
)
from benchmarks.ragged import Ragged

SEEDS = st.integers(0, 2**32 - 1)


def scored(name: str, predictions: object) -> list[float]:
    """Return the scores of the instances by the paper's metric of that name, of which the value is the mean."""
    score: Score = METRICS[f"paper {name}"].compute(predictions)
    scores = list(score.instances[Metric.SCORES_I])
    assert score.value == pytest.approx(sum(scores) / len(scores))
    return scores


def test_accuracy_is_one_for_the_gold_class_and_else_zero() -> None:
    made = ClassPredictions(
        predicted=np.array([0, 2, 1, 1]), gold=np.array([0, 1, 2, 1])
    )
    assert scored("SC accuracy", made) == [1, 0, 0, 1]


def test_tags_are_the_votes_of_words_with_sub_tokens() -> None:
    made = TagPredictions(
        tokens=np.array([9, 1, 1, 2, 0, 2, 9]),
        words=np.array(
            [-1, 0, 0, 0, 2, 4, -1]
        ),  # words 1 and 3 lost their sub-tokens, the third sentence all
        gold=Ragged.of([[1, 2], [0, 1, 2], [1]]),
        names=("O", "B-X", "I-X"),
    )
    # The first sentence has the word 1 alone, the second 0 and 2; nothing is left of the third.
    assert scored("TC macro_f1", made) == [1.0, 1.0, 1.0]
    wrong = TagPredictions(
        tokens=made.tokens,
        words=made.words,
        gold=Ragged.of([[0, 0], [0, 0, 0], [0]]),
        names=made.names,
    )
    assert scored("TC macro_f1", wrong) == pytest.approx([0.0, (2 / 3 + 0) / 2, 1.0])


def gain(rank: int) -> float:
    """Return what a relevant document counts at a rank from 1."""
    return 1 / math.log2(rank + 1)


def ranking(queries: list[str], documents: list[list[str]]) -> RankingPredictions:
    similarities = np.array([[0.9, 0.8, 0.7]] * len(documents))
    return RankingPredictions(
        query_ids=queries,
        qrels={
            "p": {"a": 1, "b": 0, "x": 1},
            "q": {"c": 2, "b": -1},
            "unasked": {"b": 1},
        },
        paper_similarities=similarities,
        paper_documents=documents,
        similarities=np.zeros_like(similarities),
        documents=[[] for _ in documents],
    )


def test_relevant_is_what_was_judged_one_or_more() -> None:
    """Not what was judged 0 or less, was not judged, or belongs to another query."""
    made = ranking(["q", "p"], [["b", "a", "c"], ["a", "b", "c"]])
    assert scored("IR ndcg_at_10", made) == pytest.approx([gain(3), 1.0])


@given(seed=SEEDS)
def test_sentence_f1s_equal_scikit_learns_macro_f1(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 15, 8)
    gold = [rng.integers(0, rng.integers(1, 10), n) for n in lengths]
    predicted = [
        np.where(rng.random(len(row)) < 0.7, row, rng.integers(0, 37, len(row)))
        for row in gold
    ]
    expected = [
        f1_score(g, p, average="macro", zero_division=0.0)
        for g, p in zip(gold, predicted, strict=True)
    ]
    np.testing.assert_allclose(
        paper.sentence_f1s(Ragged.of(predicted), Ragged.of(gold)),
        expected,
        rtol=0,
        atol=1e-14,
    )


@given(seed=SEEDS)
def test_the_vote_is_pythons_max_over_the_set_of_votes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    words = np.sort(rng.integers(-1, 12, 60))
    predicted = rng.integers(0, 37, 60) // rng.integers(1, 9)
    expected = {}
    for word in sorted(set(words[words >= 0].tolist())):
        votes = predicted[words == word].tolist()
        expected[word] = max(set(votes), key=votes.count)
    found, tags = paper.vote_words(predicted, words)
    assert dict(zip(found.tolist(), tags.tolist(), strict=True)) == expected


def test_no_sub_tokens_give_no_words() -> None:
    words, tags = paper.vote_words(np.array([1]), np.array([-1]))
    assert len(words) == len(tags) == 0


def _set_f1(predicted: set[int], gold: set[int]) -> float:
    predicted, gold = predicted or {0}, gold or {0}
    both = len(predicted & gold)
    if not both:
        return 0.0
    precision, recall = both / len(predicted), both / len(gold)
    return 2 * precision * recall / (precision + recall)


@given(seed=SEEDS)
def test_position_f1s_equal_set_arithmetic(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 12, 30)
    gold = [rng.random(n) < rng.random() * 0.5 for n in lengths]
    predicted = [rng.random(n) < rng.random() * 0.5 for n in lengths]
    expected = [
        _set_f1(set(np.flatnonzero(p).tolist()), set(np.flatnonzero(g).tolist()))
        for p, g in zip(predicted, gold, strict=True)
    ]
    scores = paper.position_f1s(Ragged.of(predicted), Ragged.of(gold))
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-14)


@settings(deadline=None)
@given(seed=SEEDS, depth=st.integers(2, 10), grid=st.sampled_from([3, 1000]))
def test_ndcgs_equal_scikit_learns_ties_included(
    seed: int, depth: int, grid: int
) -> None:
    rng = np.random.default_rng(seed)
    similarities = -np.sort(-rng.integers(0, grid, (12, depth)) / grid, axis=1)
    relevances = (rng.random((12, depth)) < 0.3).astype(np.int64)
    expected = [ndcg_score(relevances[[i]], similarities[[i]]) for i in range(12)]
    np.testing.assert_allclose(
        paper.ndcgs(similarities, relevances), expected, rtol=0, atol=1e-12
    )
