"""ReCoRD."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from common.errors import UserError
from tests.benchmarks.datasets.readers.originals import Put, read, rows


def test_record(put: Put) -> None:
    text = "Ada met Bob.\n@highlight\nAda won"
    answers = [{"start": 0, "end": 2, "text": "Ada"}, {"start": 24, "end": 26, "text": "Ada"}]
    query = {"query": "@placeholder won", "answers": answers}
    found = {"text": text, "entities": [{"start": 0, "end": 2}]}
    passage = {"source": "CNN", "idx": 7, "passage": found, "qas": [{**query, "idx": 70}]}
    path = put("train.jsonl", [passage, {**passage, "qas": [{**query, "idx": i} for i in range(30)]}])
    content = read("record", train=path, validation=path)
    expected = [{"text": "Ada", "start": 0}, {"text": "Ada", "start": 24}]
    assert rows(content, "test")[0] == {
        "id": "70",
        "question": "@placeholder won",
        "context": text,
        "answers": expected,
    }
    bare = put("test.jsonl", [{**passage, "qas": [{"idx": 1, "query": "x"}]}])
    with pytest.raises(
        UserError, match=r"test\.jsonl:1: query 1 has no answer in its passage; test\.jsonl is unlabelled"
    ):
        read("record", train=bare, validation=bare)
    with pytest.raises(
        UserError, match=r"x\.jsonl:2: the row has not the expected form: 'passage' is missing"
    ):
        path = put("x.jsonl", [passage, {"qas": []}])
        read("record", train=path, validation=path)


@pytest.mark.parametrize("query", [None, 5, ["a"]])
def test_a_question_that_is_no_text_is_refused(put: Put, query: object) -> None:
    found = {"text": "Ada met Bob.", "entities": [{"start": 0, "end": 2}]}
    qas = [{"idx": 1, "query": query, "answers": [{"start": 0, "end": 2, "text": "Ada"}]}]
    path = put("train.jsonl", [{"source": "CNN", "idx": 7, "passage": found, "qas": qas}])
    with pytest.raises(UserError):
        read("record", train=path, validation=path)


def test_record_hub_rows(tmp_path: Path) -> None:
    flat = [
        {"idx": i, "question": "@placeholder?", "context": "Ada won", "answers": ["Ada"]} for i in range(20)
    ]
    pq.write_table(pa.Table.from_pylist(flat), tmp_path / "a.parquet")
    content = read("record", train=tmp_path / "a.parquet", validation=tmp_path / "a.parquet")
    assert rows(content, "test")[4]["answers"] == [{"text": "Ada", "start": 0}]
