"""The state of a store's cells: how many runs are done, failed and missing, and what is running. Light: no torch.

A cell is one model on one dataset: a run for each learning rate and seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.runs import cell_keys
from benchmarks.sweep.run_store import RunStore
from common.errors import UserError, nearest
from common.locks import holder_of
from common.tables import plain_table

COMPLETE, FAILED, BUSY = 0, 3, 4
"""Exit codes: all runs are done; some failed; some are missing, as those that another process does."""


@dataclass(frozen=True, kw_only=True)
class CellStatus:
    """How far one cell is."""

    model: str
    """Model."""
    dataset: str
    """Dataset."""
    runs: int
    """Runs that belong to the cell."""
    done: int
    """Runs with results."""
    failed: dict[str, str]
    """Reason by run, for those that failed."""
    running: bool
    """Whether a process is doing a run of the cell, on this machine or on another one that shares the store."""

    @property
    def missing(self) -> int:
        """Runs that are neither done nor failed."""
        return self.runs - self.done - len(self.failed)


def cell_status(
    store: RunStore,
    model: str,
    dataset: str,
    lrs: Sequence[float],
    seeds: Sequence[int],
    *,
    others: bool = False,
) -> CellStatus:
    """Return how far a cell's runs are.

    Args:
        store: the run store.
        model: the model's name in the store.
        dataset: the dataset's name.
        lrs: learning rates of the runs that belong to the cell.
        seeds: seeds of these runs.
        others: whether the cell has instead the runs that `run` was asked for, if the store says so, and any other
            runs that are in the store.
    """
    definition = store.known[dataset]
    keys = cell_keys(model, definition, lrs, seeds)
    if others:
        asked_keys = []
        for lr, seed in sorted(store.asked(model, dataset)):
            asked_keys += cell_keys(model, definition, [lr], [seed])
        found = store.found(model, dataset)
        # Each run once.
        keys = list(dict.fromkeys([*(asked_keys or keys), *found]))

    states = {key: store.state(key) for key in keys}
    failed = {}
    for key, state in states.items():
        if state.reason is not None:
            failed[key.folder.name] = state.reason

    open_keys = [key for key, state in states.items() if not state.done]
    # A process that does a run holds the run's lock.
    is_running = any(holder_of(store.claim(key)) is not None for key in open_keys)
    return CellStatus(
        model=model,
        dataset=dataset,
        runs=len(keys),
        done=len(keys) - len(open_keys),
        failed=failed,
        running=is_running,
    )


def status_code(cells: Sequence[CellStatus]) -> int:
    """Return `COMPLETE`, `FAILED` or `BUSY`."""
    if any(cell.missing for cell in cells):
        return BUSY
    return FAILED if any(cell.failed for cell in cells) else COMPLETE


def models_in_store(store: Path, wanted: Sequence[str]) -> list[str]:
    """Return the models of a store, or those of them that are wanted.

    Raises:
        UserError: the store has no runs, or not that model.
    """
    folder = store / "results"
    found = []
    if folder.is_dir():
        found = sorted(path.name for path in folder.iterdir() if path.is_dir())
    if not found:
        raise UserError(
            f"{folder} contains no runs; set the store with --out, or start with `clm-or-mlm benchmarks run`"
        )

    for name in wanted:
        if name not in found:
            raise UserError(f"{folder} has no model {name!r}{nearest(name, found)}")

    return list(wanted) if wanted else found


def _in_short(cell: CellStatus) -> str:
    """Return a cell in a few letters: `12/30!2*` if 12 of 30 runs are done, 2 failed, and a process is doing one."""
    text = f"{cell.done}/{cell.runs}"
    if cell.done == cell.runs:
        text = "done"
    if cell.failed:
        text += f"!{len(cell.failed)}"
    if cell.running:
        text += "*"
    return text


def status_table(cells: Sequence[CellStatus], datasets: Sequence[str]) -> str:
    """Return a table with a row for each model and a column for each dataset, then why runs failed, then a sum.

    Args:
        cells: the cells, model by model, each model's in the order of `datasets`.
        datasets: names of the columns.
    """
    rows = [["model", *datasets]]
    for model in dict.fromkeys(cell.model for cell in cells):
        of_model = [cell for cell in cells if cell.model == model]
        rows.append([model, *map(_in_short, of_model)])

    # All columns but the first are aligned as numbers.
    lines = plain_table(rows, numbers=range(1, len(rows[0])))
    for cell in cells:
        for run, why in cell.failed.items():
            lines.append(f"failed: {cell.model} {cell.dataset} {run}: {why}")

    total = sum(cell.runs for cell in cells)
    done = sum(cell.done for cell in cells)
    failed = sum(len(cell.failed) for cell in cells)
    lines.append(
        f"{done} of {total} runs done, {failed} failed, {total - done - failed} missing"
    )
    return "\n".join(lines)
