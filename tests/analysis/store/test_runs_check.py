"""What a row may hold, and the order of rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analysis.store.runs_table import read_runs, write_runs
from benchmarks.protocol import DATASETS
from common.errors import UserError
from pretraining.model_names import MODELS
from tests.analysis.store.tables import HEADER, ROW, csv_file, table


def test_rows_are_in_the_order_of_the_study(tmp_path: Path) -> None:
    write_runs(tmp_path / "runs.parquet", table(60))
    read = read_runs(tmp_path / "runs.parquet")
    ranks = [
        (list(MODELS).index(m), list(DATASETS).index(d))
        for m, d in zip(read["model"], read["dataset"], strict=True)
    ]
    assert ranks == sorted(ranks)


def test_a_learning_rate_that_went_through_float32_is_the_grids(tmp_path: Path) -> None:
    path = csv_file(tmp_path, f"610m-mlm40-42k,SC,sst2,{float(np.float32(1e-4))!r},0,0.5,0.5")
    assert read_runs(path)["lr"].tolist() == [1e-4]


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
        (["610m-mlm40-42k,SC,sst2,1e-05,0,0.5,good"], "Row #2: .*invalid value 'good'"),
        (["610m-mlm40-42k,SC,sst2,0,0,0.5,0.5"], "learning rate that is no positive number"),
        (["610m-mlm40-42k,SC,sst2,1e-05,0.5,0.5,0.5"], "seed that is no whole number"),
        (
            [ROW, "610m-mlm40-42k,SC,sst2,2e-05,0,0.5,0.5", ROW],
            "lines 2 and 4 hold the same run.*lr 1e-05, seed 0",
        ),
        (["610m-mlm40-42k,SC,sst2,1e-05,0,0.5"], "Row #2: Expected 7 columns, got 6"),
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


def test_a_model_in_the_scheme_outside_the_study_is_fine(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "610m-clm-20k-mlm15-42k,SC,sst2,1e-05,0,0.5,0.5")
    assert read_runs(path)["model"].tolist() == ["610m-clm-20k-mlm15-42k"]


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
