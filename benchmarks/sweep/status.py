"""Runs, cells and models x datasets: what is done, running, failed and missing. Light: no torch.

A run is done when results.json parses, is complete, agrees with itself, and all files are what its manifest says.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.protocol import PAPER, Dataset, format_lr
from benchmarks.results_json import ResultsError, counted_scores, read_results
from benchmarks.runs import (
    AGAIN,
    DETAILS,
    RESULTS,
    RUN,
    NotItselfError,
    RunKey,
    cell_keys,
    found_keys,
    read_run,
    record_of,
)
from benchmarks.sweep.request import RunRequest
from common.errors import UserError, nearest
from common.files import write_text
from common.locks import holder_of
from common.manifest import FILES, check_files
from common.reading import read_bounded, strict_json
from common.tables import plain_table


@dataclass(frozen=True, kw_only=True)
class RunState:
    """What a look into a run's folder found."""

    scores: tuple[float, float] | None = None
    """Validation and test score of a run that is done."""
    fault: str | None = None
    """Why the results that are there cannot be used."""
    reason: str | None = None
    """Why the run failed, of one that did."""
    description: Mapping[str, Any] | None = None
    """What the run was made from, where its manifest says it; the release has no manifests."""
    source: str = ""
    """The model as the run's command named it."""

    @property
    def done(self) -> bool:
        """Whether the results are there and can be believed."""
        return self.scores is not None


def folder_of(store: Path, key: RunKey) -> Path:
    """Return the folder of a run."""
    return store / "results" / key.folder


def claim_path(store: Path, key: RunKey, dataset: Dataset) -> Path:
    """Return the file whose lock a process holds while it works on the fine-tuning of a run of `dataset`."""
    return (
        store
        / "locks"
        / f"{key.model}__{dataset.trained_on}__lr{format_lr(key.lr)}_sd{key.seed}.lock"
    )


def state_of(store: Path, key: RunKey) -> RunState:
    """Return the state of a run; a folder is read again only when its files look different."""
    folder = folder_of(store, key)
    return _look(folder, *(_stamp(folder / name) for name in (RESULTS, RUN, DETAILS)))


def states_of(store: Path, model: str, dataset: Dataset) -> dict[RunKey, RunState]:
    """Return the states of a cell's runs that have a folder, whatever their learning rates and seeds."""
    return {key: state_of(store, key) for key in found_keys(store, model, dataset)}


def _stamp(path: Path) -> tuple[int, ...] | None:
    """Return what changes with a file; None where it is not there."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


@functools.lru_cache(maxsize=100_000)
def _look(folder: Path, *stamps: object) -> RunState:
    """Return the state of the run in a folder; `stamps` are there for the cache alone."""
    has_results = os.path.lexists(folder / RESULTS)
    try:
        record = read_run(folder)
    except NotItselfError as error:  # without results the run is simply not there
        return RunState(fault=error.reason if has_results else None)
    recorded: dict[str, Any] = {
        "description": record.get("description"),
        "source": str(record.get("model_source")),
    }
    reason = (
        str(record.get("reason", "unknown"))
        if record.get("status") == "failed"
        else None
    )
    if not has_results:
        return RunState(reason=reason, **recorded)
    files = dict(record.get(FILES, {}))
    try:
        # A run without a manifest, as in the release, has no hash to compare with.
        validation, test = read_results(
            folder / RESULTS, files.pop(RESULTS, "") if record else None
        )
        check_files(folder, files, AGAIN)
    except (ResultsError, UserError, OSError) as error:
        return RunState(fault=str(error), reason=reason, **recorded)
    return RunState(scores=(validation.score, test.score), **recorded)


def counted_scores_of(
    store: Path, key: RunKey, dataset: Dataset
) -> tuple[float, float] | None:
    """Return the scores by which the analysis counts a run (`counted_scores`); None of one that is not done."""
    scores = state_of(store, key).scores
    if scores is None or not dataset.is_own:
        return scores
    # A run without that metric: as results.json has them
    with contextlib.suppress(ResultsError):
        return counted_scores(record_of(folder_of(store, key)), dataset, PAPER, scores)
    return scores


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
    """Whether a process of this machine is doing it."""

    @property
    def missing(self) -> int:
        """Runs that are neither done nor failed."""
        return self.runs - self.done - len(self.failed)


def cell_status(
    store: Path,
    model: str,
    dataset: Dataset,
    lrs: Sequence[float],
    seeds: Sequence[int],
    *,
    others: bool = False,
) -> CellStatus:
    """Return how far a cell's runs are; `others`: those that `run` was asked for, if any, and all that are there."""
    keys = cell_keys(model, dataset, lrs, seeds)
    if others:
        asked = sorted(_asked_pairs(store, model, dataset.name))
        asked_keys = [
            key for lr, seed in asked for key in cell_keys(model, dataset, [lr], [seed])
        ]
        keys = list(
            dict.fromkeys([*(asked_keys or keys), *found_keys(store, model, dataset)])
        )
    states = {key: state_of(store, key) for key in keys}
    failed = {
        key.folder.name: state.reason
        for key, state in states.items()
        if state.reason is not None
    }
    return CellStatus(
        model=model,
        dataset=dataset.name,
        runs=len(keys),
        done=sum(state.done for state in states.values()),
        failed=failed,
        running=any(
            holder_of(claim_path(store, key, dataset)) is not None
            for key in keys
            if not states[key].done
        ),
    )


def note_request(request: RunRequest) -> None:
    """Leave in the store which runs of each dataset a request asks for, in addition to what others asked for."""
    pairs = {(lr, seed) for lr in request.lrs for seed in request.seeds}
    for name in request.datasets:
        asked = _asked_pairs(request.store, request.name, name)
        path = _asked_path(request.store, request.name, name)
        if path.exists() and not asked:
            raise UserError(
                f"{path} is not a list of runs, as this command writes it; move it elsewhere, or choose another --out"
            )
        if not pairs <= asked:
            write_text(path, json.dumps(sorted(pairs | asked)) + "\n")


def _asked_path(store: Path, model: str, dataset: str) -> Path:
    """Return the file with the runs of a cell that were asked for."""
    return store / "asked" / model / f"{dataset}.json"


def _asked_pairs(store: Path, model: str, dataset: str) -> set[tuple[float, int]]:
    """Return learning rate and seed of the runs of a cell that were asked for; none where the file is damaged."""
    try:
        asked = strict_json(read_bounded(_asked_path(store, model, dataset)))
        return {(float(lr), int(seed)) for lr, seed in asked}
    except (OSError, ValueError, TypeError, OverflowError, UserError):
        return set()


def touched(
    store: Path, models: Sequence[str], known: Mapping[str, Dataset]
) -> tuple[str, ...]:
    """Return the datasets that `run` was asked for, or of which there are runs, of these models or of all."""
    in_store = models_of(store, models)
    return tuple(
        name
        for name, dataset in known.items()
        if any(
            _asked_path(store, model, name).is_file()
            or found_keys(store, model, dataset)
            for model in in_store
        )
    )


def status_code(cells: Sequence[CellStatus]) -> int:
    """Return `COMPLETE`, `FAILED` or `BUSY`."""
    if any(cell.missing for cell in cells):
        return BUSY
    return FAILED if any(cell.failed for cell in cells) else COMPLETE


def models_of(store: Path, wanted: Sequence[str]) -> list[str]:
    """Return the models of a store, or those of them that are wanted.

    Raises:
        UserError: the store has no runs, or not that model.
    """
    folder = store / "results"
    found = (
        sorted(path.name for path in folder.iterdir() if path.is_dir())
        if folder.is_dir()
        else []
    )
    if not found:
        raise UserError(
            f"{folder} contains no runs; set the store with --out, or start with `clm-or-mlm benchmarks run`"
        )
    for name in wanted:
        if name not in found:
            raise UserError(f"{folder} has no model {name!r}{nearest(name, found)}")
    return list(wanted) if wanted else found


def status_table(cells: Sequence[CellStatus], datasets: Sequence[str]) -> str:
    """Return cells as a table, models x datasets, then why runs failed, and a line for all."""
    rows = [["model", *datasets]]
    for model in dict.fromkeys(cell.model for cell in cells):
        rows.append([model])
        for cell in (cell for cell in cells if cell.model == model):
            count = "done" if cell.done == cell.runs else f"{cell.done}/{cell.runs}"
            # `12/30!2*`: 12 of 30 runs are done, 2 failed, and a process is doing one.
            rows[-1].append(
                count
                + (f"!{len(cell.failed)}" if cell.failed else "")
                + "*" * cell.running
            )
    lines = plain_table(rows, numbers=range(1, len(rows[0])))
    for cell in cells:
        lines += [
            f"failed: {cell.model} {cell.dataset} {run}: {why}"
            for run, why in cell.failed.items()
        ]
    total = sum(cell.runs for cell in cells)
    done = sum(cell.done for cell in cells)
    failed = sum(len(cell.failed) for cell in cells)
    lines.append(
        f"{done} of {total} runs done, {failed} failed, {total - done - failed} missing"
    )
    return "\n".join(lines)
