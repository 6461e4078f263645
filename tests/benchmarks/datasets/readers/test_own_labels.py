"""However labels are written, a row gets the label that it was given, or the files are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.datasets.import_files import make
from benchmarks.datasets.local_dataset import load
from benchmarks.own_datasets.definition_file import definition_of
from common.errors import UserError

NAMES = (
    ["bad", "good"],
    ["a", "b", "c"],
    ["x 1", "x 2", "x 10"],
    ["1", "2", "3", "4", "5"],
    ["0", "1", "2"],
    ["yes", "1"],
)
TEXTS = {
    "names": lambda names, label: names[label],
    "padded names": lambda names, label: f" {names[label]} ",
    "numbers": lambda names, label: label,
    "numbers as text": lambda names, label: str(label),
    "from 1": lambda names, label: label + 1,
    "from 1 as text": lambda names, label: str(label + 1),
    "two digits": lambda names, label: f"{label:02}",
    "fractions": lambda names, label: float(label),
    "names and numbers": lambda names, label: names[label] if label % 2 else label,
    "truth": lambda names, label: bool(label),
}
LISTS = {
    "one hot": lambda names, label: [int(number == label) for number in range(len(names))],
    "one hot as truth": lambda names, label: [number == label for number in range(len(names))],
    "a list": lambda names, label: [names[label]],
    "a list of numbers": lambda names, label: [label],
    "an object": lambda names, label: {name: int(number == label) for number, name in enumerate(names)},
}


@settings(max_examples=150, deadline=None)
@given(
    names=st.sampled_from(NAMES),
    form=st.sampled_from([*TEXTS, *LISTS, "classes", "saved"]),
    ending=st.sampled_from([".jsonl", ".csv", ".tsv"]),
    data=st.data(),
)
def test_no_row_gets_another_label(
    names: list[str], form: str, ending: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    some = data.draw(st.lists(st.integers(0, len(names) - 1), min_size=1, max_size=4))
    truth = [some[number % len(some)] for number in range(24)]
    order = data.draw(st.permutations(names))
    folder = tmp_path_factory.mktemp("labels")
    several = form in LISTS
    column = "labels" if several else "label"
    written: Any = TEXTS.get(form) or LISTS.get(form) or (lambda names, label: order.index(names[label]))
    rows = [{"text": f"text {number}", column: written(names, label)} for number, label in enumerate(truth)]
    path = folder / f"rows{ending}"
    if form in ("classes", "saved"):
        features = datasets.Features(
            {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=order)}
        )
        path = folder / ("rows.parquet" if form == "classes" else "rows")
        table = datasets.Dataset.from_list(rows, features=features)
        _ = table.to_parquet(str(path)) if form == "classes" else table.save_to_disk(str(path))
    elif ending == ".jsonl" or several:
        path = folder / "rows.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        mark = "," if ending == ".csv" else "\t"
        path.write_text(f"text{mark}label\n" + "".join(f"{r['text']}{mark}{r['label']}\n" for r in rows))
    table = {"kind": "labels" if several else "text", "labels": names}
    dataset = definition_of("mine", table, "my.toml: [mine]", folder)
    source = {"kind": "import", "files": []}
    try:
        make(
            dataset,
            {role: [path] for role in ("train", "validation", "test")},
            folder / "data",
            source=source,
        )
    except UserError as error:
        assert "\n" not in str(error)
        assert form not in ("names", "classes", "saved", "a list") or "may be numbered from" in str(error)
        return
    found = load(folder / "data", dataset).train[column].to_pylist()
    assert found == ([[label] for label in truth] if several else truth)


def put(folder: Path, name: str, labels: list[Any], column: str = "label") -> Path:
    path = folder / name
    path.write_text(
        "".join(json.dumps({"text": f"text {n}", column: label}) + "\n" for n, label in enumerate(labels))
    )
    return path


def made(folder: Path, kind: str, names: list[Any], path: Path) -> tuple[list[Any], tuple[str, ...]]:
    dataset = definition_of("mine", {"kind": kind, "labels": names}, "my.toml: [mine]", folder)
    files = {role: [path] for role in ("train", "validation", "test")}
    manifest = make(dataset, files, folder / "data", source={"kind": "import", "files": []})
    rows = load(folder / "data", dataset).train
    return rows["labels" if kind == "labels" else "label"].to_pylist(), manifest.notes


@pytest.mark.parametrize(
    ("kind", "names", "labels", "said"),
    [
        ("text", [1, 2, 3, 4, 5], [0, 1, 2, 3, 4], "0 is not in the label set 1, 2, 3, 4, 5"),
        ("text", [1, 2, 3, 4, 5], [1, 2, 3, 4], "the files have only 1, 2, 3, 4, which may be numbered from 0"),
        ("text", ["a", "b", "c"], [1, 2, 1], "labels are numbers, but none is 0, the number of a"),
        ("text", ["a", "b", "c"], [1, 2, 3], "3 is not in the label set a, b, c; numbers count from 0"),
        ("text", ["a", "b"], ["a", 1], "the labels mix names with numbers such as 1; use names only"),
        ("labels", ["a", "b"], [[1, 0], [0, 1]], "every example has as many numbers as there are labels"),
        ("labels", ["a", "b", "c"], [[1, 0, 0]], "a label occurs twice in [1, 0, 0]"),
    ],
)  # fmt: skip
def test_labels_that_can_mean_two_things_are_refused(
    kind: str, names: list[Any], labels: list[Any], said: str, tmp_path: Path
) -> None:
    path = put(tmp_path, "x.jsonl", labels, "labels" if kind == "labels" else "label")
    with pytest.raises(UserError) as caught:
        made(tmp_path, kind, names, path)
    assert said in str(caught.value)


def test_a_class_without_an_example_is_named(tmp_path: Path) -> None:
    labels, notes = made(tmp_path, "text", ["a", "b", "c"], put(tmp_path, "x.jsonl", [0, 2, 2]))
    assert labels == [0, 2, 2] and notes[0] == "train has no example of b"
    labels, notes = made(tmp_path / "numbers", "text", [1, 2, 3], put(tmp_path, "y.jsonl", [3, 3]))
    assert labels == [2, 2], "a number beyond the count of labels counts from 1"


@pytest.mark.parametrize("value", [[1], {"a": 1}, True], ids=repr)
def test_what_is_no_text_is_not_made_one(value: object, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps({"text": value, "label": "a"}) + "\n")
    with pytest.raises(UserError, match="text is not text"):
        made(tmp_path, "text", ["a", "b"], path)


def test_a_text_that_pandas_lacks_is_not_the_word_nan(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    datasets.Dataset(pa.table({"text": [1.5, float("nan")], "label": ["a", "b"]})).to_parquet(str(path))
    with pytest.raises(UserError, match="row 1: text is not text: nan"):
        made(tmp_path, "text", ["a", "b"], path)
