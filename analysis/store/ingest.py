"""From a run store to a runs table.

On the way a run is a `benchmarks.runs.RunKey`, then a `cell.Run`, then a row of the table. A cell is all runs of one
model on one dataset. Cells are read in parallel; the result does not depend on the number of jobs. Files that cannot be
used are reported with path and reason, and the other runs are used.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import math
import os
import shlex
import shutil
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pandas as pd

from analysis.store.agreement import differences, is_made_alike, other_weights
from analysis.store.cell import Run, read_cell
from analysis.store.instances import instances_folder, instances_name
from analysis.store.runs_table import COLUMNS, RunsTable, sort_runs, write_runs
from analysis.store.scan import DOUBTFUL, Problem, Scan, scan_store, summary
from benchmarks.own_datasets.definitions import known_datasets, stored_definitions
from benchmarks.protocol import LEARNING_RATES, PAPER, SEEDS, Dataset, format_lr
from benchmarks.runs import store_of
from common.errors import UserError
from common.files import cache_folder, mark_cache, private_folder
from common.locks import wait_for_lease
from common.plain_text import counted, first_of
from common.processes import cores, worker_pool
from common.progress import progress

logger = logging.getLogger(__name__)

_GRID = [(lr, seed) for lr in LEARNING_RATES for seed in SEEDS]
"""The paper's runs of a cell, by learning rate and seed."""
_KEPT = 8
"""Stores whose per-instance scores stay in the cache."""
_DAY = 24 * 3600.0
"""Seconds for which a store's scores stay in the cache after they were opened: a process may still read them."""
_FEW = 400
"""Stores with fewer runs are read in this process: new processes would cost more time than they save."""
_ENOUGH = 100
"""Equal scores are a copy only if at least so many instances are right, and as many wrong: even of two runs that share
each mistake with a chance of four in five, 100 mistakes are all the same with a chance of 2e-10."""
_BLIND = {"sst2": 0.56, "mnli_m": 0.36, "qqp": 0.64, "squad_v2": 0.52}
"""By dataset, the most that one prediction for all inputs scores: the share of the largest class, or in SQuAD v2 of the
questions without an answer, in either split."""
_BLIND_IN = {"SC": 0.75, "TC": 0.8, "QA": 0.1, "IR": 0.1}
"""By task, the same for other datasets, on the high side. In TC the prediction is that all words are tagged O: it
scores 1 on a sentence without an entity, and less on the others."""


class RefusedStoreError(UserError):
    """No table was written; `problems` says why, one by one."""

    def __init__(self, sentence: str, problems: Sequence[Problem]) -> None:
        super().__init__(sentence)
        self.problems = tuple(problems)


@dataclass(frozen=True, kw_only=True)
class StoreTable(RunsTable):
    """The runs table of a store, and what is wrong with the store.

    `unsealed` is the number of its runs without a manifest, which are all of the release.
    """

    problems: tuple[Problem, ...]
    """Everything that is wrong, by path; those of a kind in `scan.HARMLESS` leave no run out that is there."""
    complete: int
    """Cells with all of the paper's 30 runs."""
    incomplete: int
    """Cells that lack some."""

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
    jobs: int | None = None,
    protocol: str = PAPER,
) -> StoreTable:
    """Read a run store into the runs table `out`, and its per-instance scores into the folder `instances`.

    A process holds the scores by instance of one cell at a time. Of every run 2 KB are kept, so of a million 2 GB.

    Args:
        store: a store in the release's layout, or its `results` folder.
        out: the runs table, Parquet or CSV by its ending.
        instances: folder for the per-instance scores (`analysis.store.instances`); None: not written.
        add_models: names or shell patterns of models outside the released naming scheme.
        jobs: processes; None: one a core, at most four.
        protocol: `paper` takes the scores of results.json, `standard` the headline metrics of run.json, any other
            word the metric of that name there.

    Returns:
        The table and what is wrong with the store.

    Raises:
        UserError: no store there, or no place for the output.
        RefusedStoreError: no usable run.
    """
    if out.is_dir():
        raise UserError(
            f"{out} is a folder; --out must be a file such as {out / 'runs.parquet'}"
        )

    if protocol != PAPER and instances is not None:
        raise UserError(
            f"{instances}: per-instance scores exist only for the paper's protocol; leave --instances out "
            f"with --protocol {protocol}"
        )

    with _reading(store, instances, add_models, protocol, jobs=jobs) as read:
        # Written inside the block, since the new instances replace the old ones at its end: if the table cannot be
        # written, the old instances stay.
        write_runs(
            out,
            read.runs,
            protocol=protocol,
            datasets=read.datasets,
            unsealed=read.unsealed,
            differences=read.differences,
        )

    return read


def open_store(
    store: Path,
    *,
    instances: bool = False,
    add_models: Sequence[str] = (),
    protocol: str = PAPER,
    models: Collection[str] | None = None,
    verified: bool = False,
) -> tuple[StoreTable, Path | None]:
    """Read a run store; return its table and, if wanted, the folder of its per-instance scores, which is in the cache.

    Args:
        store: as `ingest` takes it.
        instances: whether the per-instance scores are wanted; without them, None is returned for their folder.
        add_models: names or shell patterns of models outside the released naming scheme.
        protocol: which scores (`ingest`).
        models: only these; None: all.
        verified: whether it is known by other means that the files are the authors', so that none is doubted.

    Raises:
        UserError: no store, no usable run in it, runs that are not what they say they are, or a cache that cannot be
            written.
    """
    with contextlib.ExitStack() as stack:
        target = None
        if instances:
            folder = _make_cached_folder(store, add_models, models or ())
            target = folder / "instances.parquet"  # a folder of Parquet files
            # Held until the scores are in `target`, so that no two processes write it at once.
            stack.enter_context(
                wait_for_lease(
                    folder / "lock",
                    f"another process is reading {store}; waiting for it",
                )
            )

        # `_reading` moves the scores by instance into `target` when the stack is left, not before.
        read = stack.enter_context(
            _reading(store, target, add_models, protocol, models)
        )

    hint = (
        f"`clm-or-mlm ingest {shlex.quote(str(store))} --out runs.parquet` lists them"
    )
    doubtful = [problem for problem in read.problems if problem.kind in DOUBTFUL]
    if doubtful and not verified:
        raise UserError(
            f"{store}: some runs do not match their own records ({summary(doubtful)}); the first is {doubtful[0]}; "
            f"{hint} and uses the rest"
        )

    # 0 where every run that is there is in the table, else 1.
    if read.status:
        logger.warning("%s: %s; %s", store, summary(read.problems), hint)
    return read, target


def _make_cached_folder(
    store: Path, add_models: Iterable[str], models: Iterable[str]
) -> Path:
    """Make a folder in the cache for the per-instance scores of a store's models, remove old ones, and return it.

    Its name is a hash of what decides which scores are in it.
    """
    # The user as well: users may share the cache, but not what one of them wrote into it.
    place, user = str(store.resolve()), str(os.getuid())
    identity = "\0".join([place, user, *sorted(add_models), *sorted(models)])
    # A path may have bytes that are no UTF-8, which Python keeps as surrogates.
    key = hashlib.sha256(identity.encode(errors="surrogateescape")).hexdigest()[:16]
    folder = cache_folder() / "stores" / f"{store.resolve().name}-{key}"
    try:
        mark_cache(cache_folder())  # backups leave a marked folder out
        private_folder(folder)
    except OSError as error:
        raise UserError(
            f"{folder}: cannot write to the cache ({error.strerror}); set CLM_OR_MLM_CACHE to a writable folder"
        ) from None

    _keep_few(folder)
    return folder


def _keep_few(opened: Path) -> None:
    """Note that a store's folder in the cache is used now; remove all but the `_KEPT` that were used last.

    A folder's time of change is when it was used last. Folders of the last day stay in any case.
    """
    os.utime(opened)
    with contextlib.suppress(FileNotFoundError):  # another process removed a folder
        now = time.time()
        folders = opened.parent.iterdir()
        # In ascending order, so that the folders that were used last come first.
        ages = sorted((now - folder.stat().st_mtime, folder) for folder in folders)
        for age, folder in ages[_KEPT:]:
            if age > _DAY:
                shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _reading(
    store: Path,
    instances: Path | None,
    add_models: Sequence[str],
    protocol: str,
    models: Collection[str] | None = None,
    *,
    jobs: int | None = None,
) -> Iterator[StoreTable]:
    """Read a store and yield its table; `instances`, where it is given, is the folder for the per-instance scores.

    They are written to a temporary folder, which takes the place of `instances` when the caller's block ends.
    """
    # The definitions are in the store itself; `store` may also be its `results` folder.
    datasets = known_datasets(stored_definitions(store_of(store)))
    scan = scan_store(store, add_models, datasets=datasets, models=models)
    with contextlib.ExitStack() as stack:
        folder = None
        hashes: dict[str, str] = {}
        # Without a cell there is nothing to write, and the store is refused below.
        if instances is not None and scan.cells:
            folder, hashes = stack.enter_context(instances_folder(instances))
        runs: list[Run] = []
        problems = list(scan.problems)
        cells_read = _read_cells(scan, folder, jobs, protocol)
        for cell, content in zip(scan.cells, cells_read, strict=True):
            cell_runs, cell_problems, sha256 = content
            runs += cell_runs
            for problem in cell_problems:
                path = f"{scan.results}/{problem.path}"
                problems.append(replace(problem, path=path))
            if sha256:  # for the manifest of the folder
                hashes[instances_name(cell.model, cell.dataset.name)] = sha256

        table = _table(scan, runs, problems, datasets, protocol)
        if len(table.runs) == 0:
            raise _nothing_usable(store, scan, table.problems)
        yield table


def _read_cells(
    scan: Scan, instances: Path | None, jobs: int | None, protocol: str
) -> Iterator[tuple[list[Run], list[Problem], str]]:
    """Yield what `read_cell` returns of each cell, in the order of the cells; `jobs`: processes, as of `ingest`."""
    cells = scan.cells
    if not jobs:
        n_runs = sum(len(cell.runs) for cell in cells)
        jobs = 1 if n_runs < _FEW else min(4, cores())

    jobs = min(jobs, len(cells))
    read = partial(read_cell, scan.results, instances=instances, protocol=protocol)
    if jobs < 2:
        yield from progress(map(read, cells), "reading", len(cells), "cell")
        return

    killed = (
        f"{scan.results}: a reading process was killed, probably for lack of memory; rerun the command, on one "
        "core (taskset -c 0) to need the least memory"
    )
    with worker_pool(jobs, killed=killed) as pool:
        yield from progress(pool.map(read, cells), "reading", len(cells), "cell")


def _table(
    scan: Scan,
    runs: Sequence[Run],
    problems: list[Problem],
    datasets: Mapping[str, Dataset],
    protocol: str,
) -> StoreTable:
    """Return the table of a store's usable runs, and its problems.

    Args:
        scan: the store's cells.
        runs: the runs that could be read. Left out are copies, runs made from other weights than most of their model's,
            and runs with other numbers of instances than most of their dataset's.
        problems: what was found wrong before.
        datasets: the known datasets, by name.
        protocol: the protocol by which the runs were read.
    """
    # What may be wrong with a run beside the others.
    usual = _usual_sizes(runs)
    copy_of = copies(runs)
    faults_of_weights = other_weights(runs)

    # Each run is used, or left out with a problem.
    used: list[Run] = []
    # By cell, learning rate and seed of the runs that are used; a cell without any has an empty set.
    present: dict[str, set[tuple[float, int]]] = {}
    for cell in scan.cells:
        present[cell.name] = set()
    for run in runs:
        validation, test = usual[run.dataset]
        if run.path in copy_of:
            kind = "copied"
            sentence = (
                f"has the scores of {copy_of[run.path]} on every instance, so one of them is a copy; both are left "
                f"out until the folder of one is removed"
            )
        elif run.path in faults_of_weights:
            kind, sentence = "weights", faults_of_weights[run.path]
        elif (run.n_validation, run.n_test) != (validation, test):
            # The mean of such a run is over other instances than the means that it would be compared with.
            kind = "count"
            sentence = (
                f"has {run.n_validation:,} validation and {run.n_test:,} test instances where most runs of "
                f"{run.dataset} have {validation:,} and {test:,}; the run is left out"
            )
        else:
            used.append(run)
            # The path is `model/task/dataset/run`; without the run it is the name of the cell.
            cell_name, _, _ = run.path.rpartition("/")
            present[cell_name].add((run.lr, run.seed))
            continue

        path = f"{scan.results}/{run.path}"
        problems.append(Problem(path=path, kind=kind, sentence=sentence))

    # One problem for each cell that lacks runs of the grid: as many as there are incomplete cells.
    gaps = _missing_of_grid(scan, present)
    # The table.
    columns = {name: [getattr(run, name) for run in used] for name in COLUMNS}
    kinds = {"n_validation": "Int64", "n_test": "Int64"}
    frame = pd.DataFrame(columns).astype(kinds)
    unsealed = sum(not run.sealed for run in used)
    return StoreTable(
        runs=sort_runs(frame),
        protocol=protocol,
        datasets=datasets,
        unsealed=unsealed,
        differences=differences(used),
        problems=tuple(sorted([*problems, *gaps])),
        complete=len(present) - len(gaps),
        incomplete=len(gaps),
    )


def _usual_sizes(runs: Sequence[Run]) -> dict[str, tuple[int, int]]:
    """Return by dataset how many validation and test instances most of its runs have."""
    counts = Counter((run.dataset, run.n_validation, run.n_test) for run in runs)
    usual = {}
    # From the rarest to the most frequent, and of equally frequent ones from the smallest to the largest: each replaces
    # the one before.
    for size in sorted(counts, key=lambda size: (counts[size], size)):
        dataset, validation, test = size
        usual[dataset] = (validation, test)
    return usual


def _missing_of_grid(
    scan: Scan, present: Mapping[str, set[tuple[float, int]]]
) -> list[Problem]:
    """Return a problem for each cell that lacks runs of the paper's grid.

    Args:
        scan: the store.
        present: by cell, the learning rates and seeds that it has.
    """
    gaps = []
    for name, rates_and_seeds in present.items():
        absent = [run for run in _GRID if run not in rates_and_seeds]
        if absent:
            lacking = [f"lr{format_lr(lr)}_sd{seed}" for lr, seed in absent]
            sentence = f"lacks {len(lacking)} of the {len(_GRID)} runs of the paper's grid: {first_of(lacking, 6)}"
            path = f"{scan.results}/{name}"
            gaps.append(Problem(path=path, kind="missing", sentence=sentence))
    return gaps


def _nothing_usable(
    store: Path, scan: Scan, problems: Sequence[Problem]
) -> RefusedStoreError:
    """Return the error for a store without a usable run; it names a problem, if possible one that left a run out."""
    # That a cell lacks runs follows from other problems, which are named first. Where nothing else is wrong, it is
    # named itself.
    wrong = [problem for problem in problems if problem.kind != "missing"]
    wrong = wrong or list(problems)
    where = f"{scan.results}/<model>/<task>/<dataset>/lr1e-04_sd0/results.json"
    first = ""
    if wrong:
        # The first that is not harmless, if any: False is less than True.
        worst = min(wrong, key=lambda problem: problem.harmless)
        first = f" ({counted(len(wrong), 'problem')}, the first: {worst})"

    return RefusedStoreError(
        f"{store}: no usable run found{first}; a run is a file such as {where}",
        problems,
    )


def copies(runs: Iterable[Run]) -> dict[str, str]:
    """Return runs that have the results of another run, each with that run; both by their folders below `results`.

    Two fine-tunings never make the same mistakes on hundreds of instances, unless neither looks at its input: a
    collapsed run predicts one class, no entity or no answer for all, whatever its model and seed. In the release that
    is so for the first checkpoints of Table 8 on SQuAD, SQuAD v2 and ReCoRD. So equal scores on all instances of a
    split are a copy only where they are better than any prediction that is the same for all inputs, and where enough
    instances are right and enough are wrong. Equal losses and standard metrics (details.json) are a copy whatever the
    scores. A model that was fine-tuned alike under a second name is not a copy (`analysis.store.agreement`).
    """
    # By what two runs have in common if one is a copy: the first run with it.
    first_with: dict[tuple[object, ...], Run] = {}
    copy_of: dict[str, str] = {}
    for run in runs:
        counts = (run.n_validation, run.n_test)
        scores = (run.validation_score, run.test_score)
        keys: list[tuple[object, ...]] = []
        if run.details:
            keys.append((run.dataset, run.details))

        # A mark is the checksum of a run's scores on all instances of a split, first of validation, then of
        # test. By these positions, 0 and 1, `counts` and `scores` have their numbers too.
        for split, mark in enumerate(run.marks):
            n, score = counts[split], scores[split]
            # The rarer outcome counts: of 1,000 instances with 990 right, two runs could differ in few.
            could_differ = n * min(score, 1 - score) >= _ENOUGH
            if could_differ and score > blind_score(run.task, run.dataset, n):
                # With the number of instances and the mean score: a checksum of 32 bits may agree by chance.
                keys.append((run.dataset, split, n, score, mark))

        for key in keys:
            first = first_with.setdefault(key, run)
            if first is run or is_made_alike(first, run):
                continue
            # Both are noted, since nobody knows which of the two is the copy.
            copy_of.setdefault(run.path, first.path)
            copy_of.setdefault(first.path, run.path)

    return copy_of


def blind_score(task: str, dataset: str, count: int) -> float:
    """Return the most that a prediction which is the same for all of `count` inputs scores, on the high side.

    It is the share that `_BLIND` or `_BLIND_IN` has, and four standard deviations of a share in a sample of this size.
    """
    # The standard deviation of a share is at most 0.5 / sqrt(count).
    return _BLIND.get(dataset, _BLIND_IN[task]) + 2 / math.sqrt(count)
