"""The protocol as data."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.datasets.import_files import READERS
from benchmarks.datasets.readers.reader import carve
from benchmarks.datasets.schema import SPLIT_TABLES
from benchmarks.protocol import (
    DATASETS,
    LEARNING_RATES,
    TASKS,
    datasets_of,
    format_lr,
)
from common.provenance import ROOT


def test_twelve_datasets_in_four_tasks() -> None:
    assert list(TASKS) == ["SC", "TC", "QA", "IR"]
    assert len(DATASETS) == 12
    for task in TASKS:
        assert len(datasets_of(task)) == 3
    assert [name for name, dataset in DATASETS.items() if not dataset.paired] == ["nq"]
    assert {
        dataset.trained_on for dataset in DATASETS.values() if dataset.task == "IR"
    } == {"msmarco"}
    assert {name for name, dataset in DATASETS.items() if dataset.epochs == 1} == {
        "conll2003_en",
        "uner_en",
    }


def test_rates_print_as_the_release_writes_them() -> None:
    assert [format_lr(lr) for lr in LEARNING_RATES] == [
        "1e-05",
        "2e-05",
        "5e-05",
        "1e-04",
        "2e-04",
        "5e-04",
    ]


@given(st.integers(1, 99), st.integers(2, 8))
def test_rates_survive_printing(digits: int, exponent: int) -> None:
    lr = float(f"{digits / 10}e-{exponent:02d}")
    assert float(format_lr(lr)) == lr


def test_pins_are_whole() -> None:
    for dataset in DATASETS.values():
        for pin in dataset.files.pins:
            assert pin.role in ("train", "validation", "test", "queries", "corpus")
            assert pin.commit is None or (len(pin.commit) == 40 and int(pin.commit, 16))
            assert all(
                len(value) == 64 and int(value, 16) for value in pin.sha256.values()
            )
        assert dataset.files.pins and (dataset.files.reader or dataset.form) in READERS
        assert len(dataset.label_names) == (
            dataset.labels if dataset.task in ("SC", "TC") else 0
        )


def test_what_is_declared_is_what_the_page_says() -> None:
    page = (ROOT / "docs/add-a-dataset.md").read_text(encoding="utf-8")
    for dataset in DATASETS.values():
        row = re.search(
            rf"^\| `{dataset.name}` \| .+? \| (.+?) / (.+?) / (.+?) \|",
            page,
            re.MULTILINE,
        )
        assert row is not None, dataset.name
        splits = zip(SPLIT_TABLES, row.groups(), strict=True)
        numbers = {split: re.match(r"[\d,]+", text) for split, text in splits}
        counts = {
            split: int(number[0].replace(",", ""))
            for split, number in numbers.items()
            if number
        }
        assert dict(dataset.counts) == counts


SIZES = {
    "sst2": (67_349, 872),
    "mnli_m": (392_702, 9_815),
    "qqp": (363_846, 40_430),
    "squad": (87_599, 10_570),
    "squad_v2": (130_319, 11_873),
    "record": (100_730, 10_000),
}
"""Published sizes of train and dev (GLUE; Zhang et al. 2018, table 2, for ReCoRD)."""


@pytest.mark.parametrize("name", SIZES)
def test_declared_counts_are_published_sizes_by_the_papers_rule(
    name: str,
) -> None:
    train, dev = SIZES[name]
    kept, carved = carve(train)
    assert DATASETS[name].counts == {
        "train": len(kept),
        "validation": len(carved),
        "test": dev,
    }
