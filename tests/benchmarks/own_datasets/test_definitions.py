"""Datasets of one's own next to the twelve, and in a store: the definitions that runs leave there."""

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.own_datasets.definition_file import read_definitions
from benchmarks.own_datasets.definitions import (
    definitions_record,
    known_datasets,
    recorded_definitions,
    store_definitions,
    stored_definitions,
)
from benchmarks.protocol import DATASETS
from common.errors import UserError
from tests.benchmarks.own_datasets.given import GOOD


def test_a_store_and_a_table_remember_their_datasets(
    file: Path, tmp_path: Path
) -> None:
    file.write_text(GOOD + 'prompt = "Say {text}"\nfiles = {train = "a.tsv"}\n')
    (definition,) = read_definitions(file)
    assert definition.files.paths == {"train": (tmp_path / "a.tsv",)}
    store = tmp_path / "out"
    assert stored_definitions(store) == []
    store_definitions(store, [DATASETS["sst2"], definition])
    assert [path.name for path in (store / "datasets").iterdir()] == ["mine.json"]
    (again,) = stored_definitions(store)
    assert (
        again == definition == pickle.loads(pickle.dumps(again))
        and again.prompt == "Say {text}"
    )
    record = definitions_record([DATASETS["sst2"], definition])
    assert recorded_definitions(record, tmp_path / "runs.parquet") == [definition]
    # A later call does not know it
    for given in (replace(definition, floor=62.5), definition):
        store_definitions(store, [given])
        (again,) = stored_definitions(store)
        (noted,) = recorded_definitions(
            definitions_record([again]), tmp_path / "runs.parquet"
        )
        assert (again.floor, noted.floor) == (62.5, 62.5) and again == definition
    (store / "datasets" / "mine.json").write_text("{")
    with pytest.raises(
        UserError, match=r"mine\.json: line 1: .*not a dataset definition"
    ):
        stored_definitions(store)


def test_names_mean_one_dataset(file: Path) -> None:
    file.write_text(GOOD + '[other]\nkind = "answers"\n')
    mine, other = read_definitions(file)
    known = known_datasets([mine, other, mine])
    assert list(known) == [*DATASETS, "mine", "other"] and known["mine"] is mine
    file.write_text('[mine]\nkind = "text"\nlabels = ["x", "y", "z"]\n')
    with pytest.raises(UserError, match="mine is not the same dataset as in"):
        known_datasets([mine, *read_definitions(file)])
    for name in ("sst2", "qed"):
        file.write_text(GOOD.replace("mine", name))
        with pytest.raises(UserError, match=f"{name} is one of the paper's names"):
            known_datasets(read_definitions(file))
