"""SQuAD and ReCoRD of every form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.datasets.readers.squad import answers_of
from common.errors import UserError
from tests.benchmarks.datasets.readers.originals import Put, read, rows


def squad_json(questions: list[dict[str, Any]], context: str = "Ada lives in Rome, Ada does.") -> str:
    return json.dumps(
        {"version": "1.1", "data": [{"title": "t", "paragraphs": [{"context": context, "qas": questions}]}]}
    )


def test_squad_json_and_parquet_give_the_same(tmp_path: Path, put: Put) -> None:
    context = "Ada lives in Rome, Ada does."
    found = [{"text": "Ada", "answer_start": 19}, {"text": "Rome", "answer_start": 13}]
    questions = [
        {"id": str(i), "question": f"Who {i}?", "answers": found}
        for i in range(20)
    ]  # fmt: skip
    path = put("train-v1.1.json", squad_json(questions))
    flat = [
        {"id": q["id"], "title": "t", "context": context, "question": q["question"],
         "answers": {"text": ["Ada", "Rome"], "answer_start": [19, 13]}}
        for q in questions
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(flat), tmp_path / "train.parquet")
    one = read("squad", train=path, validation=path)
    other = read("squad", train=tmp_path / "train.parquet", validation=tmp_path / "train.parquet")
    for split in ("train", "validation", "test"):
        assert one.tables[split].equals(other.tables[split])
    answers = [{"text": "Ada", "start": 19}, {"text": "Rome", "start": 13}]
    assert rows(one, "test")[0] == {"id": "0", "question": "Who 0?", "context": context, "answers": answers}


def test_unanswerable_questions(put: Put) -> None:
    plausible = [{"text": "Ada", "answer_start": 0}]
    questions = [
        {
            "id": "a",
            "question": "?",
            "is_impossible": True,
            "answers": plausible,
            "plausible_answers": plausible,
        },
        {"id": "b", "question": "?", "is_impossible": False, "answers": plausible},
    ]
    path = put("train-v2.0.json", squad_json(questions))
    assert rows(read("squad_v2", train=path, validation=path), "test")[0]["answers"] == []
    with pytest.raises(
        UserError, match="question a: the question has no answer, and this dataset has no unanswerable"
    ):
        read("squad", train=path, validation=path)


def test_answers_are_placed() -> None:
    context = "Ada met Ada"
    assert answers_of({"text": ["Ada"], "answer_start": [8]}, context) == [{"text": "Ada", "start": 8}]
    assert answers_of([{"text": "Ada", "start": 8}], context) == [{"text": "Ada", "start": 8}]
    assert answers_of(["met"], context) == [{"text": "met", "start": 4}]
    assert answers_of([{"text": "met", "start": 0}], context) == [{"text": "met", "start": 4}]
    assert answers_of(["Bob"], context) is None
    assert answers_of(None, context) == []


def test_squad_broken_files(put: Put) -> None:
    with pytest.raises(UserError, match="has no list `data`"):
        path = put("a.json", '{"x": {}}')
        read("squad", train=path, validation=path)
    with pytest.raises(
        UserError, match="article 0: the row has not the expected form: 'paragraphs' is missing"
    ):
        path = put("b.json", '{"data": [{}]}')
        read("squad", train=path, validation=path)
    with pytest.raises(UserError, match="question 1: an answer is not in the context"):
        path = put(
            "c.json",
            squad_json([{"id": "1", "question": "?", "answers": [{"text": "Bob", "answer_start": 0}]}]),
        )
        read("squad", train=path, validation=path)
