"""Whether the runs of a store may stand in one table: the same code, locks, data, protocol and hardware.

Every run made by this package says in its `run.json` what it was made from, by what code and on what machine. Within
one table all runs must agree on that. Where they do not, the runs with a rarer value are reported with their paths.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from analysis.store.scan import results_folder
from benchmarks.own_datasets.definitions import known_datasets, stored_definitions
from benchmarks.protocol import TASKS
from benchmarks.run_fields import RUN_FIELDS
from benchmarks.runs import RESULTS, key_of, read_run, store_of
from common.errors import UserError
from common.progress import progress

_AUDITED = [field for field in RUN_FIELDS if field.is_audited]
"""The fields of `run.json` on which the runs of a table must agree."""


@dataclass(frozen=True, kw_only=True)
class Mismatch:
    """A field in which runs of one table differ."""

    aspect: str
    """Name of the field."""
    table: str
    """Name of the table: a task, whose runs stand in one table. A dataset, for a field that differs between datasets,
    such as their files, and for a dataset of one's own, which is in no table of its task."""
    values: dict[str, int]
    """By value, the number of runs with it, the most frequent value first."""
    examples: tuple[str, ...]
    """Runs with a rarer value, by their folders below `results`; at most five."""


@dataclass(frozen=True, kw_only=True)
class Failed:
    """A run that is recorded as failed."""

    run: str
    """Its folder, below `results`."""
    reason: str
    """Why it failed, as its record says."""
    log: tuple[str, ...]
    """The last lines of the log of the job that ran its model on its dataset; empty without a log."""


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """The outcome of an audit of provenance."""

    runs: int
    """Runs with results."""
    recorded: int
    """Runs with results and a `run.json`."""
    mismatches: tuple[Mismatch, ...]
    """Differences within tables."""
    failed: tuple[Failed, ...]
    """Runs that are recorded as failed."""


def audit_provenance(store: Path) -> Provenance:
    """Read every `run.json` of a store and compare what the runs of each table were made with.

    Args:
        store: a run store, or its `results` folder; the workflow's logs are in `logs` next to it.

    Raises:
        UserError: no run is there, a record is damaged, or the definition of a dataset is damaged.
    """
    results = results_folder(store)
    root = store_of(store)
    datasets = known_datasets(stored_definitions(root))
    task_rank = {task: rank for rank, task in enumerate(TASKS)}

    # By table and field, the value of each run.
    values: dict[_Column, dict[str, str]] = {}
    runs, recorded = 0, 0
    failed = []

    # <model>/<task>/<dataset>/<run>
    folders = sorted(results.glob("*/*/*/*"))
    for folder in progress(folders, "reading run.json", unit="run"):
        dataset = datasets.get(folder.parent.name)
        # What is not a run's folder is passed over: other files may lie in a store, such as an editor's.
        # Whether the name is that of a run does not depend on the model, which is therefore left empty.
        if dataset is None or key_of(folder.name, "", dataset) is None:
            continue
        name = folder.relative_to(results).as_posix()
        has_results = (folder / RESULTS).is_file()
        record = read_run(folder)  # empty without one
        if has_results:
            runs += 1

        # A run with results and a record is compared. One without results may be recorded as failed.
        if has_results and record:
            recorded += 1
            for rank, field in enumerate(_AUDITED):
                # What only a dataset's own runs share, such as its files, may differ within a task.
                is_of_dataset = field.of_dataset or dataset.is_own
                table = dataset.name if is_of_dataset else dataset.task
                column = _Column(task_rank[dataset.task], rank, table)
                values.setdefault(column, {})[name] = field.text(record)
        elif record.get("status") == "failed":
            reason = str(record.get("reason", "unknown"))
            model = folder.relative_to(results).parts[0]
            # One job of the workflow fine-tunes a model on a dataset and scores it on all datasets that this serves.
            log = root / "logs" / "cell" / f"{model}__{dataset.trained_on}.log"
            failed.append(Failed(run=name, reason=reason, log=_last_lines(log)))

    if not runs and not failed:
        raise UserError(f"{results} has no runs")
    mismatches = tuple(_mismatches(values))
    return Provenance(
        runs=runs, recorded=recorded, mismatches=mismatches, failed=tuple(failed)
    )


class _Column(NamedTuple):
    """A field on which the runs of one table have to agree."""

    task: int
    """Position of the task in `TASKS`."""
    field: int
    """Position of the field in `_AUDITED`."""
    table: str
    """Name of the table, as of `Mismatch`."""


def _last_lines(log: Path) -> tuple[str, ...]:
    """Return the last five lines of a job's log; none without one."""
    if not log.is_file():
        return ()
    # A job that was killed may have written only the first bytes of a character.
    lines = log.read_text("utf-8", errors="replace").splitlines()
    return tuple(lines[-5:])


def _mismatches(values: Mapping[_Column, Mapping[str, str]]) -> Iterator[Mismatch]:
    """Yield the fields that have several values among the runs of one table, in the order of tasks and of fields.

    Args:
        values: for each field of a table, its value by run.
    """

    def task_and_field(column: _Column) -> tuple[int, int]:
        return column.task, column.field

    # The sort is stable, so that tables of one task and field stay in the order of their runs.
    for column in sorted(values, key=task_and_field):
        value_of = values[column]
        # In the order of frequency, the most frequent value first.
        counts = dict(Counter(value_of.values()).most_common())
        # Runs with another value than most are named as those that were made differently.
        usual = next(iter(counts))
        rare = [run for run, value in value_of.items() if value != usual]
        if rare:
            yield Mismatch(
                aspect=_AUDITED[column.field].name,
                table=column.table,
                values=counts,
                examples=tuple(rare[:5]),
            )


def provenance_lines(result: Provenance) -> list[str]:
    """Return the outcome as lines of text."""
    recorded = f"{result.recorded} of them with a record of how they were made"
    lines = [f"{result.runs} runs, {recorded}"]
    titles = {field.name: field.title for field in _AUDITED}
    for mismatch in result.mismatches:
        lines.append(f"DIFFERS  {mismatch.table}: {titles[mismatch.aspect]}")
        for value, count in mismatch.values.items():
            lines.append(f"    {count:>6} runs  {value[:100]}")
        lines += [f"            such as {name}" for name in mismatch.examples]

    if result.recorded and not result.mismatches:
        lines.append(f"all agree within each table on {', '.join(titles.values())}")
    for run in result.failed:
        lines.append(f"FAILED   {run.run}: {run.reason}")
        lines += [f"            {line[:160]}" for line in run.log]

    return [
        *lines,
        f"{len(result.mismatches)} mismatches, {len(result.failed)} failed runs",
    ]
