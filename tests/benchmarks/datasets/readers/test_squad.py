"""SQuAD and ReCoRD of every form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.datasets.readers.original_files import BadRowError, Reading
from benchmarks.datasets.readers.squad import answers_of, question_rows
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
        UserError,
        match=r"question 1 \(a\): the question has no answer, but every question of this dataset needs one",
    ):
        read("squad", train=path, validation=path)


def test_squad_broken_files(put: Put) -> None:
    with pytest.raises(UserError, match="has no list `data`"):
        path = put("a.json", '{"x": {}}')
        read("squad", train=path, validation=path)
    with pytest.raises(
        UserError, match="article 0: the row does not have the expected form: 'paragraphs' is missing"
    ):
        path = put("b.json", '{"data": [{}]}')
        read("squad", train=path, validation=path)
    with pytest.raises(UserError, match=r"question 1 \(1\): an answer is not in the context"):
        path = put(
            "c.json",
            squad_json([{"id": "1", "question": "?", "answers": [{"text": "Bob", "answer_start": 0}]}]),
        )
        read("squad", train=path, validation=path)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"text": ["met"]}, [("met", 4)]),
        ({"text": ["Ada", "met"], "start": [8, 4]}, [("Ada", 8), ("met", 4)]),
        ({"text": [], "answer_start": []}, []),
        ([], []),
        (["Ada"], [("Ada", 0)]),
        ([{"text": "Ada"}], [("Ada", 0)]),
        ([{"text": "Ada", "start": 7}], [("Ada", 0)]),
        ([{"text": "Ada", "start": 11}], [("Ada", 0)]),
        ([{"text": "Ada", "start": -3}], [("Ada", 0)]),
        ([{"text": "a", "start": -1}], [("a", 2)]),
        (["Ada met Ada"], [("Ada met Ada", 0)]),
        ({"text": ["Ada"], "answer_start": [8]}, [("Ada", 8)]),
        ([{"text": "Ada", "start": 8}], [("Ada", 8)]),
        (None, []),
    ],
    ids=str,
)
def test_an_answer_is_where_it_is_said_to_be_or_where_it_first_occurs(
    value: Any, found: list[tuple[str, int]]
) -> None:
    placed = answers_of(value, "Ada met Ada")
    assert [(item["text"], item["start"]) for item in placed] == found


@pytest.mark.parametrize("value", [["Ada met Ada!"], ["Ada", "Bob"], [""], [{"text": "", "start": 3}]])
def test_an_answer_that_is_not_in_the_context_is_refused(value: Any) -> None:
    with pytest.raises(BadRowError, match="an answer is not in the context"):
        answers_of(value, "Ada met Ada")


@pytest.mark.parametrize("starts", [[0], [0, 4, 8]])
def test_as_many_starts_as_answers_are_needed(put: Put, starts: list[int]) -> None:
    answers = {"text": ["Ada", "met"], "answer_start": starts}
    path = put("x.jsonl", [{"id": "1", "question": "?", "context": "Ada met Ada", "answers": answers}])
    with pytest.raises(UserError, match=r"x\.jsonl:1: the row does not have the expected form"):
        question_rows(path, Reading(), unanswerable=False)


def test_questions_are_known_by_their_id_their_index_or_their_place(put: Put) -> None:
    row = {"question": "who?", "context": "Ada", "answers": ["Ada"]}
    path = put("x.jsonl", [row, {**row, "idx": 7}, {**row, "id": "a", "idx": 8}, row])
    found = question_rows(path, Reading(), unanswerable=False)
    assert [item["id"] for item in found] == ["x.jsonl-0", "7", "a", "x.jsonl-3"]


def test_an_id_of_squads_json_that_occurs_twice_is_named_with_both_questions(put: Put) -> None:
    row = {"id": "a", "question": "who?", "answers": [{"text": "Ada", "answer_start": 0}]}
    path = put("x.json", squad_json([row, {**row, "question": "whom?"}]))
    with pytest.raises(
        UserError, match=r"question 2 \(a\): the id 'a' occurs twice, first at .*question 1 \(a\)"
    ):
        question_rows(path, Reading(), unanswerable=False)
    kept = question_rows(path, Reading(skip_bad=True), unanswerable=False)
    assert [item["question"] for item in kept] == ["who?"]
