"""A bad file of any form stops an import with a sentence that names its place and what is wrong there."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.protocol import Dataset
from tests.benchmarks.datasets.readers.originals import (
    Put,
    defined,
    inputs_of,
    read,
    refused,
)

HEADER = "query-id\tcorpus-id\tscore\n"
TAGGED = {"words": ["Ada", "won"], "tags": [1, 0]}
TEXT = defined("text", labels=["x", "y"])
LABELS = defined("labels", labels=["x", "y"])
VALUE = defined("value", range=[-1, 5])
ANSWERS = {"id": "1", "question": "?", "context": "Ada met Ada"}
ASKED = {"query_id": "q0", "query": "ask"}
RECORD = {
    "source": "CNN",
    "idx": 7,
    "passage": {"text": "Ada met Bob.", "entities": []},
}


def squad(questions: list[dict[str, Any]]) -> list[Any]:
    return [{"data": [{"paragraphs": [{"context": "Ada met Ada", "qas": questions}]}]}]


CASES: dict[str, list[tuple[str, str | list[Any], str, str]]] = {
    "sst2": [
        ("x.tsv", "sentence\tlabel\nfine\t1\ntext\t2\n", ":3", "'2' is not in the label set negative, positive"),
        ("x.tsv", "sentence\tlabel\ntext\tpositiv\n", ":2", "did you mean 'positive'?"),
        ("x.tsv", "sentence\tlabel\ntext\t-1\n", ":2", "the example has no label"),
        ("x.tsv", "sentence\tlabel\ntext\t\n", ":2", "the example has no label"),
        ("x.jsonl", [{"sentence": "a", "label": None}], ":1", "the value of label is missing"),
        ("x.jsonl", [{"sentence": None, "label": 0}], ":1", "the value of sentence is missing"),
        ("x.tsv", "label\tsentence\tlabel\n0\tfine\t1\n", ":1", "the column 'label' is there twice"),
        ("x.jsonl", '{"label": 0, "sentence": "a", "label": 1}\n', ":1", "the column 'label' is there twice"),
        ("x.tsv", "a\tsentence\tlabel\n1\tx\ny\t0\nz\n1\tx\t1\n", ":4", "the line has 1 columns instead of 3"),
        ("x.tsv", "a\tsentence\tlabel\n1\tx\n1\tx\t1\n", ":2", "the line has 2 columns instead of 3"),
        ("x.tsv", "sentence\tlabel\ntext\n", ":2", "the line has 1 columns instead of 2"),
        ("x.tsv", "sentence\tlabel\na\tb\t1\n", ":2", "the line has 3 columns instead of 2"),
        ("x.tsv", "index\tsentence\n0\ta\n", ":2", "there is no column label; the columns are 'index', 'sentence'"),
        ("x.json", '{"x": 1}\n[2]\n', ":1", "there is no column sentence or text or text_a"),
        ("x.json", '{"sentence": "a", "label": 1}\n[2]\n', ":2", "the line is not a JSON object"),
        ("x.json", '{"sentence": "a", "label": 1}\n{"x": \n', ":2", "the line is not a JSON object"),
        ("x.jsonl", "[1]\n", ":1", "the line is not a JSON object"),
        ("x.json", '[{"sentence": "a", "label": 1}, 2]', ": entry 1", "the entry is not a JSON object"),
        ("x.json", '{"p": [1]}', ": entry p", "the entry is not a JSON object"),
        ("x.json", '{"sentence": {"0": "a"}, "label": {"0": 1}}', ": entry sentence", "to_json(orient='records')"),
        ("x.json", '{"sentence": ["a"], "label": [1]}', ": entry sentence", "to_json(orient='records')"),
        ("x.json", "5", "", "contains neither a list nor an object of rows"),
        ("x.json", '[1,\n2,\n{"x" 3}]', ":3", "not valid JSON"),
        ("x.json", "", ":1", "not valid JSON"),
    ],
    "uner_en": [
        *(("x.conll", f"{line}\n\nAda O\n", ":2", "the line does not have a word and a tag") for line in (
            "Ada O\nRome", "Ada\tO\n\tO", "Ada\tO\nRome\t", "1\tAda\tO\n2\tRome", "1\tAda\tO\n2",
            "1\tAda\tO\n2\t\tO", "1\tAda\tO\n2\tRome\t", "1\tAda\tO\nx\tRome\tO", "1\tAda\tO\nx\t7\tO",
        )),
        ("x.conll", "Ada B-PER\n\nin O\nRome B-LOK\n", ":3", "the tag 'B-LOK' is not in the tag set O, B-PER"),
        ("x.conll", "Rome B-LOK\n", ":1", "did you mean 'B-LOC'?"),
        ("x.jsonl", [TAGGED, {"words": ["Ada"]}], ":2", "there is no column tags or ner_tags or ner"),
        ("x.jsonl", [{"tags": ["O"]}], ":1", "there is no column words or tokens; the columns are 'tags'"),
        ("x.jsonl", [{"words": [], "tags": []}], ":1", "there are 0 words and 0 tags"),
        ("x.jsonl", [{"words": ["Ada"], "tags": [0, 0]}], ":1", "there are 1 words and 2 tags"),
        ("x.jsonl", [{"words": ["Ada", 7], "tags": [0, 0]}], ":1", "a word is not text"),
        *(("x.jsonl", [{"words": ["Ada"], "tags": [tag]}], ":1", f"the tag '{tag}' is not in the tag set")
          for tag in (-1, 7)),
        ("x.jsonl", [{"words": ["Ada"], "tags": [None]}], ":1", "a tag is missing"),
        ("x.csv", "words,tags\n\"['Ada', 'won']\",O O\n", ":2", "lists of words and tags need JSON lines"),
        ("x.jsonl", [{"words": None, "tags": [0]}], ":1", "the value of words is missing"),
    ],
    "squad": [
        ("x.json", '{"x": {}}', "", "has no list `data`"),
        ("x.json", '{"data": [{}]}', ": article 0", "'paragraphs' is missing"),
        ("x.json", squad([{**ANSWERS, "answers": [{"text": "Bob", "answer_start": 0}]}]), ": question 1 (1)",
         "an answer is not in the context"),
        ("x.json", squad([{**ANSWERS, "is_impossible": True}]), ": question 1 (1)", "the question has no answer"),
        *(("x.jsonl", [{**ANSWERS, "answers": {"text": ["Ada", "met"], "answer_start": starts}}], ":1",
           "answers and starts differ in number") for starts in ([0], [0, 4, 8])),
    ],
    "record": [
        ("x.jsonl", [{**RECORD, "qas": []}, {"qas": [{}]}], ":2", "'passage' is missing"),
        ("x.jsonl", [{**RECORD, "qas": [{"idx": 1, "query": "x"}]}], ":1", "the question has no answer"),
        ("x.jsonl", [{"query": "?", "passage": "Ada won", "answers": []}], ":1", "the question has no answer"),
    ],
    "mldr_en": [
        ("x.jsonl", [ASKED], ":1", "'positive_passages' is missing"),
        ("x.jsonl", [{**ASKED, "positive_passages": [{"docid": "c"}]}], "", "use --corpus FILE"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("dataset", "name", "text", "place", "what"),
    [(dataset, *case) for dataset, cases in CASES.items() for case in cases],
)
def test_a_bad_file_of_the_papers_datasets(
    put: Put, dataset: str, name: str, text: str | list[Any], place: str, what: str
) -> None:
    path = put(name, text)
    said = refused(lambda: read(dataset, train=path, validation=path, test=path))
    assert (
        (said.startswith(f"{path}{place}") or not place)
        and what in said
        and "\n" not in said
    )


@pytest.mark.parametrize(
    ("role", "name", "text", "place", "what"),
    [
        *(
            (
                "test",
                "x.tsv",
                f"q1 d1 1\n{line}\n",
                ":2",
                "not a judgement (query, document, relevance)",
            )
            for line in (
                "q2 d2",
                "q2",
                "q2 0 d2 1 more",
                "q2 d2 high",
                "query-id corpus-id score",
            )
        ),
        (
            "test",
            "x.json",
            '{"q": ["d"]}',
            ": q",
            "the judgements have no relevances; write",
        ),
        (
            "test",
            "x.json",
            '[{"qid": "q", "pid": "d"}]',
            ": entry 0",
            "there is no column score",
        ),
        (
            "corpus",
            "x.jsonl",
            [{"_id": "9", "title": ["a"], "text": "b"}],
            ":1",
            "title is not text: ['a']",
        ),
        (
            "test",
            "x.tsv",
            "q3 0 91 1\nq3 0 9 1\nq3 0 90 1\n",
            "",
            "corpus.jsonl: 2 (first: '91')",
        ),
        (
            "test",
            "x.tsv",
            "q91 0 9 1\nq90 0 9 1\n",
            "",
            "queries.jsonl: 2 (first: 'q91')",
        ),
        *(
            (
                "train",
                "x.tsv",
                f"ask\tanswer\n{line}\n",
                ":2",
                "not a query, a passage and perhaps a negative",
            )
            for line in ("alone", "one\ttwo\tthree\tfour")
        ),
        (
            "queries",
            "x.tsv",
            "q1\ta\nq1\tb\n",
            ":2",
            "the query q1 has a different text further up",
        ),
        (
            "corpus",
            "x.tsv",
            "1\tone\ntwo\n",
            ":2",
            "the line is not an id, a tab and a text",
        ),
    ],
)
def test_a_bad_file_of_retrieval(
    put: Put, role: str, name: str, text: str, place: str, what: str
) -> None:
    files = beir_files(put)
    path = put(name, text)
    said = refused(lambda: read("msmarco", **{**files, role: path}))
    assert (
        (said.startswith(f"{path}{place}") or not place)
        and what in said
        and "\n" not in said
    )


@pytest.mark.parametrize("score", ["high", [1], float("inf")], ids=str)
def test_a_relevance_that_is_none(score: object, put: Put, tmp_path: Path) -> None:
    table = pa.table({"query-id": ["q4"], "corpus-id": ["7"], "score": [score]})
    pq.write_table(table, tmp_path / "bad.parquet")
    said = refused(
        lambda: read("msmarco", **{**beir_files(put), "test": tmp_path / "bad.parquet"})
    )
    assert "bad.parquet: row 0: the " in said and "is not a " in said


@pytest.mark.parametrize("columns", [["_id", "title"], ["text", "title"], ["title"]])
def test_a_corpus_without_id_or_text(
    put: Put, tmp_path: Path, columns: list[str]
) -> None:
    pq.write_table(pa.table({name: ["x"] for name in columns}), tmp_path / "x.parquet")
    said = refused(
        lambda: read("msmarco", **{**beir_files(put), "corpus": tmp_path / "x.parquet"})
    )
    assert (
        f"has the columns {', '.join(columns)}, but needs an id and a text column"
        in said
    )


@pytest.mark.parametrize(
    ("dataset", "given", "wanting"),
    [
        ("sst2", ("validation", "test"), "--train FILE"),
        ("sst2", ("train",), "--validation FILE"),
        ("uner_en", ("validation", "test"), "--train FILE"),
        ("uner_en", ("train", "test"), "--validation FILE"),
        ("uner_en", ("train", "validation"), "--test FILE"),
        ("msmarco", ("train", "validation", "queries", "corpus"), "--test FILE"),
    ],
)
def test_a_file_that_is_wanting(
    put: Put, dataset: str, given: tuple[str, ...], wanting: str
) -> None:
    files = (
        beir_files(put) if dataset == "msmarco" else dict.fromkeys(given, put("x", ""))
    )
    inputs = inputs_of(dataset, **{role: files[role] for role in given})
    assert (
        inputs.dataset.name in (said := refused(lambda: read(dataset, **inputs.files)))
        and wanting in said
    )


OUTSIDE = (
    "2",
    "9" * 5_000,
    2,
    -2,
    "2.0",
    0.5,
    "01",
    "000000001",
    "0000000000",
    "Y",
    True,
    [],
    "\u0661",
)


@pytest.mark.parametrize(
    ("dataset", "value", "what"),
    [
        *(
            (TEXT, value, f"{value!r:.80} is not in the label set x, y")
            for value in OUTSIDE
        ),
        *(
            (TEXT, value, "; numbers count from 0")
            for value in OUTSIDE
            if str(value).isdecimal()
        ),
        (LABELS, "x, z", "'z' is not in the label set x, y"),
        (LABELS, ["x", "x"], "a label occurs twice in ['x', 'x']; name each"),
        (LABELS, "x, x", "a label occurs twice in 'x, x'; name each"),
        (
            LABELS,
            ["x", 1],
            "the labels mix names with numbers such as 1; use names only",
        ),
        (
            LABELS,
            {"x": 1, "y": 0},
            "is neither a list of labels nor comma-separated names",
        ),
        (LABELS, 1, "1 is neither a list of labels nor comma-separated names"),
        (VALUE, -1.5, "the value -1.5 is outside the range -1 to 5"),
        (VALUE, "5.001", "the value 5.001 is outside the range -1 to 5"),
        (VALUE, "nan", "the value nan is outside the range -1 to 5"),
        (VALUE, "inf", "the value inf is outside the range -1 to 5"),
        (VALUE, "much", "'much' is not a number"),
        (VALUE, [1], "[1] is not a number"),
    ],
    ids=ascii,
)
def test_what_a_row_of_ones_own_may_not_say(
    put: Put, dataset: Dataset, value: object, what: str
) -> None:
    column = dataset.files.columns[
        {"SC": "label", "SC-labels": "labels", "SC-value": "value"}[dataset.form]
    ][0]
    path = put("x.jsonl", [{"text": "a", column: value}])
    said = refused(lambda: read(dataset, train=path, validation=path, test=path))
    assert said.startswith(f"{path}:1: ") and what in said


def beir_files(put: Put) -> dict[str, Path]:
    """The files of a small MS MARCO."""
    return {
        "corpus": put(
            "corpus.jsonl",
            [{"_id": str(i), "title": "", "text": f"passage {i}"} for i in range(50)],
        ),
        "queries": put(
            "queries.jsonl", [{"_id": f"q{i}", "text": f"query {i}"} for i in range(20)]
        ),
        "validation": put("qrels/dev.tsv", HEADER + "q1\t4\t1\nq2\t9\t1\nq1\t5\t1\n"),
        "test": put("qrels/test.tsv", HEADER + "q3\t9\t3\nq3\t8\t0\nq4\t7\t0\n"),
        "train": put(
            "pairs.jsonl", [{"query": "a", "positive": "b", "negative": "c"}] * 4
        ),
    }
