"""The queue of fine-tunings: a process that is free takes the next one by locking a file.

Any number of processes share a store, those of one call as well as those of other calls and nodes. Each goes through
the fine-tunings that are not done, claims one that no other process has claimed, and looks once more whether it is
still to be done. A claim ends with its process, however that ends. `run_jobs` decides which runs are left, and which
failed runs are retried. Every process computes with one thread on a CPU, so a run's bytes do not depend on how many
processes there are.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import wait
from multiprocessing.context import BaseContext
from typing import Any

import psutil  # type: ignore[import-untyped]
import torch
from tqdm import tqdm

from benchmarks.finetuning.device import Precision, choose_device, choose_kind
from benchmarks.finetuning.encoders import LoadedModel
from benchmarks.finetuning.heads import POOLINGS
from benchmarks.finetuning.trainer import Watch
from benchmarks.metrics.floor import with_floor
from benchmarks.own_datasets.definitions import store_definitions
from benchmarks.runs import RunKey
from benchmarks.sweep.keep import write_cards
from benchmarks.sweep.preflight import preflight, requested_model, run_bytes
from benchmarks.sweep.request import RunRequest
from benchmarks.sweep.run_jobs import (
    RunJob,
    check_finished,
    compared_jobs,
    forget_failed,
    lost_jobs,
)
from benchmarks.sweep.status import CellStatus, cell_status
from benchmarks.sweep.work import ResettableModel, prepare_runs
from benchmarks.tasks.base import Setting
from common.errors import UserError
from common.locks import try_lease
from common.processes import become_worker, cores
from common.progress import progress

log = logging.getLogger(__name__)


def run_grid(request: RunRequest) -> list[CellStatus]:
    """Do the runs of a request that are not done yet, and return the state of each cell.

    Raises:
        UserError: an unknown name, data or a model that is not there, or a store with runs of something else.
    """
    # What is to be done, noted in the store before anything is computed.
    jobs = compared_jobs(request)
    if request.retry_failed:
        forget_failed(jobs)
    store_definitions(request.store, [request.known[name] for name in request.datasets])
    pairs = set(itertools.product(request.lrs, request.seeds))
    for name in request.datasets:
        request.runs.note(request.name, name, pairs)

    # Model and data are only loaded if a run is left, or if a best run's weights should be kept and are not.
    keeps = request.keep == "best"
    if _left(jobs) or (keeps and lost_jobs(jobs)):
        threads = torch.get_num_threads()
        try:
            if not choose_kind(request.device).gpu:
                # More threads would not survive the forks of workers.
                torch.set_num_threads(1)

            loaded, precision, sets = preflight(request)
            # Stored once more: now the data are read, the definitions have the score of a constant prediction as well.
            store_definitions(request.store, [with_floor(dataset) for dataset in sets])
            if _left(jobs):
                _do_jobs(jobs, request, loaded, precision)
            lost = lost_jobs(jobs) if keeps else []
            if lost:
                _say(
                    f"{request.name}: repeating {_left(lost)} best runs whose weights were not kept"
                )
                _do_jobs(lost, request, loaded, precision)
        finally:
            torch.set_num_threads(threads)

        # Another call with other settings may have begun when no run was there yet, and have done some of these. All
        # jobs have the same descriptions.
        check_finished(request, jobs[0].descriptions)

    if keeps:
        for folder in write_cards(request):
            log.info("the best run's encoder is in %s", folder)

    return [
        cell_status(request.runs, request.name, name, request.lrs, request.seeds)
        for name in request.datasets
    ]


def _do_jobs(
    jobs: Sequence[RunJob],
    request: RunRequest,
    loaded: LoadedModel,
    precision: Precision,
) -> None:
    """Do the remaining fine-tunings of jobs, in this process or side by side in several workers."""
    kind = choose_kind(request.device)
    # Bytes of a run, by which workers on a CPU are counted.
    run_size = 0
    if not kind.gpu:
        positions = request.positions or kind.positions
        run_size = sum(run_bytes(loaded.encoder, precision, positions))

    # No more workers than fine-tunings.
    devices = _devices(request, run_size)[: _left(jobs)]
    # A worker without others is never told to stop.
    if len(devices) == 1:
        _work(jobs, devices, 0, loaded, lambda: False)
        return

    # A fork has the model in its memory, but no access to a GPU that its parent has used. So for GPUs workers start
    # fresh, and each loads the model itself.
    model = None if kind.gpu else loaded
    calls = [
        functools.partial(_work, jobs, devices, worker, model)
        for worker in range(len(devices))
    ]
    side_by_side(calls, fresh=kind.gpu)


def _devices(request: RunRequest, run_size: int) -> list[str]:
    """Return the device of each worker.

    With several workers on GPUs, all GPUs in turn; on a CPU, the CPU for as many workers as were asked for, or as fit.

    Args:
        request: device and number of workers.
        run_size: bytes of memory that a run needs on a CPU.
    """
    kind = choose_kind(request.device)
    if not kind.gpu:
        return [request.device] * (request.workers or _fitting(run_size))
    workers, count = request.workers or 1, torch.cuda.device_count()

    # Without any GPU there is one worker, whose `choose_device` refuses the device.
    if workers == 1 or not count:
        return [request.device]
    if request.device not in ("auto", kind.name):
        raise UserError(
            f"--workers {workers} spreads runs over all GPUs: leave out --device {request.device}"
        )

    return [f"{kind.name}:{worker % count}" for worker in range(workers)]


def _fitting(run_size: int) -> int:
    """Return how many runs of a size in bytes fit side by side: by free memory, and by cores or OMP_NUM_THREADS."""
    threads = os.environ.get("OMP_NUM_THREADS", "")
    usable = int(threads) if threads.isdigit() else cores()
    # Forked workers were tried only on Linux, so elsewhere there is one.
    if usable < 2 or not sys.platform.startswith("linux"):
        return 1
    return max(1, min(usable, int(psutil.virtual_memory().available // run_size)))


def _model(
    request: RunRequest, device: str, loaded: LoadedModel | None
) -> ResettableModel:
    """Return the model on its device, loaded here where `loaded` is None; a worker on a CPU has one thread."""
    chosen = choose_device(
        device,
        request.precision,
        positions=request.positions,
        exact=request.exact_micro_batches,
    )
    if not chosen.kind.gpu:
        torch.set_num_threads(1)

    # The pooling is that of a classifier's head. Retrieval has no head: the pooling of its vectors comes with
    # the way in which its texts are read (`prepare_runs`).
    setting = Setting(
        loaded=loaded or requested_model(request),
        device=chosen,
        fine_tuning=request.fine_tuning,
        pooling=POOLINGS[request.pooling or "mean"],
        head=request.head,
    )
    return ResettableModel(setting)


def _work(
    jobs: Sequence[RunJob],
    devices: Sequence[str],
    worker: int,
    loaded: LoadedModel | None,
    stop: Stop,
) -> None:
    """Do all fine-tunings that no other process is doing.

    Args:
        jobs: all jobs of the request.
        devices: the device of each worker.
        worker: the number of this worker.
        loaded: the model, which a forked worker has from its parent; None: it is loaded here.
        stop: says whether another worker failed.
    """
    alone = len(devices) == 1
    if not alone:
        # Other workers tokenise at the same time, and threads of all would compete for the cores.
        os.environ["TOKENIZERS_PARALLELISM"] = "false"

    model = _model(jobs[0].request, devices[worker], loaded)
    # Each worker begins at another job and goes round from there, so that not all of them prepare the same one.
    first = worker * len(jobs) // len(devices)
    fine_tunings = 0
    seconds = 0.0
    for job in _twice((*jobs[first:], *jobs[:first])):
        prepared = None
        # The runs of one fine-tuning, one for each dataset: they share a learning rate and a seed, so the
        # folder name of the first stands for all.
        for runs in job.fine_tunings:
            if stop():
                return
            if not job.pending(runs):
                continue
            with _claim(job, runs) as is_ours:
                # Asked again: another process may have finished the run between the look and the claim.
                todo = job.pending(runs)
                if not is_ours or not todo:
                    continue

                # A prepared job evaluates only the datasets of its runs; a repeated run may need others.
                if prepared is None or not prepared.runs.issuperset(todo):
                    prepared = prepare_runs(job, model)
                    _say(
                        f"{job}: {prepared.steps:,} steps per fine-tuning, {_left([job])} to do"
                    )

                start = time.perf_counter()
                title = f"{job} {runs[0].folder.name}"
                # Only a worker without others shows a progress bar.
                watch: Watch = iter
                if alone:
                    watch = functools.partial(progress, what=title, unit="step")
                outcome = prepared.run(todo, watch)
                took = time.perf_counter() - start

            fine_tunings += 1
            seconds += took
            left = _left(jobs)
            remaining = duration(seconds / fine_tunings * left / len(devices))
            _say(
                f"{title}: {outcome}; {duration(took)}, {left} left, about {remaining}"
            )


def _twice(jobs: Sequence[RunJob]) -> Iterator[RunJob]:
    """Yield the jobs, and all once more if runs are left.

    Another process may have held a run in the first round and been killed: a second later its claim is gone.
    """
    yield from jobs
    if _left(jobs):
        time.sleep(1)
        yield from jobs


def _left(jobs: Sequence[RunJob]) -> int:
    """Return how many fine-tunings are still to be done: those with a pending run."""
    return sum(bool(job.pending(runs)) for job in jobs for runs in job.fine_tunings)


@contextlib.contextmanager
def _claim(job: RunJob, runs: Sequence[RunKey]) -> Iterator[bool]:
    """Claim a fine-tuning for the time of a `with` block; yield whether this process has it, and not another one."""
    # In the store, `request.runs`, all runs of a fine-tuning have the same file to lock. `holder` is the other
    # process that holds the file, in words; None where this one does.
    path = job.request.runs.claim(runs[0])
    with try_lease(path) as holder:
        if holder is not None:
            log.debug("%s %s: %s is doing it", job, runs[0].folder.name, holder)
        yield holder is None


def duration(seconds: float) -> str:
    """Return a time in seconds, minutes or hours: `12.3 s`, `4 min`, `1.5 h`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


def _say(line: str) -> None:
    """Log a line above the progress bar that may be on the screen."""
    with tqdm.external_write_mode(file=sys.stderr):
        log.info("%s", line)


Stop = Callable[[], bool]
"""Says whether another call failed. Then a call ends its fine-tuning and begins no other."""


def side_by_side(calls: Sequence[Callable[[Stop], None]], *, fresh: bool) -> None:
    """Make calls at once, each in a process that ends with this one.

    Args:
        calls: functions to call, with a `Stop`.
        fresh: start fresh processes instead of forking this one, for GPUs, which a forked process cannot use; calls
            must then be picklable.

    Raises:
        UserError: the first mistake that a call raised, once the others have ended; or a process was killed.
    """
    # A process for each call.
    context: BaseContext = multiprocessing.get_context("spawn" if fresh else "fork")
    stop, errors = context.Event(), context.SimpleQueue()
    # Each kind of context has `Process`; their common base class does not declare it.
    process_of = context.Process  # type: ignore[attr-defined]
    parent = os.getpid()
    processes = [
        process_of(target=_call, args=(call, stop, errors, parent), daemon=True)
        for call in calls
    ]

    # A forked process has a copy of what is not written yet, and would write it a second time.
    sys.stdout.flush()
    sys.stderr.flush()

    # Wait until all have ended; after a failure the others are told to stop.
    try:
        for process in processes:
            process.start()
        # `wait` returns the sentinels, which are handles of the system, of processes that have ended.
        running = {process.sentinel: process for process in processes}
        while running:
            for sentinel in wait(list(running)):
                ended = running.pop(sentinel)
                # A process's sentinel may be ready before its exit code: wait for that.
                ended.join()
                if ended.exitcode:
                    stop.set()
    finally:
        # Alive only if waiting for them was interrupted.
        for process in processes:
            if process.is_alive():
                process.kill()
                process.join()

    # Say what went wrong: what a call raised, or else how its process ended.
    if not errors.empty():
        raise errors.get()
    for process in processes:
        code = process.exitcode
        # Below 0: the number of the signal that killed the process.
        if code is not None and code < 0:
            name = signal.Signals(-code).name
            raise UserError(
                f"a worker was killed by {name}, as happens when memory runs out; "
                "run the same command with fewer --workers to resume"
            )

        if code:
            raise UserError(f"a worker exited with code {code}")


def _call(call: Callable[[Stop], None], stop: Any, errors: Any, parent: int) -> None:
    """Make a call in a worker's process, and put what it raises into the queue `errors`.

    The process ends with its parent. Ctrl-C is left to the parent, which ends its workers.
    """
    become_worker(parent)
    # For a fresh process, which has no log yet. A forked one has its parent's, and this call changes nothing.
    logging.basicConfig(level=logging.INFO, format="%(levelname)s: %(message)s")
    try:
        call(stop.is_set)
    except (UserError, OSError) as error:
        errors.put(error)
        sys.exit(1)
    except Exception as error:
        traceback.print_exc()
        errors.put(RuntimeError(f"{type(error).__name__} in a worker: {error}"))
        sys.exit(1)
