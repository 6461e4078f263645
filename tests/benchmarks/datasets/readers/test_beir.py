"""Retrieval data of every form is the same data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.datasets.local_dataset import Content
from benchmarks.datasets.readers.beir import judgements, retrieval
from benchmarks.datasets.readers.beir import read as read_judged
from benchmarks.datasets.readers.original_files import Reading
from benchmarks.datasets.readers.reader import halve
from benchmarks.protocol import get_dataset
from common.errors import UserError
from tests.benchmarks.datasets.readers.originals import Put, inputs_of, read, refused, rows

HEADER = "query-id\tcorpus-id\tscore\n"
SKIPPED = " (--skip-bad-lines leaves such lines out)"
NEGATIVES = "the negatives of the training file are left out"


def beir_files(put: Put) -> dict[str, Path]:
    return {
        "corpus": put(
            "corpus.jsonl", [{"_id": str(i), "title": "", "text": f"passage {i}"} for i in range(50)]
        ),
        "queries": put("queries.jsonl", [{"_id": f"q{i}", "text": f"query {i}"} for i in range(20)]),
        "validation": put("qrels/dev.tsv", HEADER + "q1\t4\t1\nq2\t9\t1\nq1\t5\t1\n"),
        "test": put("qrels/test.tsv", HEADER + "q3\t9\t3\nq3\t8\t0\nq4\t7\t0\n"),
        "train": put("pairs.jsonl", [{"query": "a", "positive": "b", "negative": "c"}] * 4),
    }


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
    assert any("test queries without a relevant document left out: 1;" in note for note in content.notes)
    assert any("negatives" in note for note in content.notes)


def test_all_forms_of_the_same_retrieval_data_are_one(tmp_path: Path, put: Put) -> None:
    files = beir_files(put)
    expected = read("msmarco", **files)
    corpus = [{"_id": str(i), "title": "", "text": f"passage {i}"} for i in range(50)]
    pq.write_table(pa.Table.from_pylist(corpus), tmp_path / "corpus.parquet", row_group_size=7)
    pq.write_table(
        pa.table({"_id": list(range(50)), "text": [f"passage {i}" for i in range(50)]}),
        tmp_path / "ints.parquet",
    )
    others = {
        "corpus": [
            put("collection.tsv", "".join(f"{i}\tpassage {i}\n" for i in range(50))),
            tmp_path / "corpus.parquet",
            tmp_path / "ints.parquet",
        ],
        "queries": [put("queries.tsv", "".join(f"q{i}\tquery {i}\n" for i in range(20)))],
        "validation": [
            put("qrels.dev.tsv", "q1 0 4 1\nq2 0 9 1\nq1 0 5 1\n"),
            put("qrels.json", '{"q1": {"4": 1, "5": 1}, "q2": {"9": 1}}'),
        ],
        "test": [put("2019qrels-pass.txt", "q3 Q0 9 3\nq3 Q0 8 0\nq4 Q0 7 0\n")],
        "train": [put("pairs.tsv", "a\tb\n" * 4), put("triples.tsv", "a\tb\tc\n" * 4)],
    }
    for role, paths in others.items():
        for path in paths:
            found = read("msmarco", **{**files, role: path})
            assert set(found.tables) == set(expected.tables)
            for name, table in expected.tables.items():
                if path.name == "qrels.json":
                    assert sorted(map(str, rows(found, name))) == sorted(map(str, table.to_pylist()))
                else:
                    assert found.tables[name].equals(table), (role, path.name, name)


def test_retrieval_faults(put: Put) -> None:
    files = beir_files(put)
    with pytest.raises(UserError, match=r"q\.tsv:2: the query q1 has a different text further up"):
        read("msmarco", **{**files, "queries": put("q.tsv", "q1\ta\nq1\tb\n")})
    with pytest.raises(UserError, match="msmarco needs the judgements of the test queries"):
        read("msmarco", **{role: path for role, path in files.items() if role != "test"})
    with pytest.raises(UserError, match=r"p\.tsv:1: the line is not a query, a passage"):
        read("msmarco", **{**files, "train": put("p.tsv", "alone\n")})


@pytest.mark.parametrize("score", ["high", [1], float("inf")], ids=str)
def test_a_relevance_that_is_none_is_named_or_left_out(score: object, tmp_path: Path) -> None:
    table = pa.table({"query-id": ["q4"], "corpus-id": ["7"], "score": [score]})
    pq.write_table(table, tmp_path / "bad.parquet")
    with pytest.raises(UserError, match=r"bad\.parquet: row 0: the row does not have the expected form"):
        judgements(tmp_path / "bad.parquet", Reading())
    reading = Reading(skip_bad=True)
    assert judgements(tmp_path / "bad.parquet", reading) == []
    assert "bad lines left out: 1" in "".join(reading.notes())


def test_nqs_declared_counts_are_beirs_queries_halved() -> None:
    validation = halve(f"test{number}" for number in range(3_452))
    assert get_dataset("nq").counts == {"validation": len(validation), "test": 3_452 - len(validation)}


def test_queries_without_a_relevant_document_are_left_out_and_their_documents_stay() -> None:
    splits = {
        "validation": [("q1", "d1", 1), ("q1", "d2", 0)],
        "test": [("q2", "d3", 0), ("q3", "d1", 0), ("q4", "d1", -1), ("q5", "d4", 3)],
    }
    reading = Reading()
    docs: dict[str, dict[str, Any]] = {f"d{n}": {"title": None, "text": f"text {n}"} for n in range(1, 6)}
    tables = retrieval(splits, {"q1": "one?", "q5": "five?"}, docs, reading)
    assert tables["queries"].to_pylist() == [
        {"split": "validation", "id": "q1", "text": "one?"},
        {"split": "test", "id": "q5", "text": "five?"},
    ]
    assert [tuple(row.values()) for row in tables["qrels"].to_pylist()] == [
        ("validation", "q1", "d1", 1),
        ("validation", "q1", "d2", 0),
        ("test", "q5", "d4", 3),
    ]
    assert [row["id"] for row in tables["corpus"].to_pylist()] == ["d1", "d2", "d3", "d4"]
    assert reading.notes() == (
        "test queries without a relevant document left out: 3; the documents judged for them stay",
    )


def test_texts_that_are_not_there_are_counted_and_the_first_is_named(put: Put) -> None:
    files = beir_files(put)
    test = put("t.tsv", "q3 0 91 1\nq3 0 9 1\nq3 0 90 1\n")
    assert refused(lambda: read("msmarco", **{**files, "test": test})) == (
        f"judged document ids missing from {files['corpus']}: 2 (first: '91')"
    )
    with pytest.raises(UserError, match=r"judged query ids missing from .*, .*b\.tsv: 2 \(first: 'q91'\)$"):
        queries = (files["queries"], put("b.tsv", "q0\tquery 0\n"))
        read("msmarco", **{**files, "queries": queries, "test": put("u.tsv", "q91 0 9 1\nq90 0 9 1\n")})


def own_files(put: Put) -> dict[str, Path]:
    return {
        "corpus": put("c.jsonl", [{"_id": f"d{i}", "title": f"T{i}", "text": f"text {i}"} for i in range(8)]),
        "queries": put("q.tsv", "".join(f"q{i}\tquery {i}\n" for i in range(8))),
        "test": put("test.tsv", "".join(f"q{i} 0 d{i} 1\n" for i in range(4))),
    }


def judged(content: Content) -> list[tuple[str, str]]:
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
    assert len(validation) == len(test) == 2 and sorted(validation + test) == ["q0", "q1", "q2", "q3"]
    assert content.splits == "validation is half of the queries, random.Random(42).sample of their sorted ids"


def test_a_set_that_is_trained_on_itself_has_pairs(put: Put) -> None:
    files = {**own_files(put), "train": put("pairs.tsv", "ask\tanswer\n")}
    content = read_judged(inputs_of("nq", trained_on="nq", **files))
    assert rows(content, "pairs") == [{"query": "ask", "positive": "answer"}]
    assert set(content.tables) == {"pairs", "queries", "corpus", "qrels"}


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
        UserError, match="mldr_en needs the texts of its positive passages: use --corpus FILE"
    ):
        read("mldr_en", validation=dev, test=test)


def asked(number: int, *docs: str, **text: str) -> dict[str, Any]:
    passages = [{"docid": doc, **text} for doc in docs]
    return {"query_id": f"q{number}", "query": f"ask {number}", "positive_passages": passages}


def test_every_positive_passage_is_judged_relevant_once(put: Put) -> None:
    dev = put("dev.jsonl", [asked(1, "a", "b", text="x"), asked(2, "b", text="x")])
    content = read("mldr_en", validation=dev, test=put("test.jsonl", [asked(3, "a", text="x")]))
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


def test_the_corpus_gives_the_texts_of_wanted_documents_only(put: Put) -> None:
    path = put("dev.jsonl", [asked(1, "a", text="short")])
    corpus = put("corpus.jsonl", [{"docid": "b", "text": "unasked"}, {"docid": "a", "text": "long"}])
    content = read("mldr_en", validation=path, test=path, corpus=corpus)
    assert rows(content, "corpus") == [{"id": "a", "title": None, "text": "long"}]


def test_passages_without_text_are_counted_and_the_first_is_named(put: Put) -> None:
    path, corpus = put("dev.jsonl", [asked(1, "c"), asked(2, "a", "b")]), put("corpus.tsv", "a\tlong\n")
    with pytest.raises(UserError, match=r"judged document ids missing from .*corpus\.tsv: 2 \(first: 'c'\)"):
        read("mldr_en", validation=path, test=path, corpus=corpus)


def test_a_row_of_another_form_is_named_or_left_out(put: Put) -> None:
    path = put("dev.jsonl", [{"query_id": "q0"}, asked(1, "a", text="x")])
    with pytest.raises(
        UserError, match=r"dev\.jsonl:1: the row does not have .*: 'positive_passages' is missing"
    ):
        read("mldr_en", validation=path, test=path)
    content = read("mldr_en", validation=path, test=path, skip_bad=True)
    assert [row["id"] for row in rows(content, "queries")] == ["q1", "q1"]
