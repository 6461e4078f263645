"""Retrieval data of every form is the same data: judgements and texts."""

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.datasets.local_dataset import DatasetContent
from benchmarks.datasets.readers.beir import judgements
from benchmarks.datasets.readers.beir import read as read_judged
from benchmarks.datasets.readers.reader import halve
from benchmarks.datasets.readers.retrieval_texts import wanted_texts
from benchmarks.protocol import DatasetFiles, get_dataset
from common.errors import UserError
from tests.benchmarks.datasets.readers.originals import (
    Put,
    defined,
    inputs_of,
    read,
    rows,
)
from tests.benchmarks.datasets.readers.test_refusals import HEADER, beir_files

MARCO = get_dataset("msmarco")
NEGATIVES = "the negatives of the training file are left out"


def test_beir(put: Put) -> None:
    content = read("msmarco", **beir_files(put))
    assert rows(content, "pairs") == [{"query": "a", "positive": "b"}] * 4
    assert [row["id"] for row in rows(content, "corpus")] == ["4", "9", "5", "8", "7"]
    assert [(row["split"], row["id"]) for row in rows(content, "queries")] == [
        ("validation", "q1"),
        ("validation", "q2"),
        ("test", "q3"),
    ]
    assert [row["relevance"] for row in rows(content, "qrels")] == [1, 1, 1, 3, 0]
    assert any(
        "test queries without a relevant document left out: 1;" in note
        for note in content.notes
    )
    assert NEGATIVES in content.notes


def test_nqs_declared_counts_are_beirs_queries_halved() -> None:
    validation = halve(f"test{number}" for number in range(3_452))
    assert get_dataset("nq").counts == {
        "validation": len(validation),
        "test": 3_452 - len(validation),
    }


def own_files(put: Put) -> dict[str, Path]:
    return {
        "corpus": put(
            "c.jsonl",
            [{"_id": f"d{i}", "title": f"T{i}", "text": f"text {i}"} for i in range(8)],
        ),
        "queries": put("q.tsv", "".join(f"q{i}\tquery {i}\n" for i in range(8))),
        "test": put("test.tsv", "".join(f"q{i} 0 d{i} 1\n" for i in range(4))),
    }


def judged(content: DatasetContent) -> list[tuple[str, str]]:
    return [(row["split"], row["query_id"]) for row in rows(content, "qrels")]


def test_judgements_of_two_splits_are_kept_with_titles(put: Put) -> None:
    files = {**own_files(put), "validation": put("dev.tsv", "q5 0 d5 1\nq4 0 d4 1\n")}
    content = read_judged(inputs_of("nq", **files))
    assert judged(content) == [
        ("validation", "q5"),
        ("validation", "q4"),
        *(("test", f"q{i}") for i in range(4)),
    ]
    assert rows(content, "corpus")[0] == {"id": "d5", "title": "T5", "text": "text 5"}
    assert set(content.tables) == {"queries", "corpus", "qrels"}
    assert content.splits == "as given: judgements of two splits"


def test_judgements_of_one_split_are_halved(put: Put) -> None:
    content = read_judged(inputs_of("nq", **own_files(put)))
    validation = [query for split, query in judged(content) if split == "validation"]
    test = [query for split, query in judged(content) if split == "test"]
    assert len(validation) == len(test) == 2 and sorted(validation + test) == [
        "q0",
        "q1",
        "q2",
        "q3",
    ]
    assert (
        content.splits
        == "validation is half of the queries, random.Random(42).sample of their sorted ids"
    )


def asked(number: int, *docs: str, **text: str) -> dict[str, Any]:
    passages = [{"docid": doc, **text} for doc in docs]
    return {
        "query_id": f"q{number}",
        "query": f"ask {number}",
        "positive_passages": passages,
    }


def test_every_positive_passage_of_mldr_is_judged_relevant_once(put: Put) -> None:
    dev = put("dev.jsonl", [asked(1, "a", "b", text="x"), asked(2, "b", text="x")])
    content = read(
        "mldr_en", validation=dev, test=put("test.jsonl", [asked(3, "a", text="x")])
    )
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


def test_mldr_corpus_texts_come_before_the_queries(
    put: Put,
) -> None:
    dev, test = (
        put("dev.jsonl", [asked(1, "a", text="short")]),
        put("test.jsonl", [asked(2, "c", text="own")]),
    )
    corpus = put(
        "corpus.jsonl",
        [{"docid": "b", "text": "unasked"}, {"docid": "a", "text": "long"}],
    )
    content = read("mldr_en", validation=dev, test=test, corpus=corpus)
    assert [(row["id"], row["text"]) for row in rows(content, "corpus")] == [
        ("a", "long"),
        ("c", "own"),
    ]
    bare = put("bare.jsonl", [asked(1, "c"), asked(2, "a", "d")])
    with pytest.raises(
        UserError,
        match=r"judged document ids missing from .*corpus\.jsonl: 2 \(first: 'c'\)",
    ):
        read("mldr_en", validation=bare, test=bare, corpus=corpus)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.tsv", HEADER + "q1\td1\t1\nq2\td2\t0\n"),
        ("x.tsv", "QUERY-ID corpus-id score\nq1 d1 1\nq2 d2 0"),
        ("x.tsv", "qid pid label\nq1 d1 1\nq2 d2 0"),
        ("x.tsv", "q1\td1\t1\n\n  \nq2\td2\t0"),
        ("x.tsv", "q1 0 d1 1\nq2 Q0 d2 0\n"),
        ("x.tsv", "query_id iter docid rel\nq1 0 d1 1\nq2 0 d2 0\n"),
        ("x.json", '{"q1": {"d1": 1}, "q2": {"d2": "0"}, "q3": {}}'),
    ],
)
def test_judgements_of_every_form(put: Put, name: str, text: str) -> None:
    assert judgements([put(name, text)], MARCO.files) == [
        ("q1", "d1", 1),
        ("q2", "d2", 0),
    ]


TEXTS = [("a", None, "one"), ("b", None, "two"), ("None", None, "three")]


@pytest.mark.parametrize("key", ["_id", "docid", "pid"])
@pytest.mark.parametrize("text", ["text", "query"])
@pytest.mark.parametrize("title", ["", "A title"])
@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
def test_texts_of_wanted_rows_come_with_their_titles(
    put: Put, key: str, text: str, title: str, ending: str
) -> None:
    found = [
        {key: identity, text: words, "title": title, "more": 1}
        for identity, _, words in TEXTS
    ]
    path = put(f"x{ending}", found)
    if ending == ".parquet":
        pq.write_table(pa.Table.from_pylist(found), path)
    assert list(wanted_texts(path, {"b": 1, "absent": 1}, MARCO.files)) == [
        (f"{path}: row b" if ending == ".parquet" else f"{path}:2", "b", title, "two")
    ]


def test_texts_without_titles_have_none(put: Put, tmp_path: Path) -> None:
    bare = put("x.tsv", "a\tone\nb\t two \nNone\tthree")
    lines = put(
        "x.jsonl", [{"id": identity, "text": text} for identity, _, text in TEXTS]
    )
    table = pa.table(
        {"id": [row[0] for row in TEXTS], "text": [row[2] for row in TEXTS]}
    )
    pq.write_table(table, tmp_path / "x.parquet")
    for path in (bare, lines, tmp_path / "x.parquet"):
        found = wanted_texts(path, dict.fromkeys(["a", "b", "None"]), MARCO.files)
        assert [row[1:] for row in found] == TEXTS
    pq.write_table(
        pa.table({"_id": [1, 2], "text": ["one", "two"]}), tmp_path / "numbers.parquet"
    )
    found = wanted_texts(tmp_path / "numbers.parquet", {"1": 1}, MARCO.files)
    assert [row[1:] for row in found] == [("1", None, "one")]


IDS = st.text("ab0 .-\u00e9", min_size=1, max_size=6).map(str.strip).filter(bool)
GRADES = st.integers(-1, 3)


@given(
    st.dictionaries(st.tuples(IDS, IDS), GRADES, min_size=1, max_size=8),
    st.sampled_from(["", "Q0", "0"]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_judgements_with_any_ids_are_the_same_in_every_form(
    put: Put, judged: dict[tuple[str, str], int], second: str
) -> None:
    """Between tabs, in rows and as JSON: ids with blanks, and whole numbers with or without a point."""
    expected = [(query, doc, score) for (query, doc), score in judged.items()]
    trec = f"\t{second}\t" if second else "\t"
    forms: list[tuple[str, str | list[Any]]] = [
        (
            "a.tsv",
            "query-id\tcorpus-id\tscore\n"
            + "".join(f"{q}{trec}{d}\t{s}\r\n" for q, d, s in expected),
        ),
        (
            "b.tsv",
            "query-id\tcorpus-id\tscore\n"
            + "".join(f"{q}\t{d}\t{s}.0\n" for q, d, s in expected),
        ),
        (
            "c.jsonl",
            [
                {"query-id": q, "corpus-id": d, "score": float(s)}
                for q, d, s in expected
            ],
        ),
    ]
    for name, content in forms:
        assert judgements([put(name, content)], DatasetFiles()) == expected


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (
            "a.tsv",
            "q\td\t1\nq\te\t0.9\n",
            ":2: the relevance 0.9 is not a whole number",
        ),
        (
            "a.jsonl",
            [{"qid": "q", "pid": "d", "score": 2.7}],
            ":1: the relevance 2.7 is not a whole number",
        ),
        ("a.json", '{"q": {"d": 0.5}}', ": q: the relevance 0.5 is not a whole number"),
        ("a.tsv", "q d nan\n", ":1: the relevance nan is not a whole number"),
        (
            "a.tsv",
            "q\td\t1\nq\td\t0\n",
            ":2: the query q and the document d have the relevance 0 here and 1 before",
        ),
        (
            "a.jsonl",
            [{"qid": "q", "pid": "d", "score": s} for s in (1, 1, 2)],
            ":3: the query q and the document d",
        ),
        (
            "a.txt",
            "q Q0 d 1 12.5 bm25\n",
            ":1: the line is not a judgement .*a TREC run",
        ),
        ("a.tsv", "q\tuser manual\n", ":1: the line is not a judgement"),
        (
            "a.tsv",
            "q\td\thigh\n",
            ":1: the line is not a judgement .*'high' is not a number",
        ),
    ],
)
def test_a_judgement_that_says_two_things_or_none_is_refused(
    name: str, content: Any, said: str, put: Put
) -> None:
    path = put(name, content)
    with pytest.raises(UserError, match=re.escape(name) + said):
        judgements([path], DatasetFiles())


def test_a_file_of_judgements_may_begin_with_an_empty_line(put: Put) -> None:
    path = put("a.tsv", "\nq\td\t1\n")
    assert judgements([path], DatasetFiles()) == [("q", "d", 1)]


@pytest.mark.parametrize("name", ["b.tsv", "b.jsonl", "b.json"])
def test_a_pair_that_two_files_judge_differently_is_refused(
    name: str, put: Put
) -> None:
    rows = [{"qid": "q 1", "pid": "d", "score": 0}]
    content: dict[str, Any] = {
        "b.tsv": "q 1\td\t0\n",
        "b.jsonl": rows,
        "b.json": '{"q 1": {"d": 0}}',
    }
    paths = [put("a.tsv", "q 1\td\t1\n"), put(name, content[name])]
    with pytest.raises(
        UserError, match=re.escape(name) + ".*the relevance 0 here and 1 before"
    ):
        judgements(paths, DatasetFiles())


def test_a_document_with_two_texts_is_refused(put: Put) -> None:
    files = {
        "queries": put("q.tsv", "q0\twhich?\nq1\twhat?\n"),
        "corpus": put(
            "c.jsonl", [{"_id": "d 0", "text": text} for text in ("one", "one", "two")]
        ),
        "validation": put("v.tsv", "q0\td 0\t1\n"),
        "test": put("t.tsv", "q1\td 0\t1\n"),
    }
    with pytest.raises(
        UserError, match=r"c\.jsonl:3: the document d 0 has a different text further up"
    ):
        read(defined("retrieval", trained_on="msmarco"), **files)


def test_texts_between_tabs_have_two_columns_or_a_header(put: Put) -> None:
    files = defined("retrieval").files
    named = put("x.tsv", "text\ttitle\tid\none\tI\ta\n")
    assert list(wanted_texts(named, {"a": 1}, files)) == [
        (f"{named}:2", "a", "I", "one")
    ]
    with pytest.raises(
        UserError, match=r"y\.tsv:1: the line is not an id, a tab and a text"
    ):
        list(wanted_texts(put("y.tsv", "a\tI\tone\n"), {"a": 1}, files))


def test_quotes_of_a_tsv_corpus_are_what_the_definition_says(put: Put) -> None:
    texts = "".join(f'd{i}\t"text ""{i}"""\n' for i in range(8))
    files = {**own_files(put), "corpus": put("corpus.tsv", texts)}
    with pytest.raises(UserError, match=r"corpus\.tsv:1: the quotes may enclose"):
        read(defined("retrieval", trained_on="msmarco"), **files)
    for quotes, text in ((True, 'text "0"'), (False, '"text ""0"""')):
        table = defined("retrieval", trained_on="msmarco", quotes=quotes)
        assert rows(read(table, **files), "corpus")[0]["text"] == text


@pytest.mark.parametrize("corpus", ["", "all", "judged"])
def test_which_documents_are_searched_is_said(corpus: str, put: Put) -> None:
    table = {"corpus": corpus} if corpus else {}
    content = read(
        defined("retrieval", trained_on="msmarco", **table), **own_files(put)
    )
    ids = [row["id"] for row in rows(content, "corpus")]
    assert sorted(ids[:4]) == ["d0", "d1", "d2", "d3"]
    assert ids[4:] == ([] if corpus == "judged" else ["d4", "d5", "d6", "d7"])
    said = "documents that are searched: 8, of which 4 are judged"
    assert (said in content.notes) == (corpus != "judged")


def test_more_documents_than_are_searched_unasked(
    put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.datasets.readers.beir._MOST_SEARCHED", 7)
    with pytest.raises(
        UserError, match=r"c\.jsonl has more than 7 documents; set corpus = 'all'"
    ):
        read(defined("retrieval", trained_on="msmarco"), **own_files(put))
    asked = defined("retrieval", trained_on="msmarco", corpus="all")
    assert len(rows(read(asked, **own_files(put)), "corpus")) == 8


def test_judged_ids_without_a_text_are_counted(put: Put) -> None:
    """A query is left out; a document stays among the judgements."""
    lines = "".join(f"q{i} 0 d{i} 1\nq{i} 0 gone{i} 1\n" for i in (0, 1, 2, 3, 77))
    files = {
        **own_files(put),
        "test": put("more.tsv", lines),
        "validation": put("dev.tsv", "q5 0 d5 1\n"),
    }
    content = read(defined("retrieval", trained_on="msmarco"), **files)
    tested = [row for row in rows(content, "qrels") if row["split"] == "test"]
    assert [row["query_id"] for row in tested] == [
        "q0",
        "q0",
        "q1",
        "q1",
        "q2",
        "q2",
        "q3",
        "q3",
    ]
    assert "gone0" not in [row["id"] for row in rows(content, "corpus")]
    assert any(
        "judged query ids missing" in note and "1 (first: 'q77'); left" in note
        for note in content.notes
    )
    assert any(
        "6 (first: 'gone0'); they count in the ideal ranking" in note
        for note in content.notes
    )
