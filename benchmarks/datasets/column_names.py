"""The names of columns that need no entry in a definition, of every kind of dataset: the one table of them.

docs/add-a-dataset.md prints it. Of several names the first that a row has counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

Names = tuple[str, ...]

_TEXT = ("text", "sentence")
_ANSWERS = {
    "question": ("question",),
    "context": ("context",),
    "answers": ("answers",),
    "id": ("id",),
}

FIELD_NAMES: Mapping[str, Mapping[str, Names]] = {
    "text": {"text": _TEXT, "label": ("label",)},
    "pair": {
        "text": ("sentence1", "premise", "question1", "text1"),
        "second": ("sentence2", "hypothesis", "question2", "text2"),
        "label": ("label",),
    },
    "labels": {"text": _TEXT, "labels": ("labels",)},
    "value": {
        "text": ("sentence1", *_TEXT),
        "second": ("sentence2",),
        "value": ("score", "label", "value"),
    },
    "tags": {"words": ("words", "tokens"), "tags": ("tags", "ner_tags", "ner")},
    "answers": _ANSWERS,
    "answers or none": _ANSWERS,
    "retrieval": {
        "query": ("query", "anchor", "question", "sentence1"),
        "positive": (
            "positive",
            "positives",
            "pos",
            "document",
            "passage",
            "answer",
            "sentence2",
        ),
    },
}
"""The names of columns, by kind of dataset and by field of the local form."""

TEXTS: Mapping[str, Names] = {
    "id": ("_id", "id", "docid", "doc_id", "query_id", "pid", "qid"),
    "text": ("text", "query"),
}
"""The names of columns in retrieval's files of queries and of documents, by field."""

JUDGEMENTS: Mapping[str, Names] = {
    "query": ("query-id", "query_id", "qid"),
    "document": ("corpus-id", "corpus_id", "doc_id", "docid", "pid"),
    "relevance": ("score", "relevance", "label"),
}
"""The names of columns in retrieval's files of judgements, by field."""

DOCUMENT_IDS: Names = ("document_id", "doc_id", "document")
"""The names of the column that says from which document a sentence of words and tags is."""

NEGATIVE_NAMES: Names = ("negative", "negatives", "hard_negative", "hard_negatives")
"""The names of columns of hard negatives; sentence-transformers, FlagEmbedding and others may number them."""
_NEGATIVE = re.compile(r"(hard_?)?neg(ative)?s?([_-]?\d+)?")


def is_negative(name: str) -> bool:
    """Return whether a column has hard negatives by its name: `negative`, `neg_2`, `hard_negatives`."""
    return _NEGATIVE.fullmatch(name) is not None
