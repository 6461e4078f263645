"""Rows of datasets of one's own: a row gets the label it was given, whatever its form, or the files are refused."""

import json
from pathlib import Path
from typing import Any

import datasets
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.datasets.import_files import make
from benchmarks.datasets.local_dataset import load_dataset
from benchmarks.datasets.readers.texts import text_rows
from benchmarks.datasets.schema import SPLIT_TABLES, Row
from benchmarks.protocol import Dataset
from common.errors import UserError
from tests.benchmarks.datasets.readers.originals import (
    Put,
    defined,
    inputs_of,
    read,
    refused,
)

XY = ["x", "y"]


def read_rows(dataset: Dataset, path: Path) -> list[Row]:
    """The rows of a file without their numbers."""
    found = (
        read(dataset, **dict.fromkeys(SPLIT_TABLES, path)).tables["test"].to_pylist()
    )
    return [{key: value for key, value in row.items() if key != "id"} for row in found]


@pytest.mark.parametrize(
    ("labels", "value", "found"),
    [
        (XY, "y", 1),
        (XY, " y ", 1),
        (XY, 0, 0),
        (XY, "0", 0),
        (XY, "0.0", 0),
        (XY, 0.0, 0),
        (["2", "3.0"], 3.0, 1),
        (["2", "3"], 3.0, 1),
        (["0", "1"], 0, 0),
        (["5", "7"], "7", 1),
        (["True", "False"], False, 1),
    ],
)
def test_a_label_is_a_name_and_else_a_number(
    put: Put, labels: list[str], value: object, found: int
) -> None:
    row = {"first": "a", "second": None}
    path = put("x.jsonl", [{"text": "a", "label": value}])
    assert read_rows(defined("text", labels=labels), path) == [{**row, "label": found}]
    several = put("y.jsonl", [{"text": "a", "labels": [value]}])
    assert read_rows(defined("labels", labels=labels), several) == [
        {**row, "labels": [found]}
    ]


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        (
            defined("text", labels=XY, columns={"text": "text1"}),
            {"second": None, "label": 0},
        ),
        (defined("pair", labels=XY), {"second": "8.5", "label": 0}),
        (
            defined("labels", labels=XY, columns={"text": "text1"}),
            {"second": None, "labels": [0]},
        ),
        (
            defined(
                "value", range=[0, 5], columns={"text": "text1", "second": "text2"}
            ),
            {"second": "8.5", "value": 1.0},
        ),
    ],
    ids=["text", "pair", "labels", "value"],
)
def test_both_texts_of_a_row_become_text(
    put: Put, dataset: Dataset, expected: Row
) -> None:
    path = put(
        "x.jsonl", [{"text1": 7, "text2": 8.5, "label": "x", "labels": "x", "score": 1}]
    )
    assert read_rows(dataset, path) == [{"first": "7", **expected}]


def test_range_has_both_ends_and_a_second_text_may_be_absent(
    put: Put,
) -> None:
    path = put(
        "x.jsonl",
        [{"text": "a", "score": -1}, {"text": "b", "sentence2": None, "score": 5}],
    )
    found = read_rows(defined("value", range=[-1, 5]), path)
    assert [(row["value"], row["second"]) for row in found] == [
        (-1.0, None),
        (5.0, None),
    ]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("x", [0]),
        ("y, x", [0, 1]),
        (" y ,, ", [1]),
        ("", []),
        ([], []),
        (["y", "x"], [0, 1]),
    ],
)
def test_several_labels_are_a_list_or_parted_by_commas(
    put: Put, value: object, found: list[int]
) -> None:
    path = put("x.jsonl", [{"text": "a", "labels": value}])
    assert read_rows(defined("labels", labels=XY), path)[0]["labels"] == found


def test_tags_come_from_lines_or_from_columns_of_any_name(put: Put) -> None:
    dataset = defined(
        "tags", labels=["O", "B-A", "I-A"], columns={"words": "w", "tags": "t"}
    )
    expected = [{"words": ["Ada", "won"], "tags": [1, 0]}]
    assert read_rows(dataset, put("x.bio", "Ada B-A\nwon O")) == expected
    assert read_rows(dataset, put("x.csv", "w,t\nAda  won,B-A O\n")) == expected
    assert (
        read_rows(
            dataset,
            put("x.jsonl", [{"w": ["Ada", "won"], "t": [1, "O"], "tags": "no"}]),
        )
        == expected
    )


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
    "one hot": lambda names, label: [
        int(number == label) for number in range(len(names))
    ],
    "one hot as truth": lambda names, label: [
        number == label for number in range(len(names))
    ],
    "a list": lambda names, label: [names[label]],
    "a list of numbers": lambda names, label: [label],
    "an object": lambda names, label: {
        name: int(number == label) for number, name in enumerate(names)
    },
}


@settings(max_examples=150, deadline=None)
@given(
    names=st.sampled_from(NAMES),
    form=st.sampled_from([*TEXTS, *LISTS, "classes"]),
    ending=st.sampled_from([".jsonl", ".csv", ".tsv"]),
    data=st.data(),
)
def test_no_row_gets_another_label(
    names: list[str],
    form: str,
    ending: str,
    data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    some = data.draw(st.lists(st.integers(0, len(names) - 1), min_size=1, max_size=4))
    truth = [some[number % len(some)] for number in range(24)]
    order = data.draw(st.permutations(names))
    folder = tmp_path_factory.mktemp("labels")
    several = form in LISTS
    column = "labels" if several else "label"
    written: Any = (
        TEXTS.get(form)
        or LISTS.get(form)
        or (lambda names, label: order.index(names[label]))
    )
    rows = [
        {"text": f"text {number}", column: written(names, label)}
        for number, label in enumerate(truth)
    ]
    path = folder / f"rows{ending}"
    if form == "classes":
        features = datasets.Features(
            {
                "text": datasets.Value("string"),
                "label": datasets.ClassLabel(names=order),
            }
        )
        path = folder / "rows.parquet"
        datasets.Dataset.from_list(rows, features=features).to_parquet(str(path))
    elif ending == ".jsonl" or several:
        path = folder / "rows.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        mark = "," if ending == ".csv" else "\t"
        path.write_text(
            f"text{mark}label\n"
            + "".join(f"{r['text']}{mark}{r['label']}\n" for r in rows)
        )
    try:
        found, _ = made(folder, "labels" if several else "text", names, path)
    except UserError as error:
        assert "\n" not in str(error)
        assert form not in (
            "names",
            "classes",
            "a list",
        ) or "may be numbered from" in str(error)
        return
    assert found == ([[label] for label in truth] if several else truth)


def made(
    folder: Path, kind: str, names: list[Any], path: Path
) -> tuple[list[Any], tuple[str, ...]]:
    """The labels of a dataset that is made of one file, and its manifest's notes."""
    dataset = defined(kind, labels=names)
    files = dict.fromkeys(SPLIT_TABLES, (path,))
    manifest = make(
        dataset, files, folder / "data", source={"kind": "import", "files": []}
    )
    rows = load_dataset(folder / "data", dataset).train
    return rows["labels" if kind == "labels" else "label"].to_pylist(), manifest.notes


NO_LABEL = st.sampled_from(["-1", "-", "", "?", "-1.0", None, float("nan"), -1, -1.0])


@settings(deadline=None)
@given(
    labels=st.lists(st.one_of(st.integers(0, 1), NO_LABEL), min_size=1, max_size=8),
    written=st.sampled_from([str, float, int, lambda label: ["x", "y"][label]]),
    name=st.sampled_from(["x.jsonl", "x.csv", "x.parquet"]),
)
def test_rows_without_a_label_are_left_out_and_counted(
    labels: list[Any], written: Any, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("labels") / name
    there = [label for label in labels if label == 0 or label == 1]
    values = [written(label) if label in there else label for label in labels]
    if name == "x.parquet":
        values = [
            None if value is None or value != value else str(value) for value in values
        ]
    frame = pd.DataFrame(
        {"text": [f"t{place}" for place in range(len(labels))], "label": values}
    )
    if name == "x.csv":
        frame.to_csv(path, index=False)
    elif name == "x.parquet":
        frame.to_parquet(path)
    else:
        path.write_text(
            "".join(json.dumps(row) + "\n" for row in frame.to_dict("records"))
        )
    inputs = inputs_of(
        defined("text", labels=XY, leave_out=[-1, "-", "", "?"]), train=path
    )
    if not there:
        assert "no row has a label" in refused(lambda: text_rows(path, inputs, []))
        return
    assert [row["label"] for row in text_rows(path, inputs, [])] == there
    lacking = len(labels) - len(there)
    assert [f"left out: {lacking:,} (first: " in note for note in inputs.notes] == [
        True
    ] * (lacking > 0)
    strict = inputs_of(defined("text", labels=XY), train=path)
    if lacking and not {"?"} & set(values):
        said = refused(lambda: text_rows(path, strict, []))
        assert (
            "the example has no label" in said
            and "leave_out = [" in said
            and str(path) in said
        )


@pytest.mark.parametrize(
    ("kind", "names", "labels", "said"),
    [
        (
            "text",
            [1, 2, 3, 4, 5],
            [0, 1, 2, 3, 4],
            "0 is not in the label set 1, 2, 3, 4, 5",
        ),
        (
            "text",
            [1, 2, 3, 4, 5],
            [1, 2, 3, 4],
            "the files have only 1, 2, 3, 4, which may be numbered from 0",
        ),
        (
            "text",
            ["a", "b", "c"],
            [1, 2, 1],
            "labels are numbers, but none is 0, the number of a",
        ),
        (
            "text",
            ["a", "b", "c"],
            [1, 2, 3],
            "3 is not in the label set a, b, c; numbers count from 0",
        ),
        (
            "text",
            ["a", "b"],
            ["a", 1],
            "the labels mix names with numbers such as 1; use names only",
        ),
        (
            "labels",
            ["a", "b"],
            [[1, 0], [0, 1]],
            "every example has as many numbers as there are labels",
        ),
        ("labels", ["a", "b", "c"], [[1, 0, 0]], "a label occurs twice in [1, 0, 0]"),
    ],
)
def test_labels_that_can_mean_two_things_are_refused(
    kind: str, names: list[Any], labels: list[Any], said: str, put: Put, tmp_path: Path
) -> None:
    column = "labels" if kind == "labels" else "label"
    path = put(
        "x.jsonl",
        [{"text": f"text {n}", column: label} for n, label in enumerate(labels)],
    )
    with pytest.raises(UserError) as caught:
        made(tmp_path, kind, names, path)
    assert said in str(caught.value)


def test_a_class_without_an_example_is_named(put: Put, tmp_path: Path) -> None:
    path = put(
        "x.jsonl",
        [{"text": f"text {n}", "label": label} for n, label in enumerate([0, 2, 2])],
    )
    labels, notes = made(tmp_path, "text", ["a", "b", "c"], path)
    assert labels == [0, 2, 2] and notes[0] == "train has no example of b"
    path = put("y.jsonl", [{"text": "a", "label": 3}])
    labels, notes = made(tmp_path / "numbers", "text", [1, 2, 3], path)
    assert labels == [2], "a number beyond the count of labels counts from 1"


@pytest.mark.parametrize("value", [[1], {"a": 1}, True, float("nan"), None], ids=repr)
def test_what_is_no_text_is_not_made_one(value: object, tmp_path: Path) -> None:
    """Nor is the text that pandas lacks the word nan."""
    lacks = value is None or value != value
    path = tmp_path / "x.parquet"
    datasets.Dataset(pa.table({"text": [value], "label": ["a"]})).to_parquet(str(path))
    with pytest.raises(
        UserError,
        match="row 0: the value of text is missing" if lacks else "text is not text",
    ):
        made(tmp_path, "text", ["a", "b"], path)
