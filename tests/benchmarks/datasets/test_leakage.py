"""The same example in two splits is reported with a count and an example."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from benchmarks.datasets.leakage import overlaps
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
        assert not [line for line in overlaps(dataset.task, tables) if "of test are" in line]
        tables["test"] = tables["train"].slice(3, 2)
    (line,) = [line for line in overlaps(dataset.task, tables) if "test are in" in line][:1]
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
