"""The paper's twelve datasets, as paper_datasets.toml defines them. Standard library only."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.dataset import Dataset, Pin
from common.registry import Registry

__all__ = ["DATASETS"]

CONVERTED = "refs/convert/parquet"
"""The hub's own conversion of a repository to Parquet."""
_PLACES = ("{0}*.parquet", "*/{0}*.parquet", CONVERTED + ":*/{0}*/*.parquet", "{0}*.json*", "*/{0}*.json*")
"""Where a split is in an authors' copy of unknown layout: the usual places, then the hub's conversion."""
_OUTPUTS = {"QA": 2, "IR": None}
"""The outputs of the head, where they are not one a label."""


def _pins(hubs: Iterable[dict[str, Any]]) -> Iterator[Pin]:
    for hub in hubs:
        repo, commit, hashes = hub.pop("repo"), hub.pop("revision", None), hub.pop("sha256", {})
        for role, given in hub.items():
            names = [given] if isinstance(given, str) else given
            files = names if commit else [place.format(name) for place in _PLACES for name in names]
            yield Pin(role=role, repo=repo, commit=commit, files=tuple(files), sha256=hashes)


def _dataset(name: str, table: Mapping[str, Any]) -> Dataset:
    given: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in table.items()
    }
    labels: tuple[str, ...] = given.pop("labels", ())
    given["pins"] = tuple(_pins(given.pop("hub", ())))
    given["columns"] = {field: tuple(names) for field, names in given.get("columns", {}).items()}
    given.setdefault("trained_on", name)
    return Dataset(name=name, label_names=labels, labels=_OUTPUTS.get(given["task"], len(labels)), **given)


_FILE = Path(__file__).with_suffix(".toml")

DATASETS: Registry[Dataset] = Registry(
    "dataset", [_dataset(*item) for item in tomllib.loads(_FILE.read_text(encoding="utf-8")).items()]
)
"""The paper's twelve by name, in the order of the columns of its tables. Those of one's own are handed on with them in
registries of their own (`benchmarks.own_datasets.definitions.known_datasets`); nothing is added here.
"""
