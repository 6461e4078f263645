"""The protocol as data."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.datasets.readers import READERS
from benchmarks.datasets.readers.reader import ROLES
from benchmarks.protocol import (
    DATASETS,
    LEARNING_RATES,
    TASKS,
    datasets_of,
    format_lr,
    get_dataset,
)
from common.errors import UserError


def test_twelve_datasets_in_four_tasks() -> None:
    assert list(TASKS) == ["SC", "TC", "QA", "IR"]
    assert len(DATASETS) == 12
    for task in TASKS:
        assert len(datasets_of(task)) == 3
    assert [name for name, dataset in DATASETS.items() if not dataset.paired] == ["nq"]
    assert {dataset.trained_on for dataset in DATASETS.values() if dataset.task == "IR"} == {"msmarco"}
    assert {name for name, dataset in DATASETS.items() if dataset.epochs == 1} == {"conll2003_en", "uner_en"}


def test_rates_print_as_the_release_writes_them() -> None:
    assert [format_lr(lr) for lr in LEARNING_RATES] == ["1e-05", "2e-05", "5e-05", "1e-04", "2e-04", "5e-04"]


@given(st.integers(1, 99), st.integers(2, 8))
def test_rates_survive_printing(digits: int, exponent: int) -> None:
    lr = float(f"{digits / 10}e-{exponent:02d}")
    assert float(format_lr(lr)) == lr


def test_unknown_names_are_told_with_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean 'squad_v2'"):
        get_dataset("squadv2")
    with pytest.raises(UserError, match="one of SC, TC, QA, IR"):
        _ = TASKS["NER"]


def test_pins_are_whole() -> None:
    for dataset in DATASETS.values():
        for pin in dataset.pins:
            assert pin.role in ROLES
            assert pin.commit is None or (len(pin.commit) == 40 and int(pin.commit, 16))
            assert all(len(value) == 64 and int(value, 16) for value in pin.sha256.values())
        assert dataset.pins and dataset.reader in READERS
        assert len(dataset.label_names) == (dataset.labels if dataset.task in ("SC", "TC") else 0)
