"""Judgements, texts and training rows of BEIR's files, one by one."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.datasets.readers.beir import judgements, pairs, wanted_texts
from benchmarks.datasets.readers.original_files import Reading
from common.errors import UserError
from tests.benchmarks.datasets.readers.originals import Put, inputs_of, refused

NEGATIVES = "the negatives of the training file are left out"


HEADER = "query-id\tcorpus-id\tscore\n"
SKIPPED = " (--skip-bad-lines leaves such lines out)"


@pytest.mark.parametrize(
    "text",
    [
        HEADER + "q1\td1\t1\nq2\td2\t0\n",
        "QUERY-ID corpus-id score\nq1 d1 1\nq2 d2 0",
        "qid pid label\nq1 d1 1\nq2 d2 0",
        "q1\td1\t1\n\n  \nq2\td2\t0",
        "q1 0 d1 1\nq2 Q0 d2 0\n",
        "query_id iter docid rel\nq1 0 d1 1\nq2 0 d2 0\n",
    ],
)
def test_judgements_are_lines_of_three_or_four_fields_under_a_header_or_none(put: Put, text: str) -> None:
    assert judgements(put("qrels.tsv", text), Reading()) == [("q1", "d1", 1), ("q2", "d2", 0)]


@pytest.mark.parametrize("line", ["q2 d2", "q2", "q2 0 d2 1 more", "q2 d2 1.5", "query-id corpus-id score"])
def test_a_line_that_is_no_judgement_is_named_and_leaves_the_others(put: Put, line: str) -> None:
    path = put("qrels.tsv", f"q1 d1 1\n{line}\nq3 d3 2\n")
    assert (
        refused(lambda: judgements(path, Reading()))
        == f"{path}:2: the line is not a judgement (query, document, relevance){SKIPPED}"
    )
    reading = Reading(skip_bad=True)
    assert judgements(path, reading) == [("q1", "d1", 1), ("q3", "d3", 2)]
    assert len(reading.notes()) == 1 and reading.notes()[0].startswith("bad lines left out: 1,")


def test_an_object_of_judgements_has_them_by_query_and_document(put: Put) -> None:
    path = put("qrels.json", '{"q1": {"d1": 2, "d2": "0"}, "q2": {}, "q3": {"d1": 1}}')
    assert judgements(path, Reading()) == [("q1", "d1", 2), ("q1", "d2", 0), ("q3", "d1", 1)]
    with pytest.raises(UserError, match=r"list\.json: the row does not have the expected form"):
        judgements(put("list.json", "[]"), Reading())


TEXTS = [("a", None, "one"), ("b", None, "two"), ("None", None, "three")]


@pytest.mark.parametrize("key", ["_id", "docid", "pid"])
@pytest.mark.parametrize("text", ["text", "query"])
@pytest.mark.parametrize("title", ["", "A title"])
@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
def test_texts_of_wanted_rows_come_with_their_titles(
    put: Put, tmp_path: Path, key: str, text: str, title: str, ending: str
) -> None:
    found = [{key: identity, text: words, "title": title, "more": 1} for identity, _, words in TEXTS]
    path = put(f"x{ending}", found)
    if ending == ".parquet":
        pq.write_table(pa.Table.from_pylist(found), path)
    assert list(wanted_texts(path, {"b": 1, "absent": 1}, Reading())) == [
        (f"{path}: row b" if ending == ".parquet" else f"{path}:2", "b", title, "two")
    ]


def test_texts_without_titles_have_none(put: Put, tmp_path: Path) -> None:
    bare = put("x.tsv", "a\tone\nb\t two \nNone\tthree")
    lines = put("x.jsonl", [{"id": identity, "text": text} for identity, _, text in TEXTS])
    table = pa.table({"id": [row[0] for row in TEXTS], "text": [row[2] for row in TEXTS]})
    pq.write_table(table, tmp_path / "x.parquet")
    for path in (bare, lines, tmp_path / "x.parquet"):
        found = wanted_texts(path, dict.fromkeys(["a", "b", "None"]), Reading())
        assert [row[1:] for row in found] == TEXTS


def test_a_line_without_a_tab_is_no_text(put: Put) -> None:
    path = put("x.tsv", "a\tone\ntwo\nb\tthree\tfour\n")
    assert (
        refused(lambda: list(wanted_texts(path, {"b": 1}, Reading())))
        == f"{path}:2: the line is not an id, a tab and a text{SKIPPED}"
    )
    found = list(wanted_texts(path, {"b": 1, "two": 1}, Reading(skip_bad=True)))
    assert found == [(f"{path}:3", "b", None, "three\tfour")]


@pytest.mark.parametrize("columns", [["_id", "title"], ["text", "title"], ["title"]])
def test_parquet_without_id_and_text_is_refused(tmp_path: Path, columns: list[str]) -> None:
    pq.write_table(pa.table({name: ["x"] for name in columns}), tmp_path / "x.parquet")
    assert refused(lambda: list(wanted_texts(tmp_path / "x.parquet", {"x": 1}, Reading()))) == (
        f"{tmp_path / 'x.parquet'} has the columns {', '.join(columns)}, but needs an id and a text column"
    )


@pytest.mark.parametrize(
    ("text", "expected", "negatives"),
    [
        ("ask\tanswer\nwhy\tso", [("ask", "answer"), ("why", "so")], False),
        (" ask \t answer \n", [("ask", "answer")], False),
        ("query\tpositive\nask\tanswer\n", [("ask", "answer")], False),
        ("anchor\tpositive\tnegative\nask\tanswer\tno\n", [("ask", "answer")], True),
        ("ask\tanswer\nquery\tpositive\n", [("ask", "answer"), ("query", "positive")], False),
        ("ask me\tyes\tno\n", [("ask me", "yes")], True),
        ("ask 0\tyes\n", [("ask 0", "yes")], False),
        ("ask 0\tyes it is\n", [("ask 0", "yes it is")], False),
        ("query-id\tis a field\n", [("query-id", "is a field")], False),
        ("query-id\tis mine\n", [("query-id", "is mine")], False),
        ("my pid\tyes\n", [("my pid", "yes")], False),
        ("", [], False),
    ],
)
def test_training_lines_are_a_query_its_passage_and_perhaps_a_negative(
    put: Put, text: str, expected: list[tuple[str, str]], negatives: bool
) -> None:
    inputs = inputs_of("msmarco")
    found = pairs([put("pairs.tsv", text)], inputs).to_pylist()
    assert [(row["query"], row["positive"]) for row in found] == expected
    assert inputs.reading.notes() == ((NEGATIVES,) if negatives else ())


@pytest.mark.parametrize("line", ["alone", "one\ttwo\tthree\tfour", ""])
def test_a_training_line_of_other_fields_is_named_and_leaves_the_others(put: Put, line: str) -> None:
    path = put("pairs.tsv", f"ask\tanswer\n{line}\nwhy\tso\n")
    assert refused(lambda: pairs([path], inputs_of("msmarco"))) == (
        f"{path}:2: the line is not a query, a passage and perhaps a negative{SKIPPED}"
    )
    found = pairs([path], inputs_of("msmarco", skip_bad=True)).to_pylist()
    assert [row["query"] for row in found] == ["ask", "why"]


@pytest.mark.parametrize("names", [("query", "positive"), ("anchor", "document"), ("sentence1", "sentence2")])
@pytest.mark.parametrize("negative", [None, "no"])
def test_training_rows_may_name_their_columns_otherwise(
    put: Put, names: tuple[str, str], negative: str | None
) -> None:
    inputs = inputs_of("msmarco")
    path = put("pairs.jsonl", [{names[0]: "ask", names[1]: "answer", "negative": negative}])
    assert pairs([path], inputs).to_pylist() == [{"query": "ask", "positive": "answer"}]
    assert inputs.reading.notes() == ((NEGATIVES,) if negative else ())


@pytest.mark.parametrize(
    "text",
    [
        HEADER + "q1\td1\t1\nq1\td2\t0\nq2\td3\t2\n",
        "Query_ID\tDoc_ID\tscore\nq1\td1\t1\nq1\td2\t0\nq2\td3\t2\n",
        "qid pid label\nq1 d1 1\nq1 d2 0\nq2 d3 2\n",
        "q1 0 d1 1\nq1 0 d2 0\nq2 0 d3 2\n",
        "q1 Q0 d1 1\nq1 Q0 d2 0\nq2 Q0 d3 2\n",
    ],
)
def test_training_judgements_become_pairs_of_what_is_relevant(put: Put, text: str) -> None:
    more = put("more.jsonl", [{"query": "ask", "positive": "answer"}])
    inputs = inputs_of(
        "msmarco",
        queries=put("queries.tsv", "q1\tone?\nq2\ttwo?\n"),
        corpus=put("corpus.tsv", "d1\tone\nd3\tthree\n"),
    )
    found = pairs([put("train.tsv", text), more], inputs).to_pylist()
    expected = [("one?", "one"), ("two?", "three"), ("ask", "answer")]
    assert [(row["query"], row["positive"]) for row in found] == expected
