"""Parquet files: rows, batches, class names, damage."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.datasets.readers.original_files import (
    Reading,
    class_names,
    records,
)
from common.errors import UserError
from tests.benchmarks.datasets.readers.originals import Put


def test_many_rows_of_a_parquet_file_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": range(20_000)}), path)
    assert [row["x"] for _, row in records(path, Reading())] == list(range(20_000))


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
