"""Tables of one's own are read as pandas and the package datasets wrote them, quotes and all, or refused."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import datasets
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.datasets.readers.original_files import Reading, class_names, records
from benchmarks.own_datasets.definition_file import definition_of
from common.errors import UserError
from tests.benchmarks.datasets.readers.originals import Put

TEXT = st.text(st.sampled_from('ab "\t,;\n'), max_size=8)


def read(path: Path, *, skip_bad: bool = False, **more: Any) -> list[dict[str, Any]]:
    table = {"kind": "text", "labels": ["x", "y"], **more}
    reading = Reading(skip_bad=skip_bad)
    reading.own = definition_of("mine", table, "my.toml: [mine]", Path())
    return [row for _, row in records(path, reading)]


@settings(max_examples=200, deadline=None)
@given(
    texts=st.lists(TEXT, min_size=1, max_size=6),
    ending=st.sampled_from([".csv", ".tsv", ".csv.gz"]),
    quoting=st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC]),
    mark=st.sampled_from(",;"),
)
def test_what_pandas_writes_is_read(
    texts: list[str], ending: str, quoting: Any, mark: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("tables") / f"x{ending}"
    frame = pd.DataFrame({"text": texts, "label": ["x"] * len(texts)})
    frame.to_csv(path, index=False, sep=mark if ".csv" in ending else "\t", quoting=quoting)
    assert read(path, **({"quotes": True} if ending == ".tsv" else {})) == frame.to_dict("records")


def test_quotes_of_a_tsv_file_are_to_be_explained(put: Put) -> None:
    assert read(put("y.tsv", 'text\tlabel\nHe said "so"\tx\n'))[0]["text"] == 'He said "so"'
    path = put("x.tsv", 'text\tlabel\nplain\tx\n"Great"\ty\n')
    with pytest.raises(UserError, match=r"x\.tsv:3: the quotes may enclose the text or be part of it"):
        read(path)
    assert [read(path, quotes=said)[1]["text"] for said in (True, False)] == ["Great", '"Great"']


@pytest.mark.parametrize(("name", "line"), [("x.csv", 'a,x\n"b,y\n'), ("x.csv", 'a,x\n"b"c,y\n')])
def test_a_row_with_broken_quotes_is_named(put: Put, name: str, line: str) -> None:
    path = put(name, f"text,label\n{line}")
    with pytest.raises(UserError, match=r"x\.csv:3: the line has invalid quotes"):
        read(path)
    assert read(path, skip_bad=True) == [{"text": "a", "label": "x"}]
    with pytest.raises(UserError, match=r"head\.csv:1: the line has invalid quotes"):
        read(put("head.csv", '"text"s,label\na,x\n'))


def test_lines_are_counted_across_fields_of_several(put: Put) -> None:
    with pytest.raises(UserError, match=r"e\.tsv:2: the line has 2 columns instead of 1"):
        read(put("e.tsv", "\ntext\tlabel\n"))
    with pytest.raises(UserError, match=r"x\.csv:5: the line has 1 columns instead of 2"):
        read(put("x.csv", 'text,label\n"a\nb",x\n\nc\n'))


@pytest.mark.parametrize(("name", "text"), [("x.tsv", "a\tx\nb\ty\n"), ("x.csv", '"a",x\nb,y\n')])
def test_a_table_without_a_header_is_given_one(put: Put, name: str, text: str) -> None:
    header = ["text", "label"]
    expected = [{"text": "a", "label": "x"}, {"text": "b", "label": "y"}]
    assert read(put(name, text), header=header) == expected
    with pytest.raises(UserError, match="the first line is the header"):
        read(put(name, ("," if name == "x.csv" else "\t").join(header) + "\n" + text), header=header)


def test_saved_datasets_are_read_with_the_names_of_their_classes(tmp_path: Path) -> None:
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["y", "x"])}
    )
    rows = [{"text": "a", "label": 1}, {"text": "b", "label": 0}]
    table = datasets.Dataset.from_list(rows, features=features)
    table.select([1, 0]).select([1, 0]).save_to_disk(tmp_path / "saved")
    assert read(tmp_path / "saved") == rows
    assert class_names(tmp_path / "saved", "label") == ("y", "x")


def test_a_folder_of_several_splits_or_of_none_is_named(tmp_path: Path) -> None:
    table = datasets.Dataset.from_dict({"text": ["a"]})
    datasets.DatasetDict({"train": table, "dev": table}).save_to_disk(tmp_path / "both")
    with pytest.raises(
        UserError, match=r"contains the splits train, dev; give the folder of one, such as .*both/train"
    ):
        read(tmp_path / "both")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="empty is not a dataset written by save_to_disk"):
        read(tmp_path / "empty")
