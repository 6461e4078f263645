"""One reader a dataset."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import datasets
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmarks.datasets.local_dataset import DatasetContent
from benchmarks.datasets.readers.reader import ReaderInputs, carve, halve, with_splits
from benchmarks.datasets.schema import Row
from benchmarks.protocol import get_dataset
from tests.benchmarks.datasets.readers.originals import published


def rows(path: Path) -> list[Row]:
    """Read a sentence a line, of class 1; a line with a colon names its id."""
    return [
        {"id": found[0], "first": found[-1], "label": 1}
        if len(found) > 1
        else {"first": line, "label": 1}
        for line in path.read_text().splitlines()
        for found in [line.split(":")]
    ]


@pytest.fixture
def inputs(tmp_path: Path) -> Callable[..., ReaderInputs]:
    """Files of SST-2 with so many lines, several of one role where several numbers are given."""

    def make(**counts: int | list[int]) -> ReaderInputs:
        files = {}
        for role, numbers in counts.items():
            paths = []
            for part, count in enumerate(
                numbers if isinstance(numbers, list) else [numbers]
            ):
                path = tmp_path / f"{role}{part}"
                path.write_text(
                    "".join(f"{role} {part} {line}\n" for line in range(count))
                )
                paths.append(path)
            files[role] = tuple(paths)
        return ReaderInputs(dataset=get_dataset("sst2"), files=files)

    return make


Make = Callable[..., ReaderInputs]


def firsts(content: DatasetContent, table: str) -> list[str]:
    found: list[str] = content.tables[table]["first"].to_pylist()
    return found


CARVED = "validation is 5% of train, carved as datasets.train_test_split(train_size=0.95, seed=42) does; test is the "


@pytest.mark.parametrize(
    ("counts", "tested", "how"),
    [
        ({"validation": 3}, "validation 0", f"{CARVED}official validation set"),
        ({"test": 3}, "test 0", f"{CARVED}test file given"),
    ],
)
def test_validation_is_carved_from_train(
    inputs: Make, counts: dict[str, int], tested: str, how: str
) -> None:
    made = inputs(train=[30, 10], **counts)
    made.note("something was corrected")
    content = with_splits(made, rows)
    everything = [f"train 0 {line}" for line in range(30)] + [
        f"train 1 {line}" for line in range(10)
    ]
    ours = pa.table({"first": everything})
    for split, numbers in zip(("train", "validation"), carve(40), strict=True):
        assert (
            firsts(content, split) == ours.take(pa.array(numbers))["first"].to_pylist()
        )
    assert sorted(firsts(content, "train") + firsts(content, "validation")) == sorted(
        everything
    )
    assert len(firsts(content, "validation")) == 2
    assert firsts(content, "test") == [f"{tested} {line}" for line in range(3)]
    assert (content.splits, content.notes) == (how, ("something was corrected",))


def test_three_files_are_kept_as_they_are(inputs: Make) -> None:
    made = inputs(train=3, validation=[1, 1], test=1)
    for content, how in (
        (with_splits(made, rows), "as given: three files"),
        (
            with_splits(replace(made, dataset=published(made.dataset)), rows),
            "as published",
        ),
    ):
        assert firsts(content, "train") == ["train 0 0", "train 0 1", "train 0 2"]
        assert firsts(content, "validation") == ["validation 0 0", "validation 1 0"]
        assert firsts(content, "test") == ["test 0 0"]
        assert (content.splits, content.notes) == (how, ())


def test_rows_without_ids_are_numbered_over_their_roles_files(
    inputs: Make,
) -> None:
    made = inputs(train=[2, 2], validation=1, test=1)
    path = made.files["train"][1]
    path.write_text("one\nmine:two\n")
    content = with_splits(made, rows)
    assert content.tables["train"]["id"].to_pylist() == [
        "train-0",
        "train-1",
        "train-2",
        "mine",
    ]
    assert content.tables["test"]["id"].to_pylist() == ["test-0"]


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 3_000))
@example(8_999)
@example(67_349)
def test_carve_is_the_librarys_for_any_size(rows: int) -> None:
    library = datasets.Dataset.from_dict({"row": list(range(rows))}).train_test_split(
        train_size=0.95, seed=42
    )
    train, validation = carve(rows)
    assert train.tolist() == library["train"]["row"][:]
    assert validation.tolist() == library["test"]["row"][:]


@given(
    st.sets(st.text(min_size=1, max_size=4), min_size=1, max_size=50), st.integers(0, 5)
)
def test_halves(ids: set[str], seed: int) -> None:
    chosen = halve(ids, seed)
    assert chosen <= ids
    assert len(chosen) == round(len(ids) / 2)
    assert chosen == halve(sorted(ids, reverse=True), seed), (
        "the order of the ids does not matter"
    )
