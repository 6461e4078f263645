"""BM25 against its formula, counted by hand."""

import math

import numpy as np

from benchmarks.tasks.bm25 import K1, B, bm25_scores

DOCUMENTS = [
    "The valve of the pump leaks, and the pump stops.",
    "Replace the filter before the motor runs hot",
    "a pump and a motor",
    "",
    "Pumps: oil them; x y",
]


def test_scores_are_those_of_the_formula() -> None:
    """Words are counted by hand."""
    (scores,) = bm25_scores(DOCUMENTS, ["Does the PUMP leak? pump!"])
    lengths = [5, 6, 2, 0, 3]
    mean = sum(lengths) / 5
    rarity = math.log(1 + (5 - 2 + 0.5) / (2 + 0.5))
    wanted = [0.0] * 5
    for number, count in ((0, 2), (2, 1)):
        length = 1 - B + B * lengths[number] / mean
        wanted[number] = 2 * rarity * count / (count + K1 * length)
    np.testing.assert_allclose(scores, wanted, rtol=1e-6)


def test_a_query_of_stop_words_finds_nothing() -> None:
    (scores,) = bm25_scores(DOCUMENTS, ["the and of"])
    assert scores.tolist() == [0.0] * 5


def test_stop_words_are_lucenes() -> None:
    (scores,) = bm25_scores(["pump not there", "with it"], ["not there with it"])
    assert scores.tolist() == [0.0, 0.0]
