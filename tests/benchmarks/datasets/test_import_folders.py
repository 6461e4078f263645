"""What `datasets` writes is read to the same table, and folders and patterns are files."""

import json
from pathlib import Path
from typing import Any

import datasets
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.datasets.import_files import import_dataset
from benchmarks.datasets.local_dataset import load_dataset
from common.errors import UserError
from tests.benchmarks.datasets.readers.originals import defined

LABELS = ["bad", "good", "fair"]
TEXTS = st.text(
    st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8
).filter(lambda text: text.strip() == text and not text.startswith('"'))


def read_test(kind: str, path: Path, folder: Path) -> list[dict[str, Any]]:
    """The test set that a file, a folder or a pattern makes."""
    dataset = defined(kind, labels=[*LABELS, "O"] if kind == "tags" else LABELS)
    files = {role: [path] for role in ("train", "validation", "test")}
    import_dataset(dataset, files, folder, replace=True)
    rows: list[dict[str, Any]] = (
        load_dataset(folder, dataset).tables["test"].to_pylist()
    )
    return rows


def written(data: datasets.Dataset, form: str, folder: Path) -> Path:
    """A dataset in a form that `datasets` writes."""
    path = folder / f"rows.{form}"
    if form == "saved":
        data.save_to_disk(str(path), num_shards=min(2, len(data)))
    elif form == "parquet":
        data.to_parquet(str(path))
    elif form == "csv":
        data.to_csv(str(path), index=False)
    else:
        data.to_json(str(path))
    return path


@settings(
    deadline=None,
    max_examples=12,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    rows=st.lists(st.tuples(TEXTS, st.integers(0, 2)), min_size=1, max_size=5),
    form=st.sampled_from(["parquet", "json", "jsonl", "csv", "saved"]),
)
def test_what_datasets_writes_is_read_to_the_same_table(
    rows: list[tuple[str, int]], form: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("written")
    rows = [("first", 0), *rows]
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=LABELS)}
    )
    data = datasets.Dataset.from_dict(
        {"text": [row[0] for row in rows], "label": [row[1] for row in rows]},
        features=features,
    )
    found = read_test("text", written(data, form, folder), folder / "data")
    assert [(row["first"], row["label"]) for row in found] == rows


@pytest.mark.parametrize("form", ["parquet", "saved"])
def test_tags_that_datasets_writes_are_the_same(form: str, tmp_path: Path) -> None:
    names = datasets.ClassLabel(names=["O", *LABELS])
    features = datasets.Features(
        {
            "words": datasets.Sequence(datasets.Value("string")),
            "tags": datasets.Sequence(names),
        }
    )
    rows = {"words": [["a", "b"], ["c"]], "tags": [[0, 2], [3]]}
    path = written(datasets.Dataset.from_dict(rows, features=features), form, tmp_path)
    assert [row["tags"] for row in read_test("tags", path, tmp_path / "data")] == [
        [3, 1],
        [2],
    ]


def test_parts_of_a_file_are_read_from_a_folder_or_by_a_pattern(tmp_path: Path) -> None:
    (tmp_path / "ds").mkdir()
    for number in range(3):
        row = {"text": f"t{number}", "label": LABELS[number]}
        path = tmp_path / f"ds/train-{number:05}-of-00003.jsonl"
        path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    for given_path in ("ds", "ds/*.jsonl", "*/train-*-of-00003.jsonl"):
        found = read_test("text", tmp_path / given_path, tmp_path / "data")
        assert [row["first"] for row in found] == ["t0", "t1", "t2"]
    (tmp_path / "ds/test-00000-of-00001.jsonl").write_text("", encoding="utf-8")
    with pytest.raises(UserError, match=r"numbered parts of one data file .*a pattern"):
        read_test("text", tmp_path / "ds", tmp_path / "data")


def test_a_folder_of_several_splits_is_refused(tmp_path: Path) -> None:
    part = datasets.Dataset.from_dict({"text": ["a"], "label": ["bad"]})
    datasets.DatasetDict({"train": part, "test": part}).save_to_disk(
        str(tmp_path / "ds")
    )
    with pytest.raises(UserError, match=r"it has dataset_dict\.json, test, train"):
        read_test("text", tmp_path / "ds", tmp_path / "data")
    assert read_test("text", tmp_path / "ds/test", tmp_path / "data")[0]["label"] == 0
