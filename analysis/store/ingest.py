"""From a run store to a runs table.

On the way a run is a `benchmarks.runs.RunKey`, then a `cell.Run`, then a row of the table. Cells are read in
parallel; the result does not depend on their order or the number of jobs. Files that cannot be used are reported
with path and reason, and the other runs are used.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import hashlib
import logging
import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from analysis.store.cell import CellResult, read_cell
from analysis.store.copies import copies
from analysis.store.instances import instances_folder, instances_name
from analysis.store.runs_table import COLUMNS, sort_runs, write_runs
from analysis.store.scan import DOUBTFUL, Problem, Scan, scan_store, summary
from benchmarks.own_datasets.definitions import known_datasets, stored_definitions
from benchmarks.protocol import LEARNING_RATES, PAPER, SEEDS, Dataset, format_lr
from common.errors import UserError
from common.files import cache_folder
from common.locks import wait_for_lock
from common.plain_text import counted
from common.processes import cores, worker_pool
from common.progress import progress

__all__ = ["Ingested", "RefusedStoreError", "ingest", "open_store"]

logger = logging.getLogger(__name__)

_GRID = [(lr, seed) for lr in LEARNING_RATES for seed in SEEDS]
_FEW = 400
"""Stores with fewer runs are read in this process: new ones would cost more than they bring."""


class RefusedStoreError(UserError):
    """No table was written; `problems` says why, one by one."""

    def __init__(self, sentence: str, problems: Sequence[Problem]) -> None:
        super().__init__(sentence)
        self.problems = tuple(problems)


@dataclass(frozen=True, kw_only=True)
class Ingested:
    """A store, read."""

    runs: pd.DataFrame
    """The runs table (`analysis.store.runs_table`)."""
    datasets: Mapping[str, Dataset]
    """Those that are known: the paper's, and after them what the store defines."""
    problems: tuple[Problem, ...]
    """Everything that is wrong, by path; kinds in `scan.HARMLESS` cost no run that is there."""
    complete: int
    """Cells with all of the paper's 30 runs."""
    incomplete: int
    """Cells that lack some."""
    unsealed: int
    """Runs of the table without a manifest, as all of the release: nothing would show a change of their scores."""

    @property
    def status(self) -> int:
        """0 when every run that is there is in the table, else 1."""
        return int(any(not problem.harmless for problem in self.problems))


def ingest(
    store: Path,
    out: Path,
    *,
    instances: Path | None = None,
    add_models: Sequence[str] = (),
    strict: bool = False,
    jobs: int | None = None,
    protocol: str = PAPER,
) -> Ingested:
    """Read a run store into the runs table `out`, and its per-instance scores into the folder `instances`.

    Args:
        store: a store in the release's layout, or its `results` folder.
        out: the runs table, Parquet or CSV by its ending.
        instances: folder for the per-instance scores (`analysis.store.instances`); None: not written.
        add_models: names or shell patterns of models outside the released naming scheme.
        strict: write nothing unless every cell is complete and nothing is wrong.
        jobs: processes; None: one a core, at most four.
        protocol: `paper` takes the scores of results.json, `standard` the headline metrics of run.json, any other
            word the metric of that name there.

    Returns:
        The table and what is wrong with the store.

    Raises:
        UserError: no store there, or no place for the output.
        RefusedStoreError: no usable run, or `strict` and something is wrong.
    """
    if out.is_dir():
        raise UserError(f"{out} is a folder; --out must be a file such as {out / 'runs.parquet'}")
    if protocol != PAPER and instances is not None:
        raise UserError(
            f"{instances}: per-instance scores exist only for the paper's protocol; leave --instances out "
            f"with --protocol {protocol}"
        )
    with _reading(store, instances, add_models, protocol, jobs=jobs, strict=strict) as ingested:
        # Before the instances take their place: a table that cannot be written leaves the old ones.
        write_runs(
            out, ingested.runs, protocol=protocol, datasets=ingested.datasets, unsealed=ingested.unsealed
        )
    return ingested


def open_store(
    store: Path,
    *,
    instances: bool = False,
    add_models: Sequence[str] = (),
    protocol: str = PAPER,
    models: Collection[str] | None = None,
    verified: bool = False,
) -> tuple[Ingested, Path | None]:
    """Return a run store, read, and if wanted the folder of its per-instance scores, which is in the cache.

    Args:
        store: as `ingest` takes it.
        instances: whether the per-instance scores are wanted.
        add_models: names or shell patterns of models outside the released naming scheme.
        protocol: which scores (`ingest`).
        models: only these; None: all.
        verified: whether it is known by other means that the files are the authors'.

    Raises:
        UserError: no store, no usable run in it, runs that are not what they say they are, or a cache that cannot be
            written.
    """
    with contextlib.ExitStack() as stack:
        target = None
        if instances:
            what = "\0".join([str(store.resolve()), *sorted(add_models), *sorted(models or ())])
            key = hashlib.sha256(what.encode(errors="surrogateescape")).hexdigest()[:16]
            folder = cache_folder() / "stores" / f"{store.resolve().name}-{key}"
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise UserError(
                    f"{folder}: cannot write to the cache ({error.strerror}); set CLM_OR_MLM_CACHE to a writable folder"
                ) from None
            target = folder / "instances.parquet"
            stack.enter_context(
                wait_for_lock(folder / "lock", f"another process is reading {store}; waiting for it")
            )
        ingested = stack.enter_context(_reading(store, target, add_models, protocol, models))
    names = f"`clm-or-mlm ingest {shlex.quote(str(store))} --out runs.parquet` lists them"
    doubtful = [problem for problem in ingested.problems if problem.kind in DOUBTFUL]
    if doubtful and not verified:
        raise UserError(
            f"{store}: some runs do not match their own records ({summary(doubtful)}); the first is {doubtful[0]}; "
            f"{names} and uses the rest"
        )
    if ingested.status:
        logger.warning("%s: %s; %s", store, summary(ingested.problems), names)
    return ingested, target


@contextlib.contextmanager
def _reading(
    store: Path,
    instances: Path | None,
    add_models: Sequence[str],
    protocol: str,
    models: Collection[str] | None = None,
    *,
    jobs: int | None = None,
    strict: bool = False,
) -> Iterator[Ingested]:
    """Yield a store, read; afterwards the folder `instances` is there."""
    datasets = known_datasets(stored_definitions(store.parent if store.name == "results" else store))
    scan = scan_store(store, add_models, datasets=datasets, models=models)
    with contextlib.ExitStack() as stack:
        folder, hashes = None, dict[str, str]()
        if instances is not None and scan.cells:
            folder, hashes = stack.enter_context(instances_folder(instances))
        results = sorted(_read_cells(scan, folder, jobs, protocol), key=lambda result: result.cell.name)
        for result in results:
            if result.instances is not None:
                hashes[instances_name(result.cell.model, result.cell.dataset.name)] = result.instances
        ingested = _assemble(datasets, scan, results)
        _refuse(store, scan, ingested, strict)
        yield ingested


def _read_cells(scan: Scan, instances: Path | None, jobs: int | None, protocol: str) -> Iterator[CellResult]:
    results, cells = scan.results, scan.cells
    few = sum(len(cell.runs) for cell in cells) < _FEW
    jobs = min(jobs or (1 if few else min(4, cores())), len(cells))
    if jobs < 2:
        here = (read_cell(results, cell, instances, protocol) for cell in cells)
        yield from progress(here, "reading", len(cells), "cell")
        return
    killed = (
        f"{results}: a reading process was killed, probably for lack of memory; rerun the command, on one "
        "core (taskset -c 0) to need the least memory"
    )
    with worker_pool(jobs, killed=killed) as pool:
        futures = [pool.submit(read_cell, results, cell, instances, protocol) for cell in cells]
        finished = (future.result() for future in concurrent.futures.as_completed(futures))
        yield from progress(finished, "reading", len(cells), "cell")


def _assemble(datasets: Mapping[str, Dataset], scan: Scan, results: Sequence[CellResult]) -> Ingested:
    """Return the table of the runs whose number of instances is that of most runs of their dataset."""
    problems = [replace(p, path=f"{scan.results}/{p.path}") for result in results for p in result.problems]
    sizes = Counter(
        (result.cell.dataset.name, run.n_validation, run.n_test) for result in results for run in result.runs
    )
    # Of equally frequent sizes the largest; the last entry counts.
    usual = {name: counts for name, *counts in sorted(sizes, key=lambda one: (sizes[one], one))}
    rows: list[dict[str, object]] = []
    complete = unsealed = 0
    copied = copies(results)
    for result in results:
        cell, present = result.cell, set()
        name, (validation, test) = cell.dataset.name, usual.get(cell.dataset.name, (0, 0))
        for run in result.runs:
            below, kind = f"{cell.name}/{run.folder}", "copied"
            if below in copied:
                sentence = (
                    f"has the scores of {copied[below]} on every instance, so one of them is a copy, or both are the "
                    "same model with the same seed; both are left out until one is removed"
                )
            elif (run.n_validation, run.n_test) != (validation, test):
                kind = "count"
                sentence = (
                    f"has {run.n_validation:,} validation and {run.n_test:,} test instances where most runs of {name} "
                    f"have {validation:,} and {test:,}; the run is left out"
                )
            else:
                present.add((run.lr, run.seed))
                unsealed += not run.sealed
                rows.append({"model": cell.model, "task": cell.dataset.task, "dataset": name} | vars(run))
                continue
            problems.append(Problem(path=f"{scan.results}/{below}", kind=kind, sentence=sentence))
        lacking = [f"lr{format_lr(lr)}_sd{seed}" for lr, seed in _GRID if (lr, seed) not in present]
        complete += not lacking
        if lacking:
            names = ", ".join(lacking[:6]) + (f" and {len(lacking) - 6} more" if len(lacking) > 6 else "")
            sentence = f"lacks {len(lacking)} of the {len(_GRID)} runs of the paper's grid: {names}"
            problems.append(Problem(path=f"{scan.results}/{cell.name}", kind="missing", sentence=sentence))
    frame = pd.DataFrame(rows, columns=list(COLUMNS)).astype({"n_validation": "Int64", "n_test": "Int64"})
    return Ingested(
        runs=sort_runs(frame),
        datasets=datasets,
        problems=tuple(sorted([*scan.problems, *problems])),
        complete=complete,
        incomplete=len(results) - complete,
        unsealed=unsealed,
    )


def _refuse(store: Path, scan: Scan, ingested: Ingested, strict: bool) -> None:
    wrong = [problem for problem in ingested.problems if problem.kind != "left out"]
    if strict and wrong:
        raise RefusedStoreError(
            f"{store} has {counted(len(wrong), 'problem')}, but --strict allows none", wrong
        )
    if len(ingested.runs) == 0:
        wrong = [problem for problem in ingested.problems if problem.kind != "missing"] or wrong
        worst = min(wrong, key=lambda problem: problem.harmless, default=None)
        where = f"{scan.results}/<model>/<task>/<dataset>/lr1e-04_sd0/results.json"
        count = f"{len(wrong):,} problem{'s' if len(wrong) > 1 else ''}"
        first = f" ({count}, the first: {worst})" if wrong else ""
        raise RefusedStoreError(
            f"{store}: no usable run found{first}; a run is a file such as {where}", ingested.problems
        )
