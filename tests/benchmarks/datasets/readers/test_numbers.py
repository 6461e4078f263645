"""Numbers in place of labels mean what every file of the set says they mean, or the set is refused."""

import itertools
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.benchmarks.datasets.readers.originals import Put, defined, read, refused

ORDERS = (["good", "bad"], ["bad", "good"])


def parquet(
    path: Path, rows: list[dict[str, Any]], column: str, order: list[str]
) -> Path:
    """Rows whose numbers in a column the file itself names."""
    names: Any = datasets.ClassLabel(names=order)
    features = datasets.Features(
        {
            name: datasets.Sequence(
                names if name == column else datasets.Value("string")
            )
            if isinstance(value, list)
            else names
            if name == column
            else datasets.Value("string")
            for name, value in rows[0].items()
        }
    )
    datasets.Dataset.from_list(rows, features=features).to_parquet(str(path))
    return path


KINDS = {
    "text": ("label", [{"text": f"t{i}", "label": i % 2} for i in range(4)]),
    "labels": ("labels", [{"text": f"t{i}", "labels": [i % 2]} for i in range(4)]),
    "tags": (
        "tags",
        [{"words": ["a", "b"], "tags": [0, 1]}, {"words": ["b"], "tags": [1]}],
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("first", "second"), list(itertools.product([*ORDERS, None], repeat=2))
)
def test_numbers_mean_what_every_file_says(
    kind: str,
    first: list[str] | None,
    second: list[str] | None,
    put: Put,
    tmp_path: Path,
) -> None:
    column, rows = KINDS[kind]
    labels = ["bad", "good"]
    if kind == "tags":
        labels = [*labels, "O"]
        first, second = ([*order, "O"] if order else None for order in (first, second))
    dataset = defined(kind, labels=labels)
    files = {}
    for role, order in (("train", first), ("test", second)):
        numbers = put(f"{role}.jsonl", rows)
        files[role] = (
            parquet(tmp_path / f"{role}.parquet", rows, column, order)
            if order
            else numbers
        )
    files["validation"] = files["train"]
    inverted = {("good", "bad"), ("good", "bad", "O")}
    declared = {tuple(order) for order in (first, second) if order}
    if None in (first, second) and declared & inverted:
        said = refused(lambda: read(dataset, **files))
        assert (
            "in the order bad, good" in said
            and "in the order good, bad" in said
            and len(said) <= 300
        )
        return
    found = read(dataset, **files)
    field = {"text": "label"}.get(kind, column)
    for role, order in (("train", first), ("test", second)):
        names = order or labels
        written = [row[column] for row in rows]
        expected = [
            [labels.index(names[number]) for number in value]
            if isinstance(value, list)
            else labels.index(names[value])
            for value in written
        ]
        assert found.tables[role][field].to_pylist() == expected


@pytest.mark.parametrize("ending", [".jsonl", ".parquet", ".csv"])
def test_truth_values_are_false_and_true(ending: str, put: Put, tmp_path: Path) -> None:
    rows = [{"text": "a", "label": False}, {"text": "b", "label": True}]
    path = put("x.jsonl", rows)
    if ending == ".parquet":
        path = tmp_path / "x.parquet"
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif ending == ".csv":
        path = put("x.csv", "text,label\na,False\nb,True\n")
    files = {"train": path, "validation": path, "test": path}
    found = read(defined("text", labels=["false", "true"]), **files)
    assert found.tables["test"]["label"].to_pylist() == [0, 1]
    said = refused(lambda: read(defined("text", labels=["bad", "good"]), **files))
    assert 'set labels = ["false", "true"]' in said


def test_a_name_that_only_the_file_declares_is_named(tmp_path: Path) -> None:
    path = parquet(tmp_path / "x.parquet", KINDS["text"][1], "label", ["neg", "pos"])
    dataset = defined("text", labels=["0", "1"])
    said = refused(lambda: read(dataset, train=path, validation=path, test=path))
    assert "'neg' is not in the label set 0, 1" in said
