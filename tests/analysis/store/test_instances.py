"""Per-instance scores: written by ingest, read by row of the runs table."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from analysis.store.instances import read_instances
from common.errors import UserError
from tests.analysis.stores import MODELS, SIZES, contents, read


def test_any_parquet_reader_opens_the_instances_as_one_data_set(store: Path, tmp_path: Path) -> None:
    read(store, tmp_path)
    frame = ds.dataset(tmp_path / "instances").to_table(columns=["model", "dataset", "lr", "seed", "test"])
    assert frame.num_rows == 180
    assert set(frame["dataset"].to_pylist()) == set(SIZES)


def test_reading_instances_names_what_is_missing(store: Path, tmp_path: Path) -> None:
    runs = read(store, tmp_path).runs
    rows = runs[runs["dataset"] == "sst2"]
    folder = tmp_path / "instances"
    with pytest.raises(UserError, match="no instances of 610m-clm-22k on sst2"):
        read_instances(folder, "sst2", rows.assign(model="610m-clm-22k"))
    with pytest.raises(UserError, match=r"no run with lr 0\.3, seed 0"):
        read_instances(folder, "sst2", rows.assign(lr=0.3))
    with pytest.raises(UserError, match="unknown split 'tset'"):
        read_instances(folder, "sst2", rows, "tset")
    with pytest.raises(UserError, match="did you mean 'sst2'"):
        read_instances(folder, "sst-2", rows)
    assert read_instances(folder, "sst2", rows.iloc[:0]).shape == (0, 0)


def test_what_a_killed_write_left_goes_away_after_an_hour(store: Path, tmp_path: Path) -> None:
    read(store, tmp_path)
    expected = contents(tmp_path)
    fresh = tmp_path / "instances" / MODELS[0] / ".nq.parquet.1-ab.tmp.parquet"
    old = tmp_path / "instances" / MODELS[0] / ".sst2.parquet.2-cd.tmp.parquet"
    for file in (fresh, old):
        file.write_bytes(b"half a")
    os.utime(old, (time.time() - 4000,) * 2)
    read(store, tmp_path)
    assert fresh.exists()  # another process may be writing it
    fresh.unlink()
    assert contents(tmp_path) == expected
