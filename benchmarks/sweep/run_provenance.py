"""What a run left of how it was made: its times, its machine, its model's path.

Standard library only: a login node plans by the times.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.runs import RunKey, record_of
from common.errors import UserError
from common.plain_text import visible
from common.provenance import provenance_path, read_provenance

__all__ = ["folder_of", "measured", "model_source", "timings"]


def folder_of(store: Path, key: RunKey) -> Path:
    """Return the folder of a run."""
    return store / "results" / key.folder


def timings(store: Path, key: RunKey) -> dict[str, float]:
    """Return the seconds that a run took, by part; empty where nothing says it."""
    seconds = _of_provenance(folder_of(store, key), "seconds")
    if not isinstance(seconds, dict):
        return {}
    return {name: float(value) for name, value in seconds.items() if isinstance(value, int | float)}


def measured(store: Path, key: RunKey, name: str) -> int:
    """Return a number that a run recorded of its machine, such as its memory; 0 where nothing says it."""
    machine = _of_provenance(folder_of(store, key), "machine")
    value = machine.get(name) if isinstance(machine, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def model_source(store: Path, key: RunKey) -> str:
    """Return the path or id of the model that a run was made from, as it was given; empty where nothing says it."""
    found = _of_provenance(folder_of(store, key), "model_source")
    return visible(found)[:300] if isinstance(found, str) else ""


def _of_provenance(folder: Path, name: str) -> Any:
    """Return what a run's provenance says, or its run.json, where the first version wrote it."""
    try:
        found = read_provenance(provenance_path(folder, folder=True))
    except UserError:
        return None
    return found[name] if name in found else record_of(folder).get(name)
