"""The same example in two splits is reported with a count and an example."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from benchmarks.datasets.import_files import overlaps
from benchmarks.datasets.local_dataset import table
from benchmarks.datasets.synthetic import synthetic
from benchmarks.protocol import get_dataset
from tests.benchmarks.command import command


@pytest.mark.parametrize("name", ["mnli_m", "uner_en", "squad", "msmarco"])
def test_what_is_in_two_splits_is_counted(name: str) -> None:
    dataset = get_dataset(name)
    tables = dict(synthetic(dataset, train=40, evaluation=10).tables)
    if dataset.task == "IR":
        queries = tables["queries"].to_pylist()
        tables["queries"] = table("IR", "queries", [*queries, {**queries[0], "split": "test", "id": "again"}])
    else:
        tables["test"] = tables["test"].slice(0, 0)
        assert not [line for line in overlaps(dataset, tables) if "of test are" in line]
        tables["test"] = tables["train"].slice(3, 2)
    (line,) = [line for line in overlaps(dataset, tables) if "test are in" in line][:1]
    assert " in " in line and "as well, the first '" in line
    assert line.startswith("1 of the 11" if dataset.task == "IR" else "2 of the 2")


def test_the_same_file_as_train_and_test_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    lines = [f"a film number {number}\t{number % 2}" for number in range(60)]
    (tmp_path / "train.tsv").write_text("\n".join(["sentence\tlabel", *lines]))
    (tmp_path / "dev.tsv").write_text("\n".join(["sentence\tlabel", *lines]))
    caplog.set_level(logging.WARNING)
    arguments = ["sst2", "--train", str(tmp_path / "train.tsv"), "--validation", str(tmp_path / "dev.tsv")]
    assert command("import")([*arguments, "--out", str(tmp_path / "data")]) == 0
    shown = capsys.readouterr().out
    assert "57 of the 60 texts of test are in train as well, the first 'a film number" in shown
    assert "3 of the 60 texts of test are in validation as well" in shown


def test_retrieval_reports_queries_that_are_trained_on_and_tested(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def lines(name: str, rows: list[dict[str, str]]) -> None:
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    lines("pairs.jsonl", [{"query": f"query {i}", "positive": f"document {i}"} for i in range(10)])
    lines("queries.jsonl", [{"_id": f"q{i}", "text": f"query {i % 14}"} for i in range(20)])
    lines("corpus.jsonl", [{"_id": f"d{i}", "text": f"document {i}"} for i in range(20)])
    for name, numbers in (("dev.tsv", range(10, 14)), ("test.tsv", range(7, 10))):
        (tmp_path / name).write_text("".join(f"q{i}\td{i}\t1\n" for i in numbers))
    files = (
        "train = 'pairs.jsonl', queries = 'queries.jsonl', corpus = 'corpus.jsonl', validation = 'dev.tsv'"
    )
    (tmp_path / "my.toml").write_text(f"[mine]\nkind = 'retrieval'\nfiles = {{{files}, test = 'test.tsv'}}\n")
    assert not command("import")(
        ["mine", "--datasets", str(tmp_path / "my.toml"), "--out", str(tmp_path / "data")]
    )
    shown = capsys.readouterr().out
    assert "3 of the 3 queries of test are in train as well, the first 'Query: query 7'" in shown
    assert shown.count("as well") == 1
