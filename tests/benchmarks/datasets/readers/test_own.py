"""Rows of datasets of one's own: columns by name, and bad rows with file and line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.datasets.import_files import READERS
from benchmarks.datasets.readers.original_files import Reading, Row
from benchmarks.datasets.readers.reader import Inputs
from benchmarks.datasets.schema import SPLIT_TABLES
from benchmarks.own_datasets.definition_file import definition_of
from benchmarks.protocol import Dataset
from common.errors import UserError
from tests.benchmarks.datasets.readers.originals import Put


def defined(kind: str, **table: Any) -> Dataset:
    return definition_of("mine", {"kind": kind, **table}, "my.toml: [mine]", Path())


def read_rows(definition: Dataset, path: Path, *, skip_bad: bool = False) -> tuple[list[Row], list[str]]:
    reading = Reading(skip_bad=skip_bad)
    dataset = replace(definition, as_published=True)  # so that rows stay where they are
    inputs = Inputs(dataset=dataset, files=dict.fromkeys(SPLIT_TABLES, (path,)), reading=reading)
    found = READERS[inputs.dataset.reader](inputs).tables["test"].to_pylist()
    return [{key: row[key] for key in row if key != "id" or row[key][:5] != "test-"} for row in found], list(
        reading.notes()
    )


def refusal_of(definition: Dataset, path: Path) -> str:
    with pytest.raises(UserError) as caught:
        read_rows(definition, path)
    return (
        str(caught.value).removeprefix(f"{path}:").removesuffix(" (--skip-bad-lines leaves such lines out)")
    )


@pytest.mark.parametrize(
    ("labels", "value", "found"),
    [
        (["x", "y"], "y", 1),
        (["x", "y"], " y ", 1),
        (["x", "y"], 0, 0),
        (["x", "y"], "0", 0),
        (["0", "1"], 0, 0),
        (["5", "7"], "7", 1),
        (["True", "False"], False, 1),
    ],
)
def test_a_label_is_a_name_and_else_a_number(put: Put, labels: list[str], value: object, found: int) -> None:
    path = put("x.jsonl", [{"text": "a", "label": value}])
    assert read_rows(defined("text", labels=labels), path) == (
        [{"first": "a", "second": None, "label": found}],
        [],
    )
    several = put("y.jsonl", [{"text": "a", "labels": [value]}])
    expected = [{"first": "a", "second": None, "labels": [found]}]
    assert read_rows(defined("labels", labels=labels), several) == (expected, [])


PAIR = {"text1": 7, "text2": 8.5, "label": "x", "labels": "x", "score": 1}
KINDS: dict[str, dict[str, Any]] = {
    "text": {"labels": ["x", "y"], "columns": {"text": "text1"}},
    "pair": {"labels": ["x", "y"]},
    "labels": {"labels": ["x", "y"], "columns": {"text": "text1"}},
    "value": {"range": [0, 5], "columns": {"text": "text1", "second": "text2"}},
}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("text", {"first": "7", "second": None, "label": 0}),
        ("pair", {"first": "7", "second": "8.5", "label": 0}),
        ("labels", {"first": "7", "second": None, "labels": [0]}),
        ("value", {"first": "7", "second": "8.5", "value": 1.0}),
    ],
)
def test_both_texts_of_a_row_become_text(put: Put, kind: str, expected: Row) -> None:
    assert read_rows(defined(kind, **KINDS[kind]), put("x.jsonl", [PAIR])) == ([expected], [])


def test_both_ends_of_a_range_are_in_it(put: Put) -> None:
    path = put("x.jsonl", [{"text": "a", "score": -1}, {"text": "b", "score": 5}])
    assert [row["value"] for row in read_rows(defined("value", range=[-1, 5]), path)[0]] == [-1.0, 5.0]


def test_the_second_text_of_a_value_may_be_absent(put: Put) -> None:
    path = put("x.jsonl", [{"text": "a", "score": 1}, {"text": "b", "sentence2": None, "score": 2}])
    assert [row["second"] for row in read_rows(defined("value", range=[0, 5]), path)[0]] == [None, None]


@pytest.mark.parametrize(
    ("value", "found"),
    [("x", [0]), ("y, x", [0, 1]), (" y ,, ", [1]), ("", []), ([], []), (["y", "x"], [0, 1])],
)
def test_several_labels_are_a_list_or_parted_by_commas(put: Put, value: object, found: list[int]) -> None:
    path = put("x.jsonl", [{"text": "a", "labels": value}])
    assert read_rows(defined("labels", labels=["x", "y"]), path)[0][0]["labels"] == found


OUTSIDE = ("2", "9" * 5_000, 2, -2, "1.0", "01", "000000001", "0000000000", "Y", True, [], "\u0661")
NAMES = "; name each of the example's labels once"
FORMS: dict[str, tuple[str, dict[str, Any], Any, Row]] = {
    "text": ("label", {"labels": ["x", "y"]}, "y", {"label": 1}),
    "labels": ("labels", {"labels": ["x", "y"]}, "y", {"labels": [1]}),
    "value": ("score", {"range": [-1, 5]}, 3, {"value": 3.0}),
}
"""Column, definition, and a good value with what it becomes."""


@pytest.mark.parametrize(
    ("kind", "value", "sentence"),
    [
        *(("text", value, f"{value!r} is not in the label set x, y"
           + ("; numbers count from 0" if str(value).isdecimal() else "")) for value in OUTSIDE),
        ("labels", "x, z", "'z' is not in the label set x, y"),
        ("labels", ["x", "x"], f"a label occurs twice in ['x', 'x']{NAMES}"),
        ("labels", "x, x", f"a label occurs twice in 'x, x'{NAMES}"),
        ("labels", ["x", 1], "the labels mix names with numbers such as 1; use names only"),
        ("labels", {"x": 1, "y": 0}, "{'x': 1, 'y': 0} is neither a list of labels nor comma-separated names"),
        ("labels", ["x", "x", "z"], "'z' is not in the label set x, y"),
        ("labels", 1, "1 is neither a list of labels nor comma-separated names"),
        ("value", -1.5, "the value -1.5 is outside the range -1 to 5"),
        ("value", "5.001", "the value 5.001 is outside the range -1 to 5"),
        ("value", "nan", "the value nan is outside the range -1 to 5"),
        ("value", "inf", "the value inf is outside the range -1 to 5"),
        ("value", "much", "'much' is not a number"),
        ("value", [1], "[1] is not a number"),
    ],
    ids=ascii,
)  # fmt: skip
def test_what_a_row_may_not_say_is_named_and_leaves_the_other_rows(
    put: Put, kind: str, value: object, sentence: str
) -> None:
    column, table, good, found = FORMS[kind]
    definition = defined(kind, **table)
    path = put("x.jsonl", [{"text": "a", column: value}, {"text": "b", column: good}])
    assert refusal_of(definition, path) == f"1: {sentence}"
    assert read_rows(definition, path, skip_bad=True) == (
        [{"first": "b", "second": None, **found}],
        [f"bad lines left out: 1, the first at x.jsonl:1: {sentence}"],
    )


def test_tags_come_from_lines_or_from_columns_of_any_name(put: Put) -> None:
    definition = defined("tags", labels=["O", "B-A", "I-A"], columns={"words": "w", "tags": "t"})
    expected = [{"words": ["Ada", "won"], "tags": [1, 0]}]
    assert read_rows(definition, put("x.bio", "Ada B-A\nwon O"))[0] == expected
    assert (
        read_rows(definition, put("x.jsonl", [{"w": ["Ada", "won"], "t": [1, "O"], "tags": "no"}]))[0]
        == expected
    )


@pytest.mark.parametrize("kind", ["answers", "answers or none"])
def test_answers_come_from_columns_of_any_name(put: Put, kind: str) -> None:
    columns = {"question": "q", "context": "c", "answers": "a", "id": "nr"}
    path = put(
        "x.jsonl", [{"nr": 5, "q": "who?", "c": "Ada", "a": ["Ada"]}, {"nr": 6, "q": "when?", "c": "Ada"}]
    )
    expected = [
        {"id": "5", "question": "who?", "context": "Ada", "answers": [{"text": "Ada", "start": 0}]},
        {"id": "6", "question": "when?", "context": "Ada", "answers": []},
    ]
    if kind == "answers":
        refused = "2: the question has no answer, but every question of this dataset needs one"
        assert refusal_of(defined(kind, columns=columns), path) == refused
        assert read_rows(defined(kind, columns=columns), path, skip_bad=True)[0] == expected[:1]
    else:
        assert read_rows(defined(kind, columns=columns), path) == (expected, [])


def test_ids_that_occur_twice_are_ignored_when_that_is_said(put: Put) -> None:
    row = {"id": "1", "question": "who?", "context": "Ada", "answers": ["Ada"]}
    path = put("x.jsonl", [row, row])
    assert refusal_of(defined("answers"), path).startswith("2: the id '1' occurs twice")
    found, notes = read_rows(defined("answers", ids="none"), path)
    assert [each["id"] for each in found] == ["x.jsonl-0", "x.jsonl-1"] and not notes
