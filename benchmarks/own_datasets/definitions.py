"""Datasets of one's own next to the paper's twelve.

`register(Path("my.toml"))` puts them into `benchmarks.protocol.DATASETS`. A run leaves the definitions it used in its
store, from where the analysis takes them; a runs table made of the store records them. Standard library only; the page
is docs/add-a-dataset.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.own_datasets.definition_file import Definition, definition_of
from benchmarks.own_datasets.ready_definitions import definitions_of
from benchmarks.protocol import DATASETS, EXTRA_DATASETS, TASKS
from common.errors import UserError
from common.files import write_text
from common.reading import read_bounded, strict_json
from common.registry import Registry

__all__ = [
    "DEFINITIONS", "definitions_record", "register", "register_record", "register_stored", "store_definitions",
]  # fmt: skip

STORED = "datasets"
"""Folder of a run store with the definitions of its datasets."""
_MOST = 1 << 20
"""Bytes of the largest definition that is read."""

DEFINITIONS: Registry[Definition] = Registry("dataset of your own")
"""Those that are registered."""


def register(path: Path) -> list[Definition]:
    """Put the datasets of a file among the known ones, all or none, and return their definitions.

    Args:
        path: a TOML or YAML file, or the name of what is ready (`benchmarks.own_datasets.ready_definitions`).

    Raises:
        UserError: the file is absent or not as docs/add-a-dataset.md says, or a name means something else already.
    """
    found = definitions_of(path)
    for definition in found:
        _check_new(definition)
    for definition in found:
        _add(definition)
    return found


def register_stored(store: Path) -> None:
    """Put the datasets that a run store has definitions of among the known ones.

    Raises:
        UserError: a definition is damaged, or means something else than one that is registered.
    """
    for path in sorted((store / STORED).glob("*.json")):
        try:
            content = strict_json(read_bounded(path, _MOST))
        except (OSError, ValueError) as error:
            raise UserError(
                f"{path} is no definition of a dataset ({error}); copy it from the store again"
            ) from None
        _register_kept(path.stem, content, str(path), path.parent)


def store_definitions(store: Path, names: Sequence[str]) -> None:
    """Leave the definitions of datasets of one's own in a run store; others have none."""
    for name in names:
        if name in DEFINITIONS:
            text = json.dumps(DEFINITIONS[name].content, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
            write_text(store / STORED / f"{name}.json", text)


def register_record(record: Mapping[str, Any], table: Path) -> None:
    """Put the datasets that a runs table records, as `definitions_record` returns them, among the known ones.

    Raises:
        UserError: a definition is damaged, or means something else than one that is registered.
    """
    for name, content in record.items():
        _register_kept(name, content, f"{table}: [{name}]", table.parent)


def definitions_record(names: Iterable[str]) -> dict[str, Any]:
    """Return the definitions of datasets of one's own by name, in JSON's types and one order; others have none."""
    known = {name: DEFINITIONS[name].content for name in names if name in DEFINITIONS}
    record: dict[str, Any] = json.loads(json.dumps(known, sort_keys=True))
    return record


def _register_kept(name: str, content: Any, where: str, folder: Path) -> None:
    definition = definition_of(name, content, where, folder)
    _check_new(definition)
    _add(definition)


def _check_new(definition: Definition) -> None:
    name = definition.name
    if name in DEFINITIONS:
        if DEFINITIONS[name].dataset != definition.dataset:
            raise UserError(
                f"{definition.where}: {name} is another dataset than that of {DEFINITIONS[name].where}; rename one"
            )
    elif name in DATASETS or name in EXTRA_DATASETS or name in TASKS:
        raise UserError(
            f"{definition.where}: {name} is a name of the paper's; call your dataset something else"
        )


def _add(definition: Definition) -> None:
    if definition.name not in DEFINITIONS:
        DATASETS.register(definition.dataset)
        DEFINITIONS.register(definition)
