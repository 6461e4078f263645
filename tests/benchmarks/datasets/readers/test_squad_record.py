"""ReCoRD."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.datasets.import_files import READERS
from benchmarks.datasets.readers.original_files import Reading
from benchmarks.datasets.readers.reader import Inputs
from benchmarks.protocol import get_dataset
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
        UserError,
        match=r"test\.jsonl:1, query 1 of the passage: query 1 has no answer in its passage \(test\.jsonl is",
    ):
        read("record", train=bare, validation=bare)
    with pytest.raises(
        UserError, match=r"x\.jsonl:2: the row does not have the expected form: 'passage' is missing"
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


ADA = [{"start": 0, "end": 2, "text": "Ada"}]


def passage(*queries: tuple[object, str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return a passage of SuperGLUE with queries: id, text and answers."""
    qas = [{"idx": idx, "query": query, "answers": answers} for idx, query, answers in queries]
    return {"source": "CNN", "idx": 7, "passage": {"text": "Ada met Bob.", "entities": []}, "qas": qas}


def asked(path: Path, reading: Reading) -> list[tuple[str, str]]:
    """Return id and text of the questions of a file, which is also the test file of a whole dataset."""
    inputs = Inputs(dataset=get_dataset("record"), files={"train": (path,), "test": (path,)}, reading=reading)
    return [(row["id"], row["question"]) for row in rows(READERS[inputs.dataset.reader](inputs), "test")]


def test_all_queries_of_all_passages_are_questions(put: Put) -> None:
    path = put("train.jsonl", [passage((1, "a", ADA), (2, "b", ADA)), passage(), passage((3, "c", ADA))])
    reading = Reading()
    assert asked(path, reading) == [("1", "a"), ("2", "b"), ("3", "c")]
    assert reading.notes() == (
        "queries, with @placeholder, serve as questions; passages, with @highlight, as contexts",
    )


def test_only_the_query_that_is_bad_is_left_out(put: Put) -> None:
    """What stands behind it in its passage stays."""
    queries = [(1, "a", ADA), (1, "again", ADA), (2, "b", ADA), (3, "c", []), (4, "d", ADA)]
    path = put("train.jsonl", [passage(*queries), passage((2, "again", ADA), (5, "e", ADA))])
    reading = Reading(skip_bad=True)
    assert asked(path, reading) == [("1", "a"), ("2", "b"), ("4", "d"), ("5", "e")]


def test_rows_of_a_hub_are_questions_in_any_kind_of_file(put: Put) -> None:
    row = {"idx": 1, "query": "@placeholder?", "passage": "Ada won", "answers": ["Ada"]}
    reading = Reading()
    assert asked(put("train.jsonl", [row]), reading) == [("1", "@placeholder?")]
    assert reading.notes() == ()
    with pytest.raises(
        UserError, match="1: the question has no answer, but every question of this dataset needs one"
    ):
        asked(put("train.jsonl", [{**row, "answers": []}]), Reading())
