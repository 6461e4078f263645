"""Retrieval data of every form is the same data."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.datasets.readers.beir import judgements
from benchmarks.datasets.readers.original_files import Reading
from common.errors import UserError
from tests.benchmarks.datasets.readers.originals import Put, read, rows

HEADER = "query-id\tcorpus-id\tscore\n"


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
    assert any("1 test queries without a relevant document" in note for note in content.notes)
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


def test_pairs_from_training_judgements(put: Put) -> None:
    files = beir_files(put)
    files["train"] = put("qrels/train.tsv", HEADER + "q7\t30\t1\nq8\t31\t1\nq8\t32\t0\n")
    assert rows(read("msmarco", **files), "pairs") == [
        {"query": "query 7", "positive": "passage 30"},
        {"query": "query 8", "positive": "passage 31"},
    ]


def test_retrieval_faults(put: Put) -> None:
    files = beir_files(put)
    with pytest.raises(
        UserError, match=r"1 judged document ids, the first '999', are not in .*corpus\.jsonl"
    ):
        read("msmarco", **{**files, "test": put("t.tsv", HEADER + "q3\t999\t1\n")})
    with pytest.raises(UserError, match=r"1 judged query ids, the first 'q99', are not in"):
        read("msmarco", **{**files, "test": put("t.tsv", HEADER + "q99\t9\t1\n")})
    with pytest.raises(UserError, match=r"t\.tsv:3: the line is no judgement"):
        read("msmarco", **{**files, "test": put("t.tsv", HEADER + "q3\t9\t1\nq3\t9\tmany\n")})
    with pytest.raises(UserError, match=r"t\.tsv:1: the line is no judgement"):
        read("msmarco", **{**files, "test": put("t.tsv", "q3\t9\tmany\n")})
    with pytest.raises(UserError, match=r"q\.jsonl:1: there is no column text or query"):
        read("msmarco", **{**files, "queries": put("q.jsonl", [{"_id": "q1"}])})
    with pytest.raises(UserError, match=r"q\.tsv:2: the query q1 has another text further up"):
        read("msmarco", **{**files, "queries": put("q.tsv", "q1\ta\nq1\tb\n")})
    with pytest.raises(UserError, match="msmarco needs the judgements of the 43 test queries"):
        read("msmarco", **{role: path for role, path in files.items() if role != "test"})
    with pytest.raises(UserError, match=r"p\.tsv:1: the line is not a query, its passage"):
        read("msmarco", **{**files, "train": put("p.tsv", "alone\n")})


@pytest.mark.parametrize("score", ["high", [1], float("inf")], ids=str)
def test_a_relevance_that_is_none_is_named_or_left_out(score: object, tmp_path: Path) -> None:
    table = pa.table({"query-id": ["q4"], "corpus-id": ["7"], "score": [score]})
    pq.write_table(table, tmp_path / "bad.parquet")
    with pytest.raises(UserError, match=r"bad\.parquet: row 0: the row has not the expected form"):
        judgements(tmp_path / "bad.parquet", Reading())
    reading = Reading(skip_bad=True)
    assert judgements(tmp_path / "bad.parquet", reading) == []
    assert "bad lines left out: 1" in "".join(reading.notes())


def test_bad_rows_of_judgements_leave_the_others(put: Put) -> None:
    good = {"query-id": "q3", "corpus-id": "9", "score": 1}
    path = put("qrels.jsonl", [good, {**good, "score": "high"}, {**good, "corpus-id": "8"}])
    assert judgements(path, Reading(skip_bad=True)) == [("q3", "9", 1), ("q3", "8", 1)]
    with pytest.raises(UserError, match=r"qrels\.jsonl:2: the row has not the expected form: .* 'high'"):
        judgements(path, Reading())


def test_nq_halves(put: Put) -> None:
    files = beir_files(put)
    found = put("nq/test.tsv", HEADER + "".join(f"q{i}\t{i}\t1\n" for i in range(20)))
    corpus = put("nq/corpus.jsonl", [{"_id": str(i), "title": f"T{i}", "text": "x"} for i in range(50)])
    content = read("nq", corpus=corpus, queries=files["queries"], test=found)
    splits = [row["split"] for row in rows(content, "queries")]
    assert (splits.count("validation"), splits.count("test")) == (10, 10)
    assert rows(content, "corpus")[0]["title"].startswith("T")
    assert "random.Random(42)" in content.splits


def test_nq_from_gold_passages(put: Put) -> None:
    gold = [{"title": "A", "text": "one", "isgold": True}, {"title": "B", "text": "no", "isgold": False}]
    path = put("oracle.jsonl", [{"question": f"who {i}", "answers": ["x"], "ctxs": gold} for i in range(6)])
    content = read("nq", test=path)
    assert rows(content, "corpus") == [{"id": "d0", "title": "A", "text": "one"}]
    assert sorted(row["text"] for row in rows(content, "queries")) == [f"who {i}" for i in range(6)]
    with pytest.raises(UserError, match=r"o\.jsonl:1: .*'ctxs' is missing"):
        read("nq", test=put("o.jsonl", [{"question": "x"}]))
