from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.store.runs_table import COLUMNS, read_runs, read_table, sort_runs, write_runs
from benchmarks.own_datasets.definition_file import read_definitions
from benchmarks.own_datasets.definitions import known_datasets
from benchmarks.protocol import DATASETS
from common.errors import UserError
from tests.analysis.store.tables import HEADER, ROW, csv_file, table


@pytest.mark.parametrize("name", ["runs.parquet", "runs.csv"])
def test_a_written_table_is_read_back_exactly(tmp_path: Path, name: str) -> None:
    runs = sort_runs(table())
    write_runs(tmp_path / name, table())
    read = read_runs(tmp_path / name)
    pd.testing.assert_frame_equal(read, runs, check_exact=True)
    assert tuple(read.columns) == COLUMNS
    assert read["lr"].dtype == np.float64
    assert read["seed"].dtype == np.int64
    assert str(read["n_test"].dtype) == "Int64"


@given(order=st.permutations(range(24)))
@settings(max_examples=15, deadline=None)
def test_shuffled_rows_give_the_same_bytes(
    order: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("order")
    write_runs(folder / "a.parquet", table(24))
    write_runs(folder / "b.parquet", table(24).iloc[order])
    assert (folder / "a.parquet").read_bytes() == (folder / "b.parquet").read_bytes()


def test_the_releases_header_is_understood(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "610m-mlm40-42k,SC,sst2,1e-05,0,0.7298099762470309,0.7614678899082569")
    read = read_runs(path)
    assert read.loc[0, "validation_score"] == 0.7298099762470309
    assert read.loc[0, "lr"] == 1e-5
    assert read["n_test"].isna().all()


def test_absent_empty_and_foreign_files_are_told_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        read_runs(tmp_path / "no.parquet")
    with pytest.raises(UserError, match="is a folder"):
        read_runs(tmp_path)
    (tmp_path / "text.parquet").write_text("hello")
    with pytest.raises(UserError, match="no Parquet file"):
        read_runs(tmp_path / "text.parquet")
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(UserError, match="Empty CSV"):
        read_runs(tmp_path / "empty.csv")
    (tmp_path / "latin.csv").write_bytes(HEADER.encode() + b"\n\xe9\xff,,,,,,\n")
    with pytest.raises(UserError, match="UTF8"):
        read_runs(tmp_path / "latin.csv")
    pq.write_table(pa.table({"model": ["a"]}), tmp_path / "other.parquet")
    with pytest.raises(UserError, match="lacks 'task'"):
        read_runs(tmp_path / "other.parquet")
    strings = table(1).assign(lr="fast")
    strings.to_parquet(tmp_path / "strings.parquet")
    with pytest.raises(UserError, match="column lr holds string, not numbers"):
        read_runs(tmp_path / "strings.parquet")


def test_an_own_model_is_taken_when_named_and_remembered_in_parquet(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "bert-base,SC,sst2,1e-05,0,0.5,0.5", ROW)
    runs = read_runs(path, add_models=["bert-*"])
    assert runs["model"].tolist() == ["610m-mlm40-42k", "bert-base"]  # the study's models come first
    write_runs(tmp_path / "runs.parquet", runs)
    assert len(read_runs(tmp_path / "runs.parquet")) == 2


def test_a_parquet_table_says_what_its_own_datasets_are(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text(
        '[reviews]\nlabels = ["a", "b"]\nkind = "text"\n[mine]\nkind = "answers"\n'
    )
    own = read_definitions(tmp_path / "my.toml")
    runs = pd.concat([table(4), *(table(4).assign(task=o.task, dataset=o.name) for o in own)])
    write_runs(tmp_path / "runs.parquet", runs.assign(model="610m-clm-42k"), datasets=known_datasets(own))
    read = read_table(tmp_path / "runs.parquet")
    assert read.runs["dataset"].unique().tolist()[-2:] == ["mine", "reviews"] and len(read.runs) == 12
    assert [read.datasets[one.name] for one in own] == own and "mine" not in DATASETS
    with pytest.raises(UserError, match=r"'other' is unknown.* one of your own is known from its run store"):
        read_runs(csv_file(tmp_path, "610m-clm-42k,SC,other,1e-05,0,0.5,0.5"))


def test_an_empty_table_keeps_its_types(tmp_path: Path) -> None:
    write_runs(tmp_path / "runs.parquet", table(0))
    read = read_runs(tmp_path / "runs.parquet")
    assert len(read) == 0
    assert read["lr"].dtype == np.float64
    assert str(read["n_test"].dtype) == "Int64"


@pytest.mark.parametrize("column", ["model", "test_score"])
def test_columns_of_another_type_are_refused(column: str, tmp_path: Path) -> None:
    plain = pa.Table.from_pandas(table(2))
    at = plain.column_names.index(column)
    pq.write_table(plain.set_column(at, column, pa.array([b"\xff", b"x"])), tmp_path / "runs.parquet")
    with pytest.raises(UserError, match=f"the column {column} holds"):
        read_runs(tmp_path / "runs.parquet")


@pytest.mark.parametrize(
    "record",
    [
        "null",
        "5",
        '{"added_models": null}',
        '{"added_models": [1]}',
        "{",
        '{"protocol": 1}',
        '{"datasets": []}',
    ],
)
def test_a_damaged_record_is_refused(record: str, tmp_path: Path) -> None:
    plain = pa.Table.from_pandas(table(2)).replace_schema_metadata({b"clm_or_mlm": record.encode()})
    pq.write_table(plain, tmp_path / "runs.parquet")
    with pytest.raises(UserError, match="record"):
        read_runs(tmp_path / "runs.parquet")


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ('{"datasets": {"mine": 3}}', r"\[mine\]: give the dataset a table"),
        ('{"datasets": {"mine": {"kind": "txt"}}}', r"\[mine\]: unknown kind of dataset 'txt'"),
        ('{"datasets": {"sst2": {"kind": "text", "labels": ["a", "b"]}}}', "a name of the paper's"),
    ],
)
def test_a_definition_that_cannot_be_is_refused(record: str, message: str, tmp_path: Path) -> None:
    plain = pa.Table.from_pandas(table(2)).replace_schema_metadata({b"clm_or_mlm": record.encode()})
    pq.write_table(plain, tmp_path / "runs.parquet")
    with pytest.raises(UserError, match=f"{tmp_path / 'runs.parquet'}: .*{message}"):
        read_runs(tmp_path / "runs.parquet")
