"""BM25 (Lucene's), the ranking by words that costs nothing: what any embedder is held against."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

K1, B = 1.5, 0.75
"""How fast a word's further occurrences count less, and how much a document's length matters."""
WORD = r"\b\w\w+\b"
"""A word: two letters or digits and more, in lower case."""
STOPWORDS = frozenset(
    {"a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not", "of",
     "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was", "will", "with"}
)  # fmt: skip
"""Lucene's English ones."""
_BLOCK = 64


def words(text: str) -> Counter[str]:
    """Return how often each word of a text that is no stop word occurs."""
    found = re.findall(WORD, text.lower())
    return Counter(word for word in found if word not in STOPWORDS)


def bm25_scores(
    documents: Sequence[str], queries: Sequence[str]
) -> Iterator[NDArray[np.float64]]:
    """Yield the scores of all documents for some queries after the other, each (queries, documents).

    A word of a query adds ln(1 + (N - n + 1/2) / (n + 1/2)) x f / (f + K1 (1 - B + B l / L)), with N documents, n that
    have it, f occurrences in the document, of l words where the mean is L.
    """
    counts = [words(text) for text in documents]
    vocabulary: dict[str, int] = {}
    for each in counts:
        for word in each:
            vocabulary.setdefault(word, len(vocabulary))

    def table(rows: Sequence[Counter[str]]) -> sparse.csr_array:
        known = [
            (row, vocabulary[word], count)
            for row, each in enumerate(rows)
            for word, count in each.items()
            if word in vocabulary
        ]
        places = np.array(known, dtype=np.int64).reshape(-1, 3)
        values = places[:, 2].astype(np.float64)
        size = (len(rows), len(vocabulary))
        return sparse.csr_array((values, (places[:, 0], places[:, 1])), shape=size)

    frequencies = table(counts).tocoo()
    lengths = np.array([each.total() for each in counts], dtype=np.float64)
    having = np.bincount(frequencies.col, minlength=len(vocabulary))
    rarity = np.log1p((len(documents) - having + 0.5) / (having + 0.5))
    relative = 1 - B + B * lengths / max(lengths.mean(), 1.0)
    saturation = frequencies.data / (frequencies.data + K1 * relative[frequencies.row])
    weights = sparse.csr_array(
        (
            rarity[frequencies.col] * saturation,
            (frequencies.col, frequencies.row),
        ),
        shape=(len(vocabulary), len(documents)),
    )
    for start in range(0, len(queries), _BLOCK):
        asked = table([words(text) for text in queries[start : start + _BLOCK]])
        yield (asked @ weights).toarray()
