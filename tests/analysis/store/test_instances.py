"""Per-instance scores: written by ingest, read by row of the runs table."""

import random
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from analysis.store.instances import read_clusters, read_instances
from common.errors import UserError
from tests.analysis.stores import MODELS, SIZES, join_cells, read


def test_any_parquet_reader_opens_the_instances_as_one_data_set(
    store: Path, tmp_path: Path
) -> None:
    read(store, tmp_path)
    frame = ds.dataset(tmp_path / "instances").to_table(
        columns=["model", "dataset", "lr", "seed", "test"]
    )
    assert frame.num_rows == 180
    assert set(frame["dataset"].to_pylist()) == set(SIZES)


def test_reading_instances_names_what_is_missing(store: Path, tmp_path: Path) -> None:
    runs = read(store, tmp_path).runs
    rows = runs[runs["dataset"] == "sst2"]
    folder = tmp_path / "instances"
    with pytest.raises(
        UserError,
        match=r"610m-clm-22k/sst2\.parquet: this file of per-instance scores is missing",
    ):
        read_instances(folder, "sst2", rows.assign(model="610m-clm-22k"))
    with pytest.raises(UserError, match=r"no run with lr 0\.3 and seed 0"):
        read_instances(folder, "sst2", rows.assign(lr=0.3))
    with pytest.raises(UserError, match="unknown split 'tset'"):
        read_instances(folder, "sst2", rows, "tset")
    assert read_instances(folder, "sst2", rows.iloc[:0]).shape == (0, 0)


def test_one_file_of_all_cells_gives_the_same(store: Path, tmp_path: Path) -> None:
    runs = read(store, tmp_path).runs
    folder, file = tmp_path / "instances", tmp_path / "one" / "all.parquet"
    join_cells(folder, file)
    join_cells(folder, tmp_path / "again" / "all.parquet")
    for name in ("all.parquet", "all.parquet.manifest.json"):
        assert (file.parent / name).read_bytes() == (
            tmp_path / "again" / name
        ).read_bytes()
    for dataset, rows in runs.groupby("dataset"):
        for split in ("validation", "test"):
            both = [
                read_instances(path, str(dataset), rows, split)
                for path in (folder, file)
            ]
            assert both[0].size and (both[0] == both[1]).all()
        clusters = [read_clusters(path, str(dataset), rows) for path in (folder, file)]
        assert str(clusters[0]) == str(clusters[1])
    rows = runs[runs["dataset"] == "sst2"]
    with pytest.raises(
        UserError, match=r"all\.parquet has no run with lr .*; read the store again"
    ):
        read_instances(file, "sst2", rows.assign(model="610m-clm-22k"))
    file.unlink()
    with pytest.raises(UserError, match=r"all\.parquet"):
        read_instances(file, "sst2", rows)


@pytest.mark.parametrize("joined", [False, True])
def test_no_flipped_bit_of_instances_passes(
    store: Path, tmp_path: Path, joined: bool
) -> None:
    runs = read(store, tmp_path).runs
    rows = runs[(runs["dataset"] == "nq") & (runs["model"] == MODELS[0])]
    instances, names = (
        tmp_path / "instances",
        (f"instances/{MODELS[0]}/nq.parquet", "instances/_manifest.json"),
    )
    if joined:
        instances = tmp_path / "instances.parquet"
        names = (instances.name, f"{instances.name}.manifest.json")
        join_cells(tmp_path / "instances", instances)
    for name in names:
        file, draw = tmp_path / name, random.Random(0)
        content = file.read_bytes()
        for _ in range(50):
            bit = draw.randrange(8 * len(content))
            flipped = bytearray(content)
            flipped[bit // 8] ^= 1 << bit % 8
            file.write_bytes(flipped)
            with pytest.raises(UserError, match="instances"):
                read_instances(instances, "nq", rows)
        file.write_bytes(content)
    read_instances(instances, "nq", rows)
