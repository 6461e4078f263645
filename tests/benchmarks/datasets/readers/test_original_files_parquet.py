"""Parquet files: rows, batches, class names, damage."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.datasets.readers import original_files
from benchmarks.datasets.readers.original_files import (
    Reading,
    class_names,
    parquet_file,
    records,
)
from common.errors import UserError
from tests.benchmarks.datasets.readers.originals import Put, refused


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 8, 9])
def test_rows_of_a_parquet_file_are_numbered_and_its_batches_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """So the bar of a long file ends at its end."""
    bars = []

    def bar(items: Iterable[pa.RecordBatch], what: str, total: int, unit: str) -> Iterator[pa.RecordBatch]:
        batches = list(items)
        bars.append((what, unit, total, len(batches)))
        yield from batches

    monkeypatch.setattr(original_files, "progress", bar)
    monkeypatch.setattr(original_files, "_BATCH", 4)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": pa.array(range(count), pa.int64())}), path)
    assert list(records(path, Reading())) == [(f"{path}: row {row}", {"x": row}) for row in range(count)]
    assert bars == [("a.parquet", "batch", math.ceil(count / 4), math.ceil(count / 4))]


def test_many_rows_of_a_parquet_file_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": range(20_000)}), path)
    assert [row["x"] for _, row in records(path, Reading())] == list(range(20_000))


@pytest.mark.parametrize(
    "error", [pa.ArrowInvalid("torn\napart"), OSError("torn"), ValueError("torn"), MemoryError("torn")]
)
def test_a_parquet_file_that_turns_out_damaged_is_named(tmp_path: Path, error: Exception) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": [1]}), path)

    def read() -> None:
        with parquet_file(path) as file:
            assert file.metadata.num_rows == 1
            raise error

    assert refused(read) == f"{path} cannot be read as Parquet: torn"


def test_what_else_goes_wrong_with_a_parquet_file_is_reported_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": [1]}), path)
    with pytest.raises(UserError, match=r"^no columns$"), parquet_file(path):
        raise UserError("no columns")
    absent = tmp_path / "absent.parquet"
    assert refused(lambda: list(records(absent, Reading()))) == f"there is no file {absent}"


@pytest.mark.parametrize(
    ("feature", "names"),
    [
        ({"names": ["no", "yes"], "_type": "ClassLabel"}, ("no", "yes")),
        ([{"names": ["O", "B"], "_type": "ClassLabel"}], ("O", "B")),
        ({"feature": {"names": ["O"], "_type": "ClassLabel"}, "_type": "Sequence"}, ("O",)),
        ({"feature": [{"feature": {"names": ["O"]}}]}, ("O",)),
        ({"dtype": "int64", "_type": "Value"}, ()),
        ({"names": [], "_type": "ClassLabel"}, ()),
        ({"feature": {"dtype": "int64"}}, ()),
        (None, ()),
    ],
)
def test_class_names_are_those_that_the_hub_wrote_into_the_file(
    tmp_path: Path, feature: object, names: tuple[str, ...]
) -> None:
    path = tmp_path / "a.parquet"
    features = {"other": {"names": ["a", "b"]}} | ({"label": feature} if feature else {})
    written = {"huggingface": json.dumps({"info": {"features": features}})}
    pq.write_table(pa.table({"label": [0]}).replace_schema_metadata(written), path)
    assert class_names(path, "label") == names
    assert class_names(path, "other") == ("a", "b")


def test_a_file_without_the_hubs_words_names_no_classes(tmp_path: Path, put: Put) -> None:
    table = pa.table({"label": [0]})
    for metadata in (None, {"pandas": "{}"}):
        pq.write_table(table.replace_schema_metadata(metadata), tmp_path / "a.parquet")
        assert class_names(tmp_path / "a.parquet", "label") == ()
    assert class_names(put("a.json", "[]"), "label") == ()


def test_damaged_parquet(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(b"PAR1 nothing PAR1")
    with pytest.raises(UserError, match=r"x\.parquet cannot be read as Parquet"):
        list(records(path, Reading()))
    with pytest.raises(UserError, match=r"x\.parquet cannot be read as Parquet"):
        class_names(path, "label")
    with pytest.raises(UserError, match="there is no file"):
        list(records(tmp_path / "absent.parquet", Reading()))
