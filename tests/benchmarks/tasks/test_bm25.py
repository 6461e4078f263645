"""BM25 against its formula and against the library bm25s, where that is at hand."""

import math

import numpy as np
import pytest

from benchmarks.tasks.bm25 import K1, STOPWORDS, B, bm25_scores

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
    np.testing.assert_allclose(scores[0], wanted, rtol=1e-12)


def test_scores_are_the_librarys() -> None:
    library = pytest.importorskip("bm25s")
    drawn = np.random.default_rng(0)
    vocabulary = [*STOPWORDS, *(f"word{number}" for number in range(60))]

    def text(most: int) -> str:
        return " ".join(drawn.choice(vocabulary, size=int(drawn.integers(1, most))))

    documents, queries = [text(40) for _ in range(90)], [text(9) for _ in range(70)]
    index = library.BM25(k1=K1, b=B, method="lucene")
    tokens = library.tokenize(documents, stopwords="en", show_progress=False)
    index.index(tokens, show_progress=False)
    ours = np.concatenate(list(bm25_scores(documents, queries)))
    for scores, query in zip(ours, queries, strict=True):
        asked = library.tokenize(
            [query], stopwords="en", return_ids=False, show_progress=False
        )
        wanted = index.get_scores(asked[0]) if asked[0] else np.zeros(len(documents))
        np.testing.assert_allclose(scores, wanted, rtol=1e-5, atol=1e-6)


def test_stop_words_are_the_librarys() -> None:
    library = pytest.importorskip("bm25s.stopwords")
    assert set(library.STOPWORDS_EN) == STOPWORDS
