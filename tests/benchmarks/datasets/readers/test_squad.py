"""SQuAD and ReCoRD of every form."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.datasets.import_files import make
from benchmarks.datasets.readers.original_files import BadRowError
from benchmarks.datasets.readers.squad import answers_of, question_rows
from common.errors import UserError
from tests.benchmarks.datasets.readers.originals import Put, defined, inputs_of, read, rows

CONTEXT = "Ada lives in Rome, Ada does."
ADA = [{"text": "Ada", "answer_start": 0}]


def squad_json(questions: list[dict[str, Any]]) -> str:
    paragraphs = [{"context": CONTEXT, "qas": questions}]
    return json.dumps({"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]})


def test_squad_json_and_parquet_give_the_same(tmp_path: Path, put: Put) -> None:
    found = [{"text": "Ada", "answer_start": 19}, {"text": "Rome", "answer_start": 13}]
    questions = [{"id": str(i), "question": f"Who {i}?", "answers": found} for i in range(20)]
    path = put("train-v1.1.json", squad_json(questions))
    flat = [
        {"id": q["id"], "title": "t", "context": CONTEXT, "question": q["question"],
         "answers": {"text": ["Ada", "Rome"], "answer_start": [19, 13]}}
        for q in questions
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(flat), tmp_path / "train.parquet")
    one = read("squad", train=path, validation=path)
    other = read("squad", train=tmp_path / "train.parquet", validation=tmp_path / "train.parquet")
    for split in ("train", "validation", "test"):
        assert one.tables[split].equals(other.tables[split])
    answers = [{"text": "Ada", "start": 19}, {"text": "Rome", "start": 13}]
    assert rows(one, "test")[0] == {"id": "0", "question": "Who 0?", "context": CONTEXT, "answers": answers}


def test_an_impossible_question_has_no_answer(put: Put) -> None:
    impossible = {"id": "a", "question": "?", "is_impossible": True, "plausible_answers": ADA, "answers": ADA}
    path = put("train-v2.0.json", squad_json([impossible, {**impossible, "id": "b", "is_impossible": False}]))
    assert [len(row["answers"]) for row in rows(read("squad_v2", train=path, test=path), "test")] == [0, 1]


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


def test_questions_are_known_by_their_id_their_index_or_their_place(put: Put) -> None:
    row = {"question": "who?", "context": "Ada", "answers": ["Ada"]}
    path = put("x.jsonl", [row, {**row, "idx": 7}, {**row, "id": "a", "idx": 8}, row])
    found = question_rows(path, inputs_of("squad"))
    assert [item["id"] for item in found] == ["x.jsonl-0", "7", "a", "x.jsonl-3"]


def test_ids_that_occur_twice_are_ignored_when_that_is_said(put: Put, tmp_path: Path) -> None:
    row = {"id": "1", "question": "who?", "context": "Ada", "answers": ["Ada"]}
    path = put("x.jsonl", [row, row])
    files, source = dict.fromkeys(("train", "validation", "test"), (path,)), {"kind": "import", "files": []}
    with pytest.raises(UserError, match="the id '1' occurs twice in the table train; set ids = 'none'"):
        make(defined("answers"), files, tmp_path, source=source)
    make(defined("answers", ids="none"), files, tmp_path, source=source)


@pytest.mark.parametrize("kind", ["answers", "answers or none"])
def test_answers_come_from_columns_of_any_name(put: Put, kind: str) -> None:
    columns = {"question": "q", "context": "c", "answers": "a", "id": "nr"}
    written = {"nr": 5, "q": "who?", "c": "Ada", "a": ["Ada"]}
    table = [written] if kind == "answers" else [written, {"nr": 6, "q": "when?", "c": "Ada"}]
    expected = [
        {"id": "5", "question": "who?", "context": "Ada", "answers": [{"text": "Ada", "start": 0}]},
        {"id": "6", "question": "when?", "context": "Ada", "answers": []},
    ]
    assert (
        question_rows(put("x.jsonl", table), inputs_of(defined(kind, columns=columns)))
        == expected[: len(table)]
    )


def passage(*queries: tuple[object, str]) -> dict[str, Any]:
    """Return a passage of SuperGLUE with queries: id and text."""
    answers = [{"start": 0, "end": 2, "text": "Ada"}, {"start": 24, "end": 26, "text": "Ada"}]
    qas = [{"idx": idx, "query": query, "answers": answers} for idx, query in queries]
    found = {"text": "Ada met Bob.\n@highlight\nAda won", "entities": [{"start": 0, "end": 2}]}
    return {"source": "CNN", "idx": 7, "passage": found, "qas": qas}


def test_all_queries_of_all_passages_of_record_are_questions(put: Put) -> None:
    path = put("train.jsonl", [passage((1, "a"), (2, "b")), passage(), passage((3, "@placeholder won"))])
    content = read("record", train=path, test=path)
    assert [row["id"] for row in rows(content, "test")] == ["1", "2", "3"]
    assert rows(content, "test")[2] == {
        "id": "3",
        "question": "@placeholder won",
        "context": "Ada met Bob.\n@highlight\nAda won",
        "answers": [{"text": "Ada", "start": 0}, {"text": "Ada", "start": 24}],
    }
    assert content.notes == (
        "queries, with @placeholder, serve as questions; passages, with @highlight, as contexts",
    )


@pytest.mark.parametrize("query", [None, 5, ["a"]])
def test_a_query_of_record_that_is_no_text_is_refused(put: Put, query: Any) -> None:
    path = put("train.jsonl", [passage((1, query))])
    with pytest.raises(UserError):
        read("record", train=path, validation=path)


def test_rows_of_a_hub_are_questions_of_record_in_any_kind_of_file(put: Put) -> None:
    path = put(
        "train.jsonl", [{"idx": 1, "query": "@placeholder?", "passage": "Ada won", "answers": ["Ada"]}]
    )
    content = read("record", train=path, test=path)
    assert [(row["id"], row["question"]) for row in rows(content, "test")] == [("1", "@placeholder?")]
    assert content.notes == ()
