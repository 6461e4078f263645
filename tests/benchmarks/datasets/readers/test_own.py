"""Rows of datasets of one's own: columns by name, and bad rows with file and line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.datasets.local_dataset import load
from benchmarks.own_datasets.definitions import DEFINITIONS
from benchmarks.protocol import DATASETS
from common.errors import UserError
from tests.benchmarks.command import command

HEAD = "[mine]\n"
TEXT = HEAD + 'kind = "text"\nlabels = ["bad", "good"]\ncolumns = {text = "body", label = "stars"}\n'
LABELS = HEAD + 'kind = "labels"\nlabels = ["x", "y"]\n'
VALUE = HEAD + 'kind = "value"\nrange = [0, 5]\n'
TAGS = HEAD + 'kind = "tags"\nlabels = ["O", "B-A", "I-A"]\n'
ANSWERS = HEAD + 'kind = "answers"\ncolumns = {question = "q", context = "passage"}\n'


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    for name in list(DEFINITIONS):
        DEFINITIONS.pop(name)
        DATASETS.pop(name)


def imported(folder: Path, toml: str, train: str, test: str, ending: str, *more: str) -> int:
    (folder / "my.toml").write_text(f'{toml}files = {{train = "train{ending}", test = "test{ending}"}}\n')
    (folder / f"train{ending}").write_text(train)
    (folder / f"test{ending}").write_text(test)
    arguments = ["mine", "--datasets", str(folder / "my.toml"), "--out", str(folder / "data"), *more]
    return command("import")(arguments)


def rows(*found: object) -> str:
    return "".join(json.dumps(row) + "\n" for row in found)


MANY = rows(
    *(
        {"text": f"text {n}", "labels": ["x"] * (n % 2), "score": n % 5, "words": [f"w{n}"], "tags": ["O"]}
        for n in range(30)
    )
)


@pytest.mark.parametrize(
    ("toml", "ending", "test", "message"),
    [
        (TEXT, ".tsv", "body\tstars\na film\tgood\na film\tfine\n", r"test\.tsv:3: 'fine' is outside the label set"),
        (TEXT, ".tsv", f"body\tstars\na film\t{'9' * 5000}\n", r"test\.tsv:2: '9+' is outside the label set"),
        (TEXT, ".tsv", "a film\tgood\n", None),
        (TEXT, ".tsv", "a film\tgood\nother\tbad\n", r"test\.tsv:2: there is no column body; the first line"),
        (LABELS, ".jsonl", rows({"text": "a", "labels": "x, z"}), r"test\.jsonl:1: 'z' is outside the label set x, y"),
        (LABELS, ".jsonl", rows({"text": "a", "labels": ["x", "x"]}), "a label occurs twice"),
        (LABELS, ".jsonl", rows({"text": "a", "labels": 1}), r"test\.jsonl:1: the row has not .*'int'"),
        (VALUE, ".jsonl", rows({"text": "a", "score": 7}), "the value 7 is outside the range 0 to 5"),
        (VALUE, ".jsonl", rows({"text": "a", "score": "much"}), "'much' is no number"),
        (TAGS, ".bio", "Ada\tO\nRome\tB-B\n", r"test\.bio:1: the tag 'B-B' is outside the tag set"),
        (TAGS, ".jsonl", rows({"words": ["Ada"], "tags": 1}), r"test\.jsonl:1: the row has not .*'int'"),
        (TAGS, ".jsonl", rows({"words": 1, "tags": ["O"]}), r"test\.jsonl:1: the row has not .*'int'"),
        (TAGS, ".jsonl", rows({"words": [None], "tags": ["O"]}), r"test\.jsonl:1: a word is no text"),
        (ANSWERS, ".jsonl", rows({"q": "?", "passage": "a", "answers": ["b"]}), "an answer is not in the context"),
        (ANSWERS, ".jsonl", rows({"q": 7, "passage": "a", "answers": ["a"]}), r"test\.jsonl:1: question is no text: 7"),
        (ANSWERS, ".jsonl", rows(*[{"id": "1", "q": "?", "passage": "a", "answers": ["a"]}] * 2),
         r"test\.jsonl:2: the id '1' occurs twice, first at .*test\.jsonl:1"),
    ],
)  # fmt: skip
def test_bad_rows_are_named_and_nothing_is_written(
    toml: str, ending: str, test: str, message: str | None, tmp_path: Path
) -> None:
    train = {
        ".tsv": "body\tstars\n" + "".join(f"film {n}\tgood\n" for n in range(30)),
        ".bio": "".join(f"Rome{n}\tB-A\n\n" for n in range(30)),
    }.get(ending, MANY)
    if toml == ANSWERS:
        train = rows(*({"q": f"{n}?", "passage": "a b", "answers": ["b"]} for n in range(30)))
    with pytest.raises(UserError, match=message or "the table test of mine would be empty") as caught:
        imported(tmp_path, toml, train, test, ending)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "data" / "mine").exists()


def test_labels_are_names_or_numbers_in_any_kind_of_file(tmp_path: Path) -> None:
    train = rows(*({"body": f"film {n}", "stars": n % 2} for n in range(40)))
    assert (
        imported(
            tmp_path, TEXT, train, rows({"body": "a", "stars": "good"}, {"body": "b", "stars": 0}), ".jsonl"
        )
        == 0
    )
    found = load(tmp_path / "data", "mine")
    assert found.labels == ("bad", "good") and found.test["label"].to_pylist() == [1, 0]
    assert found.manifest.counts == {"train": 38, "validation": 2, "test": 2}


def test_several_labels_and_values(tmp_path: Path) -> None:
    assert (
        imported(
            tmp_path,
            LABELS,
            MANY,
            rows({"text": "a", "labels": "y,x"}, {"text": "b", "labels": ""}),
            ".jsonl",
        )
        == 0
    )
    assert load(tmp_path / "data", "mine").test["labels"].to_pylist() == [[0, 1], []]


@pytest.mark.parametrize(
    ("toml", "bad"),
    [(LABELS, {"text": "a", "labels": 1}), (TAGS, {"words": ["a"], "tags": 1}), (TAGS, {"words": [2], "tags": ["O"]})],
)  # fmt: skip
def test_rows_of_another_form_can_be_left_out(toml: str, bad: dict[str, object], tmp_path: Path) -> None:
    good = {"text": "b", "labels": ["y"], "words": ["Rome"], "tags": ["B-A"]}
    assert imported(tmp_path, toml, MANY, rows(good, bad, good), ".jsonl", "--skip-bad-lines") == 0
    found = load(tmp_path / "data", "mine")
    assert found.test.num_rows == 2
    assert "bad lines left out: 1, the first at test.jsonl:2" in "".join(found.manifest.notes)
