"""From a run store to a runs table.

On the way a run is a `scan.RunFiles`, then a `cell.Run`, then a row of the table. Cells are read in parallel; the
result does not depend on their order, the number of jobs, or what an earlier ingest had read. Files that cannot be
used are reported with path and reason, and the other runs are used.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import hashlib
import logging
import shlex
import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from analysis.store.cell import CellResult, read_cell
from analysis.store.instances import cell_path, check_folder, open_folder, prune
from analysis.store.problems import Problem, summary
from analysis.store.runs_table import COLUMNS, refuse_csv, sort_runs, write_runs
from analysis.store.scan import Cell, Scan, scan_store
from analysis.store.state import State, state_path
from benchmarks.protocol import LEARNING_RATES, PAPER, SEEDS, format_lr
from common.crates import check_crate
from common.errors import UserError
from common.files import cache_folder
from common.locks import wait_for_lock
from common.processes import cores, worker_pool
from common.progress import progress

__all__ = ["Ingested", "RefusedStoreError", "default_jobs", "ingest", "open_store"]

logger = logging.getLogger(__name__)

_GRID = [(lr, seed) for lr in LEARNING_RATES for seed in SEEDS]
_POOL_BYTES = 50_000_000
"""Stores smaller than this are read in this process: new ones would cost more than they bring."""
_SAVE_EVERY = 5.0
"""Seconds between saves of the state while reading: what a killed ingest loses at most."""


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
    problems: tuple[Problem, ...]
    """Everything that is wrong, by path; kinds in `problems.HARMLESS` cost no run that is there."""
    complete: int
    """Cells with all of the paper's 30 runs."""
    incomplete: int
    """Cells that lack some."""
    cells_read: int
    """Cells whose files were read; the others had not changed since the last time."""

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
        out: the runs table, Parquet or CSV by its ending; `<out>.ingest.json` next to it remembers what was read.
        instances: folder for the per-instance scores (`analysis.store.instances`); None: not written.
        add_models: names or shell patterns of models outside the released naming scheme.
        strict: write nothing unless every cell is complete and nothing is wrong.
        jobs: processes; None: one a core, at most four.
        protocol: `paper` takes the scores of results.json, `standard` the headline metrics of run.json.

    Returns:
        The table and what is wrong with the store.

    Raises:
        UserError: no store there, no place for the output, or an RO-Crate whose files are not what it says.
        RefusedStoreError: no usable run, or `strict` and something is wrong.
    """
    if count := check_crate(store, "results/"):
        logger.info("%s is an RO-Crate, and its %s result files are what it says", store, f"{count:,}")
    scan = scan_store(store, add_models)
    _check_outputs(out, instances, scan, protocol)
    state = State(state_path(out), scan.results, instances, protocol)
    results = {cell.name: known for cell in scan.cells if (known := state.known(cell)) is not None}
    unread = [cell for cell in scan.cells if cell.name not in results]
    with _folder_to_fill(instances, scan, strict) as folder:
        fresh = _read_cells(scan.results, unread, folder, jobs or default_jobs(), protocol)
        for result in fresh if strict else _remembered(fresh, state):
            results[result.name] = result
        ingested = _assemble(scan, [results[cell.name] for cell in scan.cells], len(unread))
        if (refusal := _refusal(store, scan, ingested, strict)) is not None:
            raise refusal
        if strict and folder is not None and instances is not None:
            open_folder(instances)
            _move(folder, instances)
    if strict:
        for cell in unread:
            state.add(results[cell.name])
    state.save({cell.name for cell in scan.cells})
    if instances is not None:
        prune(
            instances, {cell_path(instances, c.model, c.dataset) for c in scan.cells if results[c.name].runs}
        )
    write_runs(out, ingested.runs, add_models=scan.added_models, protocol=protocol)
    return ingested


def open_store(
    store: Path, *, instances: bool = False, add_models: Sequence[str] = (), protocol: str = PAPER
) -> tuple[pd.DataFrame, Path | None]:
    """Return a run store's runs table and, if wanted, the folder of its per-instance scores.

    The store is read as `ingest` does, into the cache: unchanged files are not read again the next time.
    `add_models` are names or shell patterns of models outside the released naming scheme, `protocol` chooses the
    scores (`ingest`).

    Raises:
        UserError: no store, no usable run in it, or a cache that cannot be written.
    """
    what = [str(store.resolve()), *sorted(add_models), *([protocol] if protocol != PAPER else [])]
    key = hashlib.sha256("\0".join(what).encode(errors="surrogateescape")).hexdigest()[:16]
    folder = cache_folder() / "stores" / f"{store.resolve().name}-{key}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"{folder}: the cache cannot be written ({error.strerror}); set CLM_OR_MLM_CACHE to a folder that can"
        ) from None
    target = folder / "instances.parquet" if instances else None
    with wait_for_lock(folder / "lock", f"another process reads {store}; waiting for it"):
        ingested = ingest(
            store, folder / "runs.parquet", instances=target, add_models=add_models, protocol=protocol
        )
    if ingested.status:
        logger.warning(
            "%s: %s; `python -m analysis ingest %s --out runs.parquet` names them",
            store, summary(ingested.problems), shlex.quote(str(store)),
        )  # fmt: skip
    return ingested.runs, target


def _check_outputs(out: Path, instances: Path | None, scan: Scan, protocol: str) -> None:
    """Refuse, before anything is read, what cannot be written there."""
    if out.is_dir():
        raise UserError(f"{out}: is a folder; --out names a file such as {out / 'runs.parquet'}")
    if protocol != PAPER and instances is not None:
        raise UserError(
            f"{instances}: per-instance scores are those of the paper's protocol; leave --instances away "
            f"with --protocol {protocol}"
        )
    refuse_csv(
        out, added=scan.added_models, protocol=protocol, datasets={cell.dataset for cell in scan.cells}
    )
    if instances is not None:
        check_folder(instances)


@contextlib.contextmanager
def _folder_to_fill(instances: Path | None, scan: Scan, strict: bool) -> Iterator[Path | None]:
    """Yield the folder that the reading writes instances to: with `strict` one next to it, removed in the end.

    So nothing is written to `instances` before everything is known to be right.
    """
    if instances is None:
        yield None
    elif not strict:
        if scan.cells:
            open_folder(instances)
        yield instances
    else:
        staging = instances.with_name(f".{instances.name}.staging")
        shutil.rmtree(staging, ignore_errors=True)
        try:
            yield staging
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def _remembered(fresh: Iterable[CellResult], state: State) -> Iterator[CellResult]:
    """Yield what is read, and keep it in `state`, which is saved now and then and whatever happens."""
    saved = time.monotonic()
    try:
        for result in fresh:
            state.add(result)
            if time.monotonic() - saved > _SAVE_EVERY:
                state.save()
                saved = time.monotonic()
            yield result
    finally:
        state.save()


def default_jobs() -> int:
    """Return the default number of processes: one a usable core, at most four."""
    return min(4, cores())


def _read_cells(
    results: Path, cells: Sequence[Cell], instances: Path | None, jobs: int, protocol: str
) -> Iterator[CellResult]:
    size = sum(files.results.size for cell in cells for files in cell.runs)
    if jobs == 1 or len(cells) < 2 or size < _POOL_BYTES:
        here = (read_cell(results, cell, instances, protocol) for cell in cells)
        yield from progress(here, "reading", len(cells), "cell")
        return
    killed = (
        f"{results}: a reading process was killed, probably for lack of memory; "
        "the same command resumes from there, with --jobs 1 in the least memory"
    )
    with worker_pool(min(jobs, len(cells)), killed=killed) as pool:
        futures = [pool.submit(read_cell, results, cell, instances, protocol) for cell in cells]
        finished = (future.result() for future in concurrent.futures.as_completed(futures))
        yield from progress(finished, "reading", len(cells), "cell")


def _assemble(scan: Scan, results: Sequence[CellResult], cells_read: int) -> Ingested:
    problems = [replace(p, path=f"{scan.results}/{p.path}") for result in results for p in result.problems]
    usual = _usual_counts(results)
    rows: list[dict[str, object]] = []
    complete = 0
    for result in results:
        model, task, dataset = result.name.split("/")
        present = set()
        for run in result.runs:
            if run.counts != usual[dataset]:
                sentence = (
                    f"has {run.n_validation:,} validation and {run.n_test:,} test instances where most runs of "
                    f"{dataset} have {usual[dataset][0]:,} and {usual[dataset][1]:,}; the run is left out"
                )
                path = f"{scan.results}/{result.name}/{run.folder}"
                problems.append(Problem(path=path, kind="count", sentence=sentence))
                continue
            present.add((run.lr, run.seed))
            rows.append({"model": model, "task": task, "dataset": dataset} | vars(run))
        lacking = [f"lr{format_lr(lr)}_sd{seed}" for lr, seed in _GRID if (lr, seed) not in present]
        complete += not lacking
        if lacking:
            names = ", ".join(lacking[:6]) + (f" and {len(lacking) - 6} more" if len(lacking) > 6 else "")
            sentence = f"has {len(_GRID) - len(lacking)} of its {len(_GRID)} runs; it lacks {names}"
            problems.append(Problem(path=f"{scan.results}/{result.name}", kind="missing", sentence=sentence))
    frame = pd.DataFrame(rows, columns=list(COLUMNS)).astype({"n_validation": "Int64", "n_test": "Int64"})
    return Ingested(
        runs=sort_runs(frame),
        problems=tuple(sorted([*scan.problems, *problems])),
        complete=complete,
        incomplete=len(results) - complete,
        cells_read=cells_read,
    )


def _usual_counts(results: Sequence[CellResult]) -> dict[str, tuple[int, int]]:
    """Return each dataset's most frequent (n_validation, n_test); of equally frequent ones the largest."""
    counts: defaultdict[str, Counter[tuple[int, int]]] = defaultdict(Counter)
    for result in results:
        counts[result.name.rsplit("/", 1)[1]].update(run.counts for run in result.runs)
    return {
        name: max(of_dataset, key=lambda pair: (of_dataset[pair], pair))
        for name, of_dataset in counts.items()
        if of_dataset
    }


def _move(staging: Path, instances: Path) -> None:
    """Move all cells' instances; their sizes and modification times stay."""
    for source in staging.glob("*/*.parquet"):
        target = instances / source.relative_to(staging)
        target.parent.mkdir(exist_ok=True)
        source.replace(target)


def _refusal(store: Path, scan: Scan, ingested: Ingested, strict: bool) -> RefusedStoreError | None:
    wrong = [problem for problem in ingested.problems if problem.kind != "left out"]
    if strict and wrong:
        things = "thing is" if len(wrong) == 1 else "things are"
        return RefusedStoreError(
            f"{store}: {len(wrong)} {things} not as they should be, and --strict refuses that", wrong
        )
    if len(ingested.runs) == 0:
        where = f"{scan.results}/<model>/<task>/<dataset>/lr1e-04_sd0/results.json"
        first = f" ({len(wrong):,} problems, the first: {wrong[0]})" if wrong else ""
        return RefusedStoreError(
            f"{store}: no usable run found; runs are in {where}{first}", ingested.problems
        )
    return None
