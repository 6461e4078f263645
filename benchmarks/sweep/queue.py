"""The queue of fine-tunings: whoever is free takes the next one, by the lock of a file.

Any number of processes share a store, those of one call as those of other jobs and nodes: each goes through the
fine-tunings that are not done, takes those that nobody holds, and looks once more whether they are still to be done.
A claim ends with its process, however that ends.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import mmap
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from tqdm import tqdm

from benchmarks.finetuning.device import DeviceKind, choose_device, choose_kind
from benchmarks.finetuning.encoders import load
from benchmarks.finetuning.heads import HEADS, POOLINGS
from benchmarks.finetuning.trainer import Watch
from benchmarks.own_datasets.definitions import store_definitions
from benchmarks.runs import RunKey
from benchmarks.sweep.finetuned_weights import FinetunedWeights
from benchmarks.sweep.fork_pool import ForkPool, default_size
from benchmarks.sweep.jobs import FineTuningKey, Job, check_finished, compared_jobs, pending
from benchmarks.sweep.request import Request
from benchmarks.sweep.run_state import failure, is_done
from benchmarks.sweep.work import Outcome, ResettableModel, prepare
from common.errors import UserError
from common.locks import try_lock
from common.progress import Meter

__all__ = ["BUSY", "COMPLETE", "FAILED", "GridState", "run_grid", "run_on"]

log = logging.getLogger(__name__)

COMPLETE, FAILED, BUSY = 0, 3, 4


@dataclass(frozen=True, kw_only=True)
class GridState:
    """What is there of the runs of a request."""

    done: tuple[RunKey, ...]
    """Runs with results."""
    failed: dict[RunKey, str]
    """Why the others failed, for those that did."""
    missing: int
    """Runs that another process is doing, or was."""

    @property
    def exit_code(self) -> int:
        """`COMPLETE`, `FAILED` or `BUSY`."""
        return BUSY if self.missing else FAILED if self.failed else COMPLETE


def run_grid(request: Request) -> GridState:
    """Do the runs of a request that are not done yet, and return what is there then.

    Raises:
        UserError: an unknown name, data or a model that is not there, or a store with runs of something else.
    """
    jobs = compared_jobs(request)
    store_definitions(request.store, [request.known[name] for name in request.datasets])
    if any(pending(job) for job in jobs):
        kind = choose_kind(request.device)
        if request.workers is None or request.workers == 1 or not kind.gpu or not kind.count():
            _work(jobs, request)
        else:
            run_on(_devices(request, kind), request)
        # A call with other settings that began before any run was there may have done some of them.
        check_finished(request, jobs[0].descriptions)
    for job in jobs:
        _remove_leftovers(job)
    keys = [key for job in jobs for key in job.keys]
    done = tuple(key for key in keys if is_done(request.store, key))
    failed = {key: reason for key in keys if (reason := failure(request.store, key)) is not None}
    return GridState(done=done, failed=failed, missing=len(keys) - len(done) - len(failed))


def run_on(devices: Sequence[str], request: Request) -> None:
    """Do the runs of a request with a process for each device, that begin at different jobs."""
    jobs = compared_jobs(request)
    if not any(pending(job) for job in jobs):
        return
    with ForkPool(len(devices), fresh=True) as pool:
        for number, device in enumerate(devices):
            first = number * len(jobs) // len(devices)
            own = [replace(job, request=replace(request, device=device, workers=1)) for job in jobs]
            pool.submit(functools.partial(_worker, [*own[first:], *own[:first]]))
        pool.finish()


def _worker(jobs: list[Job]) -> None:
    logging.basicConfig(level=logging.INFO, format="%(levelname)s: %(message)s")
    _work(jobs, jobs[0].request)


def _work(jobs: Sequence[Job], request: Request) -> None:
    """Do all fine-tunings that no other process is doing, on a CPU as many side by side as fit."""
    pooling = POOLINGS[request.pooling]
    device = choose_device(
        request.device, request.precision, positions=request.positions, exact=request.exact_micro_batches
    )
    threads = torch.get_num_threads()
    if not device.kind.gpu:
        torch.set_num_threads(request.threads)
    try:
        loaded = load(
            request.model,
            revision=request.revision,
            trust_remote_code=request.trust_remote_code,
            max_length=request.fine_tuning.max_length,
        )
        resettable = ResettableModel(loaded=loaded, device=device, pooling=pooling, head=HEADS[request.head])
        fitting = default_size(request.threads, resettable.run_bytes)
        _take_all(jobs, resettable, (request.workers or fitting) if not device.kind.gpu else 1)
    finally:
        torch.set_num_threads(threads)


def _take_all(jobs: Sequence[Job], resettable: ResettableModel, side_by_side: int) -> None:
    """Go through the jobs' fine-tunings and do those that are free.

    While the last ones of a job are computed the next job is prepared.
    """
    todo = {job.trained_on: [each for each in job.fine_tunings if pending(job, each)] for job in jobs}
    with (
        contextlib.ExitStack() as claims,
        _Display(sum(map(len, todo.values())), side_by_side) as display,
        ForkPool(side_by_side, display.refresh) as pool,
    ):
        for job in jobs:
            prepared, own = None, todo[job.trained_on]
            for number, fine_tuning in enumerate(own, 1):
                if prepared is not None:
                    pool.wait()  # so that what is claimed begins at once
                claim = claims.enter_context(contextlib.ExitStack())
                if not claim.enter_context(_claim(job, fine_tuning)) or not pending(job, fine_tuning):
                    claim.close()
                    display.skip()
                    continue
                if prepared is None:
                    prepared = prepare(job, resettable)
                    display.announce(job, len(own), prepared.steps)
                pool.submit(
                    functools.partial(prepared.run, fine_tuning, display.new_run()),
                    functools.partial(_ended, display, f"{job} {fine_tuning} [{number}/{len(own)}]", claim),
                )
        pool.finish()


@contextlib.contextmanager
def _claim(job: Job, fine_tuning: FineTuningKey) -> Iterator[bool]:
    """Hold a fine-tuning; yield False when another process has it."""
    path = job.claim_path(fine_tuning)
    with try_lock(path) as mine:
        if not mine:
            log.info("%s %s: another process is doing it", job, fine_tuning)
        yield mine
        if mine:
            path.unlink(missing_ok=True)


def _ended(display: _Display, name: str, claim: contextlib.ExitStack, outcome: Outcome) -> None:
    claim.close()
    display.report(f"{name}: {outcome.words}", outcome.seconds)


def _remove_leftovers(job: Job) -> None:
    """Delete the weights that a killed process left and no run waits for."""
    for fine_tuning in job.fine_tunings:
        key = job.keys_of(fine_tuning)[0]
        weights = FinetunedWeights.of(job.request.store, key, job.descriptions[key.dataset])
        if weights.path.exists() and not pending(job, fine_tuning):
            with _claim(job, fine_tuning) as mine:
                if mine:
                    weights.remove()


class _Display(contextlib.AbstractContextManager["_Display"]):
    """Lines for what is done, with an estimate of the time left, and a meter of what is under way.

    Processes write how far they are into memory that they share with this one.
    """

    def __init__(self, total: int, side_by_side: int) -> None:
        self._left, self._side_by_side = total, side_by_side
        self._done, self._seconds, self._runs = 0, 0.0, 0
        self._shares = np.frombuffer(mmap.mmap(-1, 8 * max(1, total)), dtype=np.float64)
        several = side_by_side > 1
        self._meter = Meter(f"{side_by_side} at a time", float(total), unit="run") if several else None

    def __exit__(self, *error: object) -> None:
        """Remove what is shown."""
        if self._meter is not None:
            self._meter.__exit__(*error)

    def new_run(self) -> Watch | None:
        """Return what notes how far one more run is; None where it may show its steps itself."""
        self._runs += 1
        return functools.partial(self._watch, self._runs - 1) if self._meter is not None else None

    def _watch(self, place: int, steps: range) -> Iterator[int]:
        for step in steps:
            yield step
            self._shares[place] = (step + 1) / len(steps)

    def refresh(self) -> None:
        """Show how far the runs are."""
        if self._meter is not None:
            self._meter.update(float(self._shares.sum()))

    def skip(self) -> None:
        """Leave out a run that another process does."""
        self._left -= 1

    def announce(self, job: Job, number: int, steps: int) -> None:
        """Log what a job is."""
        together = f", {self._side_by_side} side by side" if min(number, self._side_by_side) > 1 else ""
        self._log(
            f"{job.request.name} on {', '.join(job.datasets)}: {number} fine-tuning{'s' * (number > 1)} of "
            f"{steps:,} steps{together}"
        )

    def report(self, line: str, seconds: float) -> None:
        """Log how a run ended and about how long the others will take."""
        self._done += 1
        self._left -= 1
        self._seconds += seconds
        left = self._seconds / self._done * self._left / self._side_by_side
        self._log(f"{line}; {_duration(seconds)}, about {_duration(left)} left")

    def _log(self, line: str) -> None:
        with tqdm.external_write_mode(file=sys.stderr):
            log.info("%s", line)


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def _devices(request: Request, kind: DeviceKind) -> list[str]:
    """Return the device of each worker that a request asks for: all of a kind in turn."""
    workers, count = request.workers or 1, kind.count()
    if request.device not in ("auto", kind.name):
        raise UserError(f"--workers {workers} takes all GPUs in turn: leave out --device {request.device}")
    return [f"{kind.name}:{number % count}" for number in range(workers)]
