"""Datasets of one's own next to the paper's twelve.

A run leaves the definitions it used in its store, from where the analysis takes them; a runs table made of the store
records them. Nothing is remembered here: `known_datasets` returns a registry that is handed on. The page is
docs/add-a-dataset.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.own_datasets.definition_file import definition_of
from benchmarks.protocol import DATASETS, EXTRA_DATASETS, TASKS, Dataset
from common.errors import UserError
from common.files import write_text
from common.reading import read_json
from common.registry import Registry

STORED = "datasets"
"""Folder of a run store with the definitions of its datasets."""


def known_datasets(definitions: Iterable[Dataset]) -> Registry[Dataset]:
    """Return the paper's twelve and these after them; one that is given twice is taken once.

    Raises:
        UserError: a name is one of the paper's, or of two datasets that are not the same.
    """
    known = Registry("dataset", DATASETS.values())
    for definition in definitions:
        name = definition.name
        earlier = known.get(name)
        if earlier is not None and earlier.is_own:
            if earlier != definition:
                raise UserError(
                    f"{definition.files.where}: {name} is not the same dataset as in {earlier.files.where}; rename one"
                )
        # The release's folders have the paper's names, and options accept names of tasks in place of datasets.
        elif earlier is not None or name in EXTRA_DATASETS or name in TASKS:
            raise UserError(
                f"{definition.files.where}: {name} is one of the paper's names; call your dataset something else"
            )
        else:
            known.register(definition)
    return known


def stored_definitions(store: Path) -> list[Dataset]:
    """Return the definitions that runs left in a store, by name; none where there are none.

    Raises:
        UserError: one is damaged.
    """
    paths = sorted((store / STORED).glob("*.json"))
    remedy = "it is not a dataset definition; copy it from the store again"
    return [
        definition_of(path.stem, read_json(path, remedy), str(path), path.parent)
        for path in paths
    ]


def recorded_definitions(record: Mapping[str, Any], table: Path) -> list[Dataset]:
    """Return the definitions that a runs table records, as `definitions_record` returned them.

    Raises:
        UserError: one is damaged.
    """
    return [
        definition_of(name, content, f"{table}: [{name}]", table.parent)
        for name, content in record.items()
    ]


def store_definitions(store: Path, datasets: Iterable[Dataset]) -> None:
    """Write the definitions of one's own datasets into a run store; a floor that is known there stays."""
    floors = {one.name: one.floor for one in stored_definitions(store)}
    for dataset in datasets:
        if not dataset.is_own:
            continue
        content = {**dataset.files.content}
        # The floor is computed from the data, which a later call need not have read.
        floor = floors.get(dataset.name) if dataset.floor is None else dataset.floor
        if floor is not None:
            content["floor"] = floor
        text = json.dumps(content, indent=1, ensure_ascii=False, sort_keys=True)
        write_text(store / STORED / f"{dataset.name}.json", f"{text}\n")


def definitions_record(datasets: Iterable[Dataset]) -> dict[str, Any]:
    """Return the definitions of datasets of one's own by name, in JSON's types and one order; others have none."""
    own = [dataset for dataset in datasets if dataset.is_own]
    contents = {dataset.name: dataset.files.content for dataset in own}
    # By way of JSON, so that definitions from TOML and from a store compare equal.
    record: dict[str, Any] = json.loads(json.dumps(contents, sort_keys=True))
    return record
