"""Reading one cell of a run store: the unit of work that `ingest` spreads over processes and remembers."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from analysis.store.instances import RunScores, write_cell
from analysis.store.results_json import ResultsError, read_results
from analysis.store.run_json import read_standard
from analysis.store.scan import Cell, FoundRun
from benchmarks.protocol import PAPER
from benchmarks.runs import RESULTS, RunKey

__all__ = ["CellResult", "Row", "Stamps", "begin_reader", "read_cell", "stamps"]

_SETTLED_NS = 2_000_000_000
"""A file younger than this is read again next time: a clock tick may hide a second write."""

Row = tuple[str, float, int, float, float, int, int]
"""Folder, lr, seed, validation score, test score, number of validation and of test instances."""
Stamps = tuple[tuple[str | int, ...], ...]
"""Folder, size, modification and change time of each of a cell's files; for `standard` those of run.json too."""


@dataclass(frozen=True, kw_only=True)
class CellResult:
    """What a cell's files hold."""

    name: str
    """`model/task/dataset`."""
    stamps: Stamps
    """As the files were when the store was scanned."""
    settled: bool
    """Whether equal stamps next time mean equal content."""
    rows: tuple[Row, ...]
    """The usable runs, by learning rate and seed."""
    problems: tuple[tuple[str, str, str], ...] = field(default=())
    """Path below `results`, kind and sentence of each."""
    instances: tuple[int, int] | None = None
    """Size and modification time of the instances file; None when none was written."""


def stamps(cell: Cell, protocol: str = PAPER) -> Stamps:
    """Return what tells whether a cell has changed, as far as a protocol's scores are concerned."""
    if protocol == PAPER:
        return tuple((run.folder, *run.stamp) for run in cell.runs)
    return tuple((run.folder, *run.stamp, *(run.record or ())) for run in cell.runs)


def read_cell(results: Path, cell: Cell, instances: Path | None, protocol: str = PAPER) -> CellResult:
    """Read all runs of a cell by a protocol, and write their per-instance scores when a folder is given for them.

    Of the `standard` protocol only the runs' scores are read; their instances are those of `paper`.
    """
    now = time.time_ns()
    problems: list[tuple[str, str, str]] = []
    good: dict[tuple[float, int], tuple[Row, RunScores]] = {}
    for run in sorted(cell.runs, key=lambda run: (run.folder != _canonical(cell, run), run.folder)):
        below = f"{cell.name}/{run.folder}"
        try:
            validation, test = read_results(results / below / RESULTS)
            scores = (validation.score, test.score)
            if protocol != PAPER:
                key = RunKey(model=cell.model, dataset=cell.dataset, lr=run.lr, seed=run.seed)
                scores = read_standard(results / below, key)
        except ResultsError as error:
            path = below if error.kind == "standard" else f"{below}/{RESULTS}"
            problems.append((path, error.kind, error.sentence))
            continue
        row = (
            run.folder, run.lr, run.seed, *scores, len(validation.scores), len(test.scores)
        )  # fmt: skip
        if (first := good.get((run.lr, run.seed))) is not None:
            same = row[3:] == first[0][3:]
            told = (
                "with the same scores" if same else f"whose test score is {first[0][4]:.4f}, not {row[4]:.4f}"
            )
            problems.append(
                (below, "duplicate", f"is the run of {first[0][0]} again, {told}; remove one of them")
            )
            continue
        good[run.lr, run.seed] = (
            row,
            RunScores(lr=run.lr, seed=run.seed, validation=validation.scores, test=test.scores),
        )
    written = None
    if instances is not None and good:
        stat = write_cell(instances, cell.model, cell.dataset, [scores for _, scores in good.values()]).stat()
        written = (stat.st_size, stat.st_mtime_ns)
    return CellResult(
        name=cell.name,
        stamps=stamps(cell, protocol),
        settled=all(now - max(run.stamp[1:] + (run.record or ())[1:]) > _SETTLED_NS for run in cell.runs),
        rows=tuple(good[key][0] for key in sorted(good)),
        problems=tuple(sorted(problems)),
        instances=written,
    )


def begin_reader() -> None:
    """Prepare a reading process: Ctrl-C is its parent's to answer, and it ends when its parent is killed.

    Kept here, where importing it brings no pandas into the readers.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent.sentinel,), daemon=True).start()


def _end_after(sentinel: int) -> None:
    multiprocessing.connection.wait([sentinel])
    os._exit(1)


def _canonical(cell: Cell, run: FoundRun) -> str:
    return RunKey(model=cell.model, dataset=cell.dataset, lr=run.lr, seed=run.seed).folder.name
