"""Whether the runs of a store may stand in one table: the same code, locks, data, protocol and hardware.

Every run made by this package says in its `run.json` what it was made from, by what code and on what machine. Within
one table all runs must agree on it; what a few runs differ in is reported with their paths, since it is they that were
made otherwise.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.own_datasets.definitions import known_datasets, stored_definitions
from benchmarks.protocol import DATASETS, TASKS
from benchmarks.runs import RESULTS, parse_run_folder, read_run
from common.errors import UserError
from common.manifest import check_crate
from common.progress import progress
from common.registry import Registry

__all__ = [
    "ASPECTS", "Aspect", "Failed", "Mismatch", "Provenance", "audit_provenance", "facts_of", "provenance_json",
    "provenance_text",
]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Mismatch:
    """Runs of one table that were made with something else than most."""

    aspect: str
    """What differs: a key of `ASPECTS`."""
    table: str
    """Where the runs would stand together: a task, or a dataset for what only its own runs share.

    A dataset of one's own enters no table of its task.
    """
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
    """The outcome of an audit of provenance."""

    runs: int
    """Runs with results."""
    recorded: int
    """Those of them that have a `run.json`."""
    mismatches: tuple[Mismatch, ...]
    """Differences within tables."""
    failed: tuple[Failed, ...]
    """Runs that are recorded as failed."""


@dataclass(frozen=True)
class Aspect:
    """Something that all runs of a table must have been made with."""

    name: str
    title: str
    """What it is called in a sentence."""
    paths: tuple[str, ...]
    """Where a run's record says it; the sections of a path are separated by points."""
    of_dataset: bool = False
    """Whether only runs of one dataset share it; else all runs of a task do."""

    def of(self, record: Mapping[str, Any]) -> str:
        """Return what a run's record says about it, as short text; `?` for nothing."""
        values = [_at(record, path) for path in self.paths]
        if all(value is None for value in values):
            return "?"
        value = values[0] if len(values) == 1 else values
        return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


ASPECTS: Registry[Aspect] = Registry(
    "aspect",
    [
        Aspect("commit", "commit of the code", ("provenance.commit",)),
        Aspect("lock", "lock file", ("provenance.lock.sha256",)),
        Aspect("python", "Python", ("provenance.python",)),
        Aspect("versions", "package versions", ("provenance.versions",)),
        Aspect("protocol", "protocol", ("protocol",)),
        Aspect("tuning", "fine-tuning settings", ("description.tuning", "description.pooling")),
        Aspect("precision", "precision", ("machine.precision",)),
        Aspect("device", "hardware", ("machine.device",)),
        Aspect("training_data", "training data", ("description.training_data",), of_dataset=True),
        Aspect("evaluation_data", "evaluation data", ("description.evaluation_data",), of_dataset=True),
    ],
)
"""What is compared."""


def facts_of(record: Mapping[str, Any]) -> dict[str, str]:
    """Return what a run's record says about each aspect, as short text; `?` for what it does not say."""
    return {name: aspect.of(record) for name, aspect in ASPECTS.items()}


def _at(record: Mapping[str, Any], path: str) -> Any:
    value: Any = record
    for section in path.split("."):
        value = value.get(section) if isinstance(value, dict) else None
    return value


def audit_provenance(store: Path, logs: Path | None = None) -> Provenance:
    """Read every `run.json` of a store and compare what the runs of each table were made with.

    Args:
        store: a run store, or its `results` folder.
        logs: folder of the workflow's logs; `logs` next to the store's `results` when left out.

    Raises:
        UserError: no run is there, a record is damaged, the definition of a dataset is damaged, or the store is an
            RO-Crate and not what that says.
    """
    results = store if store.name == "results" else store / "results"
    if not results.is_dir():
        raise UserError(f"{store}: no run store, it has no folder `results`")
    check_crate(results.parent)
    datasets = known_datasets(stored_definitions(results.parent))
    logs = logs or results.parent / "logs"
    facts: dict[str, dict[str, dict[str, str]]] = {task: {} for task in TASKS}
    runs, failed = 0, []
    for folder in progress(sorted(results.glob("*/*/*/*")), "reading run.json", unit="run"):
        dataset = folder.parent.name
        if parse_run_folder(folder.name) is None or dataset not in datasets:
            continue
        name, done = folder.relative_to(results).as_posix(), (folder / RESULTS).is_file()
        record = read_run(folder)
        runs += done
        if not record:
            continue
        if not done and record.get("status") == "failed":
            failed.append(_failed(name, record, logs / "cell", datasets[dataset].trained_on))
        elif done:
            facts[datasets[dataset].task][name] = facts_of(record)
    if not runs and not failed:
        raise UserError(f"{results} holds no runs")
    mismatches = [
        mismatch
        for task, by_run in facts.items()
        for aspect in ASPECTS.values()
        for mismatch in _compare(task, aspect, by_run)
    ]
    recorded = sum(len(by_run) for by_run in facts.values())
    return Provenance(runs=runs, recorded=recorded, mismatches=tuple(mismatches), failed=tuple(failed))


def _compare(task: str, aspect: Aspect, by_run: Mapping[str, dict[str, str]]) -> Iterable[Mismatch]:
    groups: dict[str, dict[str, str]] = {}
    for run, facts in by_run.items():
        dataset = run.split("/")[2]
        table = dataset if aspect.of_dataset or dataset not in DATASETS else task
        groups.setdefault(table, {})[run] = facts[aspect.name]
    for table, values in groups.items():
        counts = Counter(values.values()).most_common()
        if len(counts) > 1:
            rare = [run for run, value in values.items() if value != counts[0][0]]
            yield Mismatch(aspect=aspect.name, table=table, values=dict(counts), examples=tuple(rare[:5]))


def _failed(name: str, record: Mapping[str, Any], logs: Path, trained_on: str) -> Failed:
    path = logs / f"{name.split('/')[0]}__{trained_on}.log"
    tail: tuple[str, ...] = ()
    if path.is_file():
        tail = tuple(path.read_text("utf-8", errors="replace").splitlines()[-5:])
    return Failed(run=name, reason=str(record.get("reason", "unknown")), log=tail)


def provenance_json(result: Provenance) -> str:
    """Return the outcome as JSON."""
    return json.dumps(asdict(result), indent=1) + "\n"


def provenance_text(result: Provenance) -> str:
    """Return the outcome as text."""
    lines = [f"{result.runs} runs, {result.recorded} of them with a record of what they were made with"]
    for item in result.mismatches:
        lines.append(f"DIFFERS  {item.table}: {ASPECTS[item.aspect].title}")
        lines += [f"    {count:>6} runs  {value[:100]}" for value, count in item.values.items()]
        lines += [f"            such as {name}" for name in item.examples]
    if result.recorded and not result.mismatches:
        titles = ", ".join(aspect.title for aspect in ASPECTS.values())
        lines.append(f"all agree within each table on {titles}")
    for run in result.failed:
        lines.append(f"FAILED   {run.run}: {run.reason}")
        lines += [f"            {line[:160]}" for line in run.log]
    lines.append(f"{len(result.mismatches)} mismatches, {len(result.failed)} failed runs")
    return "\n".join(lines) + "\n"
