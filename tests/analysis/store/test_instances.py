"""Per-instance scores: written by ingest, read by row of the runs table."""

import random
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from analysis.store.instances import read_instances
from common.errors import UserError
from tests.analysis.stores import MODELS, SIZES, read


def test_any_parquet_reader_opens_the_instances_as_one_data_set(store: Path, tmp_path: Path) -> None:
    read(store, tmp_path)
    frame = ds.dataset(tmp_path / "instances").to_table(columns=["model", "dataset", "lr", "seed", "test"])
    assert frame.num_rows == 180
    assert set(frame["dataset"].to_pylist()) == set(SIZES)


def test_reading_instances_names_what_is_missing(store: Path, tmp_path: Path) -> None:
    runs = read(store, tmp_path).runs
    rows = runs[runs["dataset"] == "sst2"]
    folder = tmp_path / "instances"
    with pytest.raises(
        UserError, match=r"610m-clm-22k/sst2\.parquet: this file of per-instance scores is missing"
    ):
        read_instances(folder, "sst2", rows.assign(model="610m-clm-22k"))
    with pytest.raises(UserError, match=r"no run with lr 0\.3 and seed 0"):
        read_instances(folder, "sst2", rows.assign(lr=0.3))
    with pytest.raises(UserError, match="unknown split 'tset'"):
        read_instances(folder, "sst2", rows, "tset")
    assert read_instances(folder, "sst2", rows.iloc[:0]).shape == (0, 0)


def test_no_flipped_bit_of_instances_passes(store: Path, tmp_path: Path) -> None:
    runs = read(store, tmp_path).runs
    rows = runs[(runs["dataset"] == "nq") & (runs["model"] == MODELS[0])]
    for name in (f"{MODELS[0]}/nq.parquet", "_manifest.json"):
        file, draw = tmp_path / "instances" / name, random.Random(0)
        content = file.read_bytes()
        for _ in range(50):
            bit = draw.randrange(8 * len(content))
            flipped = bytearray(content)
            flipped[bit // 8] ^= 1 << bit % 8
            file.write_bytes(flipped)
            with pytest.raises(UserError, match="instances"):
                read_instances(tmp_path / "instances", "nq", rows)
        file.write_bytes(content)
    read_instances(tmp_path / "instances", "nq", rows)
