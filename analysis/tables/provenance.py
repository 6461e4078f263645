"""Whether the runs of a store may stand in one table: the same code, locks, data, protocol and hardware.

Every run made by this package has a `run.json` that says what it was made with. Within one table all runs must
agree on it; what a few runs differ in is told with their paths, since it is they that were made otherwise.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.protocol import DATASETS, TASKS
from benchmarks.runs import RESULTS, RUN, parse_run_folder
from common.errors import UserError
from common.progress import progress

__all__ = ["ASPECTS", "Failed", "Mismatch", "Provenance", "audit_provenance", "facts_of"]


@dataclass(frozen=True, kw_only=True)
class Mismatch:
    """Runs of one table that were made with something else than most."""

    aspect: str
    """What differs: a key of `ASPECTS`."""
    table: str
    """Where the runs would stand together: a task, or a dataset for what only its own runs share."""
    values: dict[str, int]
    """Runs by value, the most frequent first."""
    examples: tuple[str, ...]
    """Runs of the rarer values, relative to the store; at most five."""


@dataclass(frozen=True, kw_only=True)
class Failed:
    """A run that is recorded as failed."""

    run: str
    """Its folder, relative to the store."""
    reason: str
    """What its record says."""
    log: tuple[str, ...]
    """The last lines of the log of its cell's job; empty without one."""


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """What an audit of provenance found."""

    runs: int
    """Runs with results."""
    recorded: int
    """Those of them that have a `run.json`."""
    mismatches: tuple[Mismatch, ...]
    """Differences within tables."""
    failed: tuple[Failed, ...]
    """Runs that are recorded as failed."""


ASPECTS: dict[str, tuple[str, bool]] = {
    "commit": ("commit of the code", False),
    "lock": ("lock file", False),
    "python": ("Python", False),
    "versions": ("package versions", False),
    "protocol": ("protocol", False),
    "tuning": ("fine-tuning settings", False),
    "precision": ("precision", False),
    "device": ("hardware", False),
    "training_data": ("training data", True),
    "evaluation_data": ("evaluation data", True),
}
"""What is compared: its title, and whether only runs of one dataset share it (else all runs of a task do)."""


def facts_of(record: Mapping[str, Any]) -> dict[str, str]:
    """Return what a `run.json` says about each aspect, as short text; `?` for what it does not say."""
    source = record.get("provenance") or {}
    settings = record.get("settings") or {}
    machine = record.get("machine") or {}
    lock = source.get("lock") or {}
    found = {
        "commit": source.get("commit"),
        "lock": lock.get("sha256"),
        "python": source.get("python"),
        "versions": source.get("versions"),
        "protocol": record.get("protocol"),
        "tuning": [settings.get(key) for key in ("tuning", "pooling")],
        "precision": machine.get("precision"),
        "device": machine.get("device"),
        "training_data": settings.get("training_data"),
        "evaluation_data": settings.get("evaluation_data"),
    }
    return {key: "?" if value in (None, [None, None]) else _short(value) for key, value in found.items()}


def _short(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def audit_provenance(store: Path, logs: Path | None = None) -> Provenance:
    """Read every `run.json` of a store and compare what the runs of each table were made with.

    Args:
        store: a run store, or its `results` folder.
        logs: folder of the workflow's logs; `logs` beside the store's `results` when left out.

    Raises:
        UserError: no run is there, or a record is no JSON.
    """
    results = store if store.name == "results" else store / "results"
    if not results.is_dir():
        raise UserError(f"{store}: no run store, it has no folder `results`")
    logs = logs or results.parent / "logs"
    facts: dict[str, dict[str, dict[str, str]]] = {task: {} for task in TASKS}
    runs, failed = 0, []
    for folder in progress(sorted(results.glob("*/*/*/*")), "reading run.json", unit="run"):
        dataset = folder.parent.name
        if parse_run_folder(folder.name) is None or dataset not in DATASETS:
            continue
        name, done = folder.relative_to(results).as_posix(), (folder / RESULTS).is_file()
        record = _read(folder / RUN)
        runs += done
        if record is None:
            continue
        if not done and record.get("status") == "failed":
            failed.append(_failed(name, record, logs))
        elif done:
            facts[DATASETS[dataset].task][name] = facts_of(record)
    if not runs and not failed:
        raise UserError(f"{results} holds no runs")
    mismatches = [
        found
        for task, by_run in facts.items()
        for aspect, (_, own) in ASPECTS.items()
        for found in _compare(task, aspect, by_run, own)
    ]
    recorded = sum(len(by_run) for by_run in facts.values())
    return Provenance(runs=runs, recorded=recorded, mismatches=tuple(mismatches), failed=tuple(failed))


def _read(path: Path) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise UserError(f"{path}: no JSON: {error}; delete its folder and do the run again") from None
    return content if isinstance(content, dict) else None


def _compare(task: str, aspect: str, by_run: Mapping[str, dict[str, str]], own: bool) -> Iterable[Mismatch]:
    groups: dict[str, dict[str, str]] = {}
    for name, found in by_run.items():
        groups.setdefault(name.split("/")[2] if own else task, {})[name] = found[aspect]
    for table, values in groups.items():
        counts = Counter(values.values()).most_common()
        if len(counts) > 1:
            rare = [name for name, value in values.items() if value != counts[0][0]]
            yield Mismatch(aspect=aspect, table=table, values=dict(counts), examples=tuple(rare[:5]))


def _failed(name: str, record: Mapping[str, Any], logs: Path) -> Failed:
    model, _, dataset, _ = name.split("/")
    path = logs / "cell" / f"{model}__{DATASETS[dataset].trained_on}.log"
    tail: tuple[str, ...] = ()
    if path.is_file():
        tail = tuple(path.read_text("utf-8", errors="replace").splitlines()[-5:])
    return Failed(run=name, reason=str(record.get("reason", "unknown")), log=tail)
