"""Datasets of one's own in a store: the definitions that runs leave there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.own_datasets.definitions import DEFINITIONS, register, register_stored, store_definitions
from benchmarks.protocol import DATASETS
from common.errors import UserError
from tests.benchmarks.own_datasets.given import GOOD

pytestmark = pytest.mark.usefixtures("no_definitions_left")


def test_a_store_remembers_its_datasets(file: Path, tmp_path: Path) -> None:
    file.write_text(GOOD + 'prompt = "Say {text}"\nfiles = {train = "a.tsv"}\n')
    (definition,) = register(file)
    assert definition.files == {"train": (tmp_path / "a.tsv",)}
    store = tmp_path / "out"
    store_definitions(store, ["sst2", "mine"])
    assert [path.name for path in (store / "datasets").iterdir()] == ["mine.json"]
    before = DATASETS.pop("mine")
    DEFINITIONS.pop("mine")
    register_stored(store)
    register_stored(store)
    assert DATASETS["mine"] == before and DATASETS["mine"].prompt == "Say {text}"
    (store / "datasets" / "mine.json").write_text("{")
    with pytest.raises(UserError, match=r"mine\.json is no definition of a dataset"):
        register_stored(store)
    (store / "datasets" / "mine.json").write_text(json.dumps({"kind": "text", "labels": ["x", "y", "z"]}))
    with pytest.raises(UserError, match="mine is another dataset"):
        register_stored(store)
