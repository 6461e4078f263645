"""MLDR, and QMSum in its form."""

from __future__ import annotations

from typing import Any

import pytest

from common.errors import UserError
from tests.benchmarks.datasets.readers.originals import Put, read, rows

HEADER = "query-id\tcorpus-id\tscore\n"


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
        UserError, match=r"1 positive passages, the first 'doc1', come without text; .* --corpus"
    ):
        read("mldr_en", validation=dev, test=test)


def test_qmsum_in_mldr_form(put: Put) -> None:
    meeting = {
        "meeting_transcripts": [{"speaker": "A", "content": "hello"}, {"speaker": "B", "content": "bye"}],
        "general_query_list": [{"query": "Summarise", "answer": "x"}],
        "specific_query_list": [{"query": "who left?", "answer": "B"}, {"query": "who came?", "answer": "A"}],
    }
    path = put("val.jsonl", [meeting])
    content = read("mldr_en", validation=path, test=path)
    assert rows(content, "corpus")[0] == {"id": "validation-0", "title": None, "text": "A: hello\nB: bye"}
    assert [row["text"] for row in rows(content, "queries")] == ["who left?", "who came?"] * 2
    assert any("stand-in" in note for note in content.notes)
