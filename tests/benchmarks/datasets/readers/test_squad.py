"""SQuAD and ReCoRD of every form."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.datasets.import_files import make
from benchmarks.datasets.readers.original_files import BadRowError
from benchmarks.datasets.readers.squad import answers_of, question_rows
from common.errors import UserError
from tests.benchmarks.datasets.readers.originals import (
    Put,
    defined,
    inputs_of,
    read,
    rows,
)

CONTEXT = "Ada lives in Rome, Ada does."
ADA = [{"text": "Ada", "answer_start": 0}]


def squad_json(questions: list[dict[str, Any]]) -> str:
    paragraphs = [{"context": CONTEXT, "qas": questions}]
    return json.dumps(
        {"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]}
    )


def test_squad_json_and_parquet_give_the_same(tmp_path: Path, put: Put) -> None:
    found = [{"text": "Ada", "answer_start": 19}, {"text": "Rome", "answer_start": 13}]
    questions = [
        {"id": str(i), "question": f"Who {i}?", "answers": found} for i in range(20)
    ]
    path = put("train-v1.1.json", squad_json(questions))
    flat = [
        {
            "id": q["id"],
            "title": "t",
            "context": CONTEXT,
            "question": q["question"],
            "answers": {"text": ["Ada", "Rome"], "answer_start": [19, 13]},
        }
        for q in questions
    ]
    pq.write_table(pa.Table.from_pylist(flat), tmp_path / "train.parquet")
    one = read("squad", train=path, validation=path)
    other = read(
        "squad", train=tmp_path / "train.parquet", validation=tmp_path / "train.parquet"
    )
    for split in ("train", "validation", "test"):
        assert one.tables[split].equals(other.tables[split])
    answers = [{"text": "Ada", "start": 19}, {"text": "Rome", "start": 13}]
    assert rows(one, "test")[0] == {
        "id": "0",
        "question": "Who 0?",
        "context": CONTEXT,
        "answers": answers,
    }


def test_an_impossible_question_has_no_answer(put: Put) -> None:
    impossible = {
        "id": "a",
        "question": "?",
        "is_impossible": True,
        "plausible_answers": ADA,
        "answers": ADA,
    }
    path = put(
        "train-v2.0.json",
        squad_json([impossible, {**impossible, "id": "b", "is_impossible": False}]),
    )
    assert [
        len(row["answers"])
        for row in rows(read("squad_v2", train=path, test=path), "test")
    ] == [0, 1]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"text": ["met"]}, [("met", 4)]),
        ({"text": ["Ada", "met"], "start": [8, 4]}, [("Ada", 8), ("met", 4)]),
        ({"text": [], "answer_start": []}, []),
        ([], []),
        (["Ada"], [("Ada", 0)]),
        ([{"text": "Ada"}], [("Ada", 0)]),
        ([{"text": "Ada", "start": 3}], [("Ada", 0)]),
        ([{"text": "Ada", "start": 7}], [("Ada", 8)]),
        ([{"text": "Ada", "start": 11}], [("Ada", 8)]),
        ([{"text": "Ada", "start": 8.0}, "met"], [("Ada", 8), ("met", 4)]),
        ([{"text": "Ada", "start": float("nan")}], [("Ada", 0)]),
        ("Ada", [("Ada", 0)]),
        ("", []),
        ([""], []),
        (" ", []),
        (float("nan"), []),
        ([None], []),
        ({"text": "", "answer_start": -1}, []),
        ({"text": "Ada"}, [("Ada", 0)]),
        ({"text": "Ada", "answer_start": 8}, [("Ada", 8)]),
        ({"text": "Ada", "answer_start": 0}, [("Ada", 0)]),
        ({"text": ["Ada"], "answer_start": []}, [("Ada", 0)]),
        ([{"text": "Ada", "start": -3}], [("Ada", 0)]),
        ([{"text": "a", "start": -1}], [("a", 2)]),
        (["Ada met Ada"], [("Ada met Ada", 0)]),
        ({"text": ["Ada"], "answer_start": [8]}, [("Ada", 8)]),
        ([{"text": "Ada", "start": 8}], [("Ada", 8)]),
        (None, []),
    ],
    ids=str,
)
def test_an_answer_is_where_it_is_said_to_be_or_near_it(
    value: Any, found: list[tuple[str, int]]
) -> None:
    placed, _ = answers_of(value, "Ada met Ada")
    assert [(item["text"], item["start"]) for item in placed] == found


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (["Ada met Ada!"], "not in the context"),
        (["Ada", "Bob"], "not in the context: 'Bob'$"),
        ("ada", "another case, Unicode form or spacing"),
        ("Ada  met", "another case, Unicode form or spacing"),
        ("\uff21da", "another case, Unicode form or spacing"),
        ("['Ada']", "lists of answers need JSON lines or Parquet"),
        (["Ada", ""], "an answer is not text: ''"),
        (1990, "an answer is not text: 1990"),
        ([{"text": "Ada", "start": "here"}], "not a whole number: 'here'"),
        ([{"text": "Ada", "start": 0.5}], "not a whole number: 0.5"),
        ({"text": ["Ada", "met"], "start": [0]}, "differ in number: 2 and 1"),
    ],
)
def test_an_answer_that_cannot_be_placed_is_refused(value: Any, said: str) -> None:
    with pytest.raises(BadRowError, match=said):
        answers_of(value, "Ada met Ada")


@pytest.mark.parametrize(
    ("context", "answer", "place"),
    [
        ("party art", "art", 6),
        ("the 1990s, 1990", "1990", 11),
        ("in Ankarada", "Ankara", 3),
        ("party art", "party", 0),
        ("\u0915\u093e \u0915", "\u0915", 3),
        ("\u6771\u4eac\u90fd (\u6771\u4eac)", "\u6771\u4eac", 0),
    ],
)
def test_answer_without_a_start_prefers_whole_words(
    context: str, answer: str, place: int
) -> None:
    assert answers_of(answer, context) == ([{"text": answer, "start": place}], 0)


WORDS = st.text(
    st.sampled_from("a\u00e9\u0431\u6771\U0001f680"), min_size=1, max_size=4
)
UNITS = {
    "characters": lambda text: len(text),
    "UTF-16": lambda text: len(text.encode("utf-16-le")) // 2,
    "bytes": lambda text: len(text.encode()),
}


@given(
    st.lists(WORDS, max_size=5),
    st.lists(WORDS, max_size=5),
    st.sampled_from(sorted(UNITS)),
)
def test_starts_of_any_unit_find_their_answer(
    before: list[str], after: list[str], unit: str
) -> None:
    """The answer that the start means is taken, whatever it counts, and told from one that comes too early."""
    text = " ".join(["Lima", *before, ""])
    context = text + " ".join(["Lima", *after, "Lima"])
    start = UNITS[unit](text)
    answers, wrong = answers_of({"text": "Lima", "answer_start": start}, context)
    assert answers == [{"text": "Lima", "start": len(text)}] or context.startswith(
        "Lima", start
    )
    assert wrong == (answers[0]["start"] != start)


@given(st.text("ab ", max_size=30), st.integers(-2, 2))
def test_a_start_that_is_off_takes_the_nearest(between: str, off: int) -> None:
    text = f"Lima {between} in "
    answers, wrong = answers_of(
        [{"text": "Lima", "start": len(text) + off}], f"{text}Lima"
    )
    assert (answers, wrong) == ([{"text": "Lima", "start": len(text)}], off != 0)


FORMS: dict[str, str | list[Any]] = {
    "a.csv": f'question,context,answers,answer_start\nWho?,"{CONTEXT}",Ada,19\n',
    "a.tsv": f"question\tcontext\tanswers\tanswer_start\nWho?\t{CONTEXT}\tAda\t19\n",
    "b.jsonl": [
        {"question": "Who?", "context": CONTEXT, "answers": "Ada", "answer_start": 19}
    ],
    "c.jsonl": [
        {
            "question": "Who?",
            "context": CONTEXT,
            "answers": ["Ada"],
            "answer_start": [19],
        }
    ],
    "d.jsonl": [
        {
            "question": "Who?",
            "context": CONTEXT,
            "answers": {"text": "Ada", "answer_start": 19},
        }
    ],
    "e.json": squad_json(
        [{"question": "Who?", "answers": {"text": "Ada", "answer_start": 19}}]
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_text_is_one_answer_in_every_form(name: str, put: Put) -> None:
    path = put(name, FORMS[name])
    (row,) = question_rows(path, inputs_of(defined("answers"), train=path))
    assert row["answers"] == [{"text": "Ada", "start": 19}]


@pytest.mark.parametrize(
    "said",
    [True, 1, 1.0, "true", "True", "1", "1.0", False, 0, 0.0, "False", "0", "", None],
)
def test_is_impossible_is_a_truth_value(said: Any, put: Put) -> None:
    row = {
        "question": "Who?",
        "context": CONTEXT,
        "answers": "Ada",
        "is_impossible": said,
    }
    for path in (put("a.jsonl", [row]), put("a.json", squad_json([row]))):
        (found,) = question_rows(
            path, inputs_of(defined("answers or none"), train=path)
        )
        assert found["answers"] == (
            []
            if str(said).lower() in ("true", "1", "1.0")
            else [{"text": "Ada", "start": 0}]
        )


def test_is_impossible_that_is_no_truth_value_is_refused(put: Put) -> None:
    row = {
        "question": "Who?",
        "context": CONTEXT,
        "answers": "Ada",
        "is_impossible": "maybe",
    }
    path = put("a.jsonl", [row])
    with pytest.raises(
        UserError, match=r"a\.jsonl:1: is_impossible is neither true nor false: 'maybe'"
    ):
        question_rows(path, inputs_of(defined("answers or none"), train=path))


def test_wrong_starts_are_counted_in_the_note(put: Put) -> None:
    starts = [0, 1, 19, 20, 18]
    path = put(
        "a.jsonl",
        [
            {
                "question": "?",
                "context": CONTEXT,
                "answers": {"text": "Ada", "answer_start": at},
            }
            for at in starts
        ],
    )
    inputs = inputs_of(defined("answers"), train=path)
    assert [row["answers"][0]["start"] for row in question_rows(path, inputs)] == [
        0,
        0,
        19,
        19,
        19,
    ]
    (note,) = inputs.notes
    assert "do not begin at their start: 3;" in note and note.endswith("a.jsonl:2)")


def test_questions_are_known_by_id_index_or_place(put: Put) -> None:
    row = {"question": "who?", "context": "Ada", "answers": ["Ada"]}
    path = put("x.jsonl", [row, {**row, "idx": 7}, {**row, "id": "a", "idx": 8}, row])
    found = question_rows(path, inputs_of("squad"))
    assert [item["id"] for item in found] == ["x.jsonl-0", "7", "a", "x.jsonl-3"]


def test_ids_that_occur_twice_are_ignored_when_that_is_said(
    put: Put, tmp_path: Path
) -> None:
    row = {"id": "1", "question": "who?", "context": "Ada", "answers": ["Ada"]}
    path = put("x.jsonl", [row, row])
    files, source = (
        dict.fromkeys(("train", "validation", "test"), (path,)),
        {"kind": "import", "files": []},
    )
    with pytest.raises(
        UserError, match="the id '1' occurs twice in the table train; set ids = 'none'"
    ):
        make(defined("answers"), files, tmp_path, source=source)
    make(defined("answers", ids="none"), files, tmp_path, source=source)


@pytest.mark.parametrize("kind", ["answers", "answers or none"])
def test_answers_come_from_columns_of_any_name(put: Put, kind: str) -> None:
    columns = {"question": "q", "context": "c", "answers": "a", "id": "nr"}
    written = {"nr": 5, "q": "who?", "c": "Ada", "a": ["Ada"]}
    table = (
        [written]
        if kind == "answers"
        else [written, {"nr": 6, "q": "when?", "c": "Ada"}]
    )
    expected = [
        {
            "id": "5",
            "question": "who?",
            "context": "Ada",
            "answers": [{"text": "Ada", "start": 0}],
        },
        {"id": "6", "question": "when?", "context": "Ada", "answers": []},
    ]
    assert (
        question_rows(put("x.jsonl", table), inputs_of(defined(kind, columns=columns)))
        == expected[: len(table)]
    )


@pytest.mark.parametrize(
    ("kind", "row", "said"),
    [
        (
            "answers or none",
            {},
            r"a\.jsonl: there is no column answers, so that no question",
        ),
        (
            "answers or none",
            {"answer": "Ada"},
            r"a\.jsonl: there is no column answers, so that no question",
        ),
        (
            "answers",
            {"answer": "Ada"},
            r"a\.jsonl:1: the question has no answer.*; there is no column answers",
        ),
        (
            "answers",
            {"answers": ""},
            r"a\.jsonl:1: the question has no answer, .* needs one$",
        ),
    ],
)
def test_a_file_without_answers_is_refused(
    kind: str, row: dict[str, Any], said: str, put: Put
) -> None:
    path = put("a.jsonl", [{"question": "Who?", "context": CONTEXT, **row}] * 2)
    with pytest.raises(UserError, match=said):
        question_rows(path, inputs_of(defined(kind), train=path))


def test_a_file_of_impossible_questions_needs_no_answers(put: Put) -> None:
    path = put(
        "a.jsonl", [{"question": "Who?", "context": CONTEXT, "is_impossible": True}]
    )
    assert (
        question_rows(path, inputs_of(defined("answers or none"), train=path))[0][
            "answers"
        ]
        == []
    )


def passage(*queries: tuple[object, str]) -> dict[str, Any]:
    """Return a passage of SuperGLUE with queries: id and text."""
    answers = [
        {"start": 0, "end": 2, "text": "Ada"},
        {"start": 24, "end": 26, "text": "Ada"},
    ]
    qas = [{"idx": idx, "query": query, "answers": answers} for idx, query in queries]
    found = {
        "text": "Ada met Bob.\n@highlight\nAda won",
        "entities": [{"start": 0, "end": 2}],
    }
    return {"source": "CNN", "idx": 7, "passage": found, "qas": qas}


def test_all_queries_of_all_passages_of_record_are_questions(put: Put) -> None:
    path = put(
        "train.jsonl",
        [passage((1, "a"), (2, "b")), passage(), passage((3, "@placeholder won"))],
    )
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


def test_hub_rows_are_questions_of_record_in_any_file_kind(put: Put) -> None:
    path = put(
        "train.jsonl",
        [
            {
                "idx": 1,
                "query": "@placeholder?",
                "passage": "Ada won",
                "answers": ["Ada"],
            }
        ],
    )
    content = read("record", train=path, test=path)
    assert [(row["id"], row["question"]) for row in rows(content, "test")] == [
        ("1", "@placeholder?")
    ]
    assert content.notes == ()
