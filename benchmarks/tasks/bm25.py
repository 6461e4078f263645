"""BM25 (Lucene's, by bm25s): a ranking by words that needs no training, with which any embedder is compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

K1, B = 1.5, 0.75
"""How fast a word's further occurrences count less, and how much a document's length matters."""
METHOD = "lucene"
WORD = r"(?u)\b\w\w+\b"
"""A word: two letters or digits and more, in lower case."""
STOPWORDS = "english"
"""The library's name for Lucene's list of 33 stop words."""


def bm25_scores(
    documents: Sequence[str], queries: Sequence[str]
) -> Iterator[NDArray[np.float32]]:
    """Yield for each query the scores of all documents, shape (documents,).

    A word of a query adds ln(1 + (N - n + 1/2) / (n + 1/2)) x f / (f + K1 (1 - B + B l / L)) to a document's score.
    Here N is the number of documents, n how many of them have the word, and f how often it occurs in this document. The
    document has l words, and the mean document L.
    """
    # Imported here: not every environment has it.
    import bm25s

    def words(texts: Sequence[str]) -> list[list[str]]:
        tokens: list[list[str]] = bm25s.tokenize(
            list(texts),
            token_pattern=WORD,
            stopwords=STOPWORDS,
            return_ids=False,
            show_progress=False,
        )
        return tokens

    index = bm25s.BM25(k1=K1, b=B, method=METHOD)
    index.index(words(documents), show_progress=False)
    for query in words(queries):
        if query:
            yield index.get_scores(query)
        else:
            # A query of only stop words matches nothing.
            yield np.zeros(len(documents), dtype=np.float32)
