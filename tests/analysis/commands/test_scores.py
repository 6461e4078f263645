"""`clm-or-mlm scores`: which rows are printed, and where."""

import io
from pathlib import Path

import pandas as pd
import pytest

from clm_or_mlm.__main__ import main


def test_models_and_datasets_are_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "scores",
        "--model",
        "610m-clm-42k",
        "610m-mlm40-42k",
        "--dataset",
        "sst2",
        "--dataset",
        "average",
    ]
    assert main(words) == 0
    frame = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert set(frame["model"]) == {"610m-clm-42k", "610m-mlm40-42k"}
    assert set(frame["dataset"]) == {"sst2", "average"}


def test_a_task_means_its_datasets_and_their_average(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["scores", "--dataset", "QA"]) == 0
    frame = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert set(frame["task"]) == {"QA"}
    assert set(frame["dataset"]) == {"squad", "squad_v2", "record", "average"}


def test_a_table_for_programs_is_written(tmp_path: Path) -> None:
    assert (
        main(
            ["scores", "--format", "parquet", "--out", str(tmp_path / "scores.parquet")]
        )
        == 0
    )
    assert len(pd.read_parquet(tmp_path / "scores.parquet")) > 600
