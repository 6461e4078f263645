"""Datasets of one's own next to the paper's twelve.

A run writes the definitions that it used into its run store, where the analysis reads them; a runs table that is made
of the store records them. This module keeps no state: `known_datasets` returns a registry, which callers hand on. The
page is docs/add-a-dataset.md.
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
"""Folder of a run store with the definitions of its datasets, a JSON file each."""


def known_datasets(definitions: Iterable[Dataset]) -> Registry[Dataset]:
    """Return the paper's twelve datasets and, after them, those of the definitions.

    A definition may be given twice, as by a file and by a run store; the dataset is then registered once.

    Raises:
        UserError: a definition has one of the paper's names, or two definitions of one name differ.
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
        # `EXTRA_DATASETS` are further folders that the release's code can write.
        elif earlier is not None or name in EXTRA_DATASETS or name in TASKS:
            raise UserError(
                f"{definition.files.where}: {name} is one of the paper's names; call your dataset something else"
            )
        else:
            known.register(definition)

    return known


def stored_definitions(store: Path) -> list[Dataset]:
    """Return the definitions that runs wrote into a store, in the order of their names; an empty list without any.

    Raises:
        UserError: a definition is damaged.
    """
    paths = sorted((store / STORED).glob("*.json"))
    remedy = "it is not a dataset definition; copy it from the store again"
    return [
        definition_of(path.stem, read_json(path, remedy), str(path), path.parent)
        for path in paths
    ]


def recorded_definitions(record: Mapping[str, Any], table: Path) -> list[Dataset]:
    """Return the definitions that a runs table records, in the form in which `definitions_record` returns them.

    Raises:
        UserError: a definition is damaged.
    """
    return [
        definition_of(name, content, f"{table}: [{name}]", table.parent)
        for name, content in record.items()
    ]


def store_definitions(store: Path, datasets: Iterable[Dataset]) -> None:
    """Write the definitions of one's own datasets into a run store.

    A definition has a floor, the score of a model that reads no input, if it is known now or the store has it already.
    """
    stored_floors = {}
    for stored in stored_definitions(store):
        stored_floors[stored.name] = stored.floor
    for dataset in datasets:
        if not dataset.is_own:
            continue
        content = {**dataset.files.content}

        # The floor is computed from the data, which a later call need not have read.
        floor = dataset.floor
        if floor is None:
            floor = stored_floors.get(dataset.name)
        if floor is not None:
            content["floor"] = floor
        text = json.dumps(content, indent=1, ensure_ascii=False, sort_keys=True)
        write_text(store / STORED / f"{dataset.name}.json", f"{text}\n")


def definitions_record(datasets: Iterable[Dataset]) -> dict[str, Any]:
    """Return the contents of the definitions of one's own datasets by name, as JSON types with sorted keys.

    The paper's datasets are left out: no file of a user's defines them.
    """
    own = [dataset for dataset in datasets if dataset.is_own]
    contents = {dataset.name: dataset.files.content for dataset in own}
    # By way of JSON, so that definitions from TOML and from a store compare equal.
    record: dict[str, Any] = json.loads(json.dumps(contents, sort_keys=True))
    return record
