"""MLDR."""

from __future__ import annotations

from typing import Any

import pytest

from common.errors import UserError
from tests.benchmarks.datasets.readers.originals import Put, read, rows


def test_mldr(put: Put) -> None:
    def row(i: int, text: str | None) -> dict[str, Any]:
        passage = {"docid": f"doc{i}"} | ({"text": text} if text else {})
        return {
            "query_id": f"q{i}",
            "query": f"ask {i}",
            "positive_passages": [passage],
            "negative_passages": [],
        }

    corpus = put("corpus.jsonl", [{"docid": f"doc{i}", "text": f"long {i}"} for i in range(9)])
    dev, test = put("dev.jsonl", [row(1, None)]), put("test.jsonl", [row(2, "brought along")])
    content = read("mldr_en", validation=dev, test=test, corpus=corpus)
    assert rows(content, "corpus") == [
        {"id": "doc1", "title": None, "text": "long 1"},
        {"id": "doc2", "title": None, "text": "long 2"},
    ]
    with pytest.raises(
        UserError, match="mldr_en needs the texts of its positive passages: name the file with --corpus FILE"
    ):
        read("mldr_en", validation=dev, test=test)


def asked(number: int, *docs: str, **text: str) -> dict[str, Any]:
    passages = [{"docid": doc, **text} for doc in docs]
    return {"query_id": f"q{number}", "query": f"ask {number}", "positive_passages": passages}


def test_every_positive_passage_is_judged_relevant_once(put: Put) -> None:
    dev = put("dev.jsonl", [asked(1, "a", "b", text="x"), asked(2, "b", text="x")])
    content = read("mldr_en", validation=dev, test=put("test.jsonl", [asked(3, "a", text="x")]))
    assert [tuple(row.values()) for row in rows(content, "qrels")] == [
        ("validation", "q1", "a", 1),
        ("validation", "q1", "b", 1),
        ("validation", "q2", "b", 1),
        ("test", "q3", "a", 1),
    ]
    assert [tuple(row.values()) for row in rows(content, "queries")] == [
        ("validation", "q1", "ask 1"),
        ("validation", "q2", "ask 2"),
        ("test", "q3", "ask 3"),
    ]
    assert content.notes == ()


def test_the_corpus_gives_the_texts_of_wanted_documents_only(put: Put) -> None:
    path = put("dev.jsonl", [asked(1, "a", text="short")])
    corpus = put("corpus.jsonl", [{"docid": "b", "text": "unasked"}, {"docid": "a", "text": "long"}])
    content = read("mldr_en", validation=path, test=path, corpus=corpus)
    assert rows(content, "corpus") == [{"id": "a", "title": None, "text": "long"}]


def test_passages_without_text_are_counted_and_the_first_is_named(put: Put) -> None:
    path, corpus = put("dev.jsonl", [asked(1, "c"), asked(2, "a", "b")]), put("corpus.tsv", "a\tlong\n")
    with pytest.raises(UserError, match=r"2 judged document ids, the first 'c', are not in .*corpus\.tsv"):
        read("mldr_en", validation=path, test=path, corpus=corpus)


def test_a_row_of_another_form_is_named_or_left_out(put: Put) -> None:
    path = put("dev.jsonl", [{"query_id": "q0"}, asked(1, "a", text="x")])
    with pytest.raises(UserError, match=r"dev\.jsonl:1: the row has not .*: 'positive_passages' is missing"):
        read("mldr_en", validation=path, test=path)
    content = read("mldr_en", validation=path, test=path, skip_bad=True)
    assert [row["id"] for row in rows(content, "queries")] == ["q1", "q1"]
