from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.store.runs_table import COLUMNS, added_models, read_runs, sort_runs, write_runs
from benchmarks.protocol import DATASETS, LEARNING_RATES
from common.errors import UserError
from pretraining.study import MODELS

HEADER = "model,task,dataset,lr,seed,val_score,test_score"


def table(n: int = 12, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    datasets = [list(DATASETS)[i % 12] for i in range(n)]
    return pd.DataFrame(
        {
            "model": [list(MODELS)[(7 * i) % 51] for i in range(n)],
            "task": [DATASETS[name].task for name in datasets],
            "dataset": datasets,
            "lr": [LEARNING_RATES[i % 6] for i in range(n)],
            "seed": [i // 60 for i in range(n)],
            "validation_score": rng.random(n),
            "test_score": rng.random(n),
            "n_validation": pd.array([100 + i for i in range(n)], dtype="Int64"),
            "n_test": pd.array([None if i % 5 == 0 else i + 1 for i in range(n)], dtype="Int64"),
        }
    )


def csv_file(folder: Path, *lines: str, header: str = HEADER) -> Path:
    path = folder / "runs.csv"
    path.write_text("\n".join((header, *lines)) + "\n")
    return path


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


def test_rows_are_in_the_order_of_the_study(tmp_path: Path) -> None:
    write_runs(tmp_path / "runs.parquet", table(60))
    read = read_runs(tmp_path / "runs.parquet")
    ranks = [
        (list(MODELS).index(m), list(DATASETS).index(d))
        for m, d in zip(read["model"], read["dataset"], strict=True)
    ]
    assert ranks == sorted(ranks)


def test_the_releases_header_is_understood(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "610m-mlm40-42k,SC,sst2,1e-05,0,0.7298099762470309,0.7614678899082569")
    read = read_runs(path)
    assert read.loc[0, "validation_score"] == 0.7298099762470309
    assert read.loc[0, "lr"] == 1e-5
    assert read["n_test"].isna().all()


def test_a_learning_rate_that_went_through_float32_is_the_grids(tmp_path: Path) -> None:
    path = csv_file(tmp_path, f"610m-mlm40-42k,SC,sst2,{float(np.float32(1e-4))!r},0,0.5,0.5")
    assert read_runs(path)["lr"].tolist() == [1e-4]


ROW = "610m-mlm40-42k,SC,sst2,1e-05,0,0.5,0.5"


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (["610m-mlm40-42kk,SC,sst2,1e-05,0,0.5,0.5"], "line 2: .*did you mean '610m-mlm40-42k'"),
        (["bert-base,SC,sst2,1e-05,0,0.5,0.5"], "line 2: unknown model 'bert-base'.*--add-model bert-base"),
        (
            [ROW, "610m-mlm40-42k,SC,sst-2,1e-05,1,0.5,0.5"],
            "line 3: dataset 'sst-2' is unknown; did you mean 'sst2'",
        ),
        (["610m-mlm40-42k,QA,qed,1e-05,0,0.5,0.5"], "'qed' is outside the paper's twelve"),
        (["610m-mlm40-42k,QA,sst2,1e-05,0,0.5,0.5"], "line 2 gives sst2 the task 'QA', it belongs to SC"),
        (["610m-mlm40-42k,SC,sst2,1e-05,0,nan,0.5"], "line 2 has validation_score nan"),
        (["610m-mlm40-42k,SC,sst2,1e-05,0,0.5,91.4"], "test_score 91.4, .*percent are divided by 100"),
        (["610m-mlm40-42k,SC,sst2,1e-05,0,0.5,-0.1"], "outside"),
        (["610m-mlm40-42k,SC,sst2,1e-05,0,0.5,good"], "line 2 has test_score 'good', which is no number"),
        (["610m-mlm40-42k,SC,sst2,0,0,0.5,0.5"], "learning rate that is no positive number"),
        (["610m-mlm40-42k,SC,sst2,1e-05,0.5,0.5,0.5"], "seed that is no whole number"),
        (
            [ROW, "610m-mlm40-42k,SC,sst2,2e-05,0,0.5,0.5", ROW],
            "lines 2 and 4 hold the same run.*lr 1e-05, seed 0",
        ),
        (["610m-mlm40-42k,SC,sst2,1e-05,0,0.5"], "line 2 has 6 fields, the header has 7"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, lines: list[str], sentence: str) -> None:
    path = csv_file(tmp_path, *lines)
    with pytest.raises(UserError, match=sentence) as error:
        read_runs(path)
    assert str(error.value).startswith(str(path))
    assert "\n" not in str(error.value)


def test_a_wrong_header_names_what_is_missing_and_the_nearest(tmp_path: Path) -> None:
    path = csv_file(tmp_path, ROW, header="model,task,dataset,lr,seed,validation,test_scores")
    with pytest.raises(
        UserError, match=r"lacks 'validation_score'; .*'validation'; 'test_score'; .*'test_scores'"
    ):
        read_runs(path)


def test_absent_empty_and_foreign_files_are_told_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        read_runs(tmp_path / "no.parquet")
    with pytest.raises(UserError, match="is a folder"):
        read_runs(tmp_path)
    (tmp_path / "text.parquet").write_text("hello")
    with pytest.raises(UserError, match="no Parquet file"):
        read_runs(tmp_path / "text.parquet")
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(UserError, match="is empty"):
        read_runs(tmp_path / "empty.csv")
    (tmp_path / "latin.csv").write_bytes(HEADER.encode() + b"\n\xe9\xff,,,,,,\n")
    with pytest.raises(UserError, match="UTF-8"):
        read_runs(tmp_path / "latin.csv")
    pq.write_table(pa.table({"model": ["a"]}), tmp_path / "other.parquet")
    with pytest.raises(UserError, match="lacks 'task'"):
        read_runs(tmp_path / "other.parquet")
    strings = table(1).assign(lr="fast")
    strings.to_parquet(tmp_path / "strings.parquet")
    with pytest.raises(UserError, match="column lr holds something that is no number"):
        read_runs(tmp_path / "strings.parquet")


def test_an_own_model_is_taken_when_named_and_remembered_in_parquet(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "bert-base,SC,sst2,1e-05,0,0.5,0.5", ROW)
    runs = read_runs(path, add_models=["bert-*"])
    assert runs["model"].tolist() == ["610m-mlm40-42k", "bert-base"]  # the study's models come first
    write_runs(tmp_path / "runs.parquet", runs, add_models=["bert-base"])
    assert added_models(tmp_path / "runs.parquet") == ("bert-base",)
    assert len(read_runs(tmp_path / "runs.parquet")) == 2


def test_a_model_in_the_scheme_outside_the_study_is_fine(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "610m-clm-20k-mlm15-42k,SC,sst2,1e-05,0,0.5,0.5")
    assert read_runs(path)["model"].tolist() == ["610m-clm-20k-mlm15-42k"]


def test_an_empty_table_keeps_its_types(tmp_path: Path) -> None:
    write_runs(tmp_path / "runs.parquet", table(0))
    read = read_runs(tmp_path / "runs.parquet")
    assert len(read) == 0
    assert read["lr"].dtype == np.float64
    assert str(read["n_test"].dtype) == "Int64"


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("n_validation", "inf", "n_validation inf"), ("n_test", "1e300", "n_test 1e.300"), ("seed", "1e30", "seed"),
        ("lr", "2", "below 1"), ("lr", "inf", "learning rate"), ("val_score", "nan", "val"),
        ("model", "=1+1", "formula"),
        ("model", "a\x1b[2J", "cannot be printed"), ("model", "x" * 300, "300 bytes"),
    ],
)  # fmt: skip
def test_a_value_out_of_range_is_refused(field: str, value: str, why: str, tmp_path: Path) -> None:
    row = {
        "model": "610m-mlm40-42k", "task": "SC", "dataset": "sst2", "lr": "1e-5", "seed": "0", "val_score": "0.5",
        "test_score": "0.5", "n_validation": "3", "n_test": "3",
    } | {field: value}  # fmt: skip
    path = csv_file(tmp_path, ",".join(row.values()), header=",".join(row))
    with pytest.raises(UserError, match=why) as error:
        read_runs(path, add_models=["*"])
    assert str(error.value).isprintable()


def test_a_doubled_column_is_refused(tmp_path: Path) -> None:
    row = "610m-mlm40-42k,SC,sst2,1e-5,0,0.5,0.5"
    with pytest.raises(UserError, match="'test_score' twice"):
        read_runs(csv_file(tmp_path, f"{row},0.5", header=f"{HEADER},test_score"))
    with pytest.raises(UserError, match="'validation_score' twice"):
        read_runs(csv_file(tmp_path, f"{row},0.5", header=f"{HEADER},validation_score"))
    frame = table(2)
    doubled = pa.Table.from_pandas(frame).append_column("lr", pa.array([0.1, 0.1]))
    pq.write_table(doubled, tmp_path / "runs.parquet")
    with pytest.raises(UserError, match="'lr' twice"):
        read_runs(tmp_path / "runs.parquet")


@pytest.mark.parametrize("column", ["model", "test_score"])
def test_columns_of_another_type_are_refused(column: str, tmp_path: Path) -> None:
    plain = pa.Table.from_pandas(table(2))
    at = plain.column_names.index(column)
    pq.write_table(plain.set_column(at, column, pa.array([b"\xff", b"x"])), tmp_path / "runs.parquet")
    with pytest.raises(UserError, match=f"the column {column} holds"):
        read_runs(tmp_path / "runs.parquet")


@pytest.mark.parametrize(
    "record", ["null", "5", '{"added_models": null}', '{"added_models": [1]}', "{", '{"protocol": 1}']
)
def test_a_damaged_record_is_refused(record: str, tmp_path: Path) -> None:
    plain = pa.Table.from_pandas(table(2)).replace_schema_metadata({b"clm_or_mlm": record.encode()})
    pq.write_table(plain, tmp_path / "runs.parquet")
    for look in (read_runs, added_models):
        with pytest.raises(UserError, match="record"):
            look(tmp_path / "runs.parquet")


def test_an_edited_table_of_ours_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "runs.parquet"
    write_runs(path, table())
    sealed = pq.read_table(path)
    edited = sealed.set_column(6, "test_score", pa.array([0.75] * len(sealed)))
    pq.write_table(edited, path)
    with pytest.raises(UserError, match="was changed since it was written"):
        read_runs(path)
