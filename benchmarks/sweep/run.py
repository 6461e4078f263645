"""Fine-tune and evaluate a model over the grid, skipping what the store has already."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from benchmarks.finetuning.class_heads import HEADS
from benchmarks.finetuning.device import RESERVED, DeviceKind, choose_device, choose_kind
from benchmarks.finetuning.encoders import load
from benchmarks.finetuning.heads import POOLINGS
from benchmarks.own_datasets.definitions import register_stored, store_definitions
from benchmarks.protocol import DATASETS
from benchmarks.runs import RunKey
from benchmarks.sweep.fork_pool import ForkPool, default_size
from benchmarks.sweep.identity import check_finished, identities
from benchmarks.sweep.jobs import Job, check_sources, jobs_of, pending, remove_leftovers
from benchmarks.sweep.model_reset import ResettableModel
from benchmarks.sweep.request import Request
from benchmarks.sweep.run_state import failure, fault, folder_of, is_done, measured
from benchmarks.sweep.scheduler import do_jobs
from benchmarks.sweep.share import Share
from common.errors import UserError
from common.locks import try_lock
from common.plain_text import visible

__all__ = ["BUSY", "COMPLETE", "FAILED", "GridState", "compared_jobs", "run_grid", "run_on", "runs_that_fit"]

log = logging.getLogger(__name__)

COMPLETE, FAILED, BUSY = 0, 3, 4
_CONTEXT = 1 << 30
"""Bytes that a process on a GPU needs before its first tensor."""


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
    store_definitions(request.store, [DATASETS[name] for name in request.datasets])
    if any(pending(job) for job in jobs):
        kind = choose_kind(request.device)
        if request.workers is None or request.workers == 1 or kind.side_by_side or not kind.count():
            _work(jobs, request)
        else:
            run_on(_devices(jobs, request, kind), request)
    for job in jobs:
        with try_lock(job.lock) as free:
            if free:
                remove_leftovers(job)
    keys = [key for job in jobs for key in job.keys]
    done = tuple(key for key in keys if is_done(request.store, key))
    failed = {key: reason for key in keys if (reason := failure(request.store, key)) is not None}
    return GridState(done=done, failed=failed, missing=len(keys) - len(done) - len(failed))


def compared_jobs(request: Request) -> list[Job]:
    """Return the jobs of a request once every finished run of theirs has been compared with what is asked for.

    Raises:
        UserError: as `benchmarks.sweep.identity.identities` and `check_finished`.
    """
    check_sources(request)
    wanted = identities(request)
    check_finished(request, wanted)
    jobs = jobs_of(request, wanted)
    for key in (key for job in jobs for key in job.keys):
        if (reason := fault(request.store, key)) is not None:
            log.warning("%s %s; the run is made again", folder_of(request.store, key), visible(reason))
    return jobs


def run_on(devices: Sequence[str], request: Request) -> None:
    """Do the runs of a request with a process for each device; they share every cell, run by run.

    Cells that another process is doing are left to it.
    """
    with contextlib.ExitStack() as held:
        free = []
        for job in compared_jobs(request):
            if held.enter_context(try_lock(job.lock)):
                free.append(job)
            else:
                log.info("%s on %s: another process is doing it", request.name, job.trained_on)
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="clm-or-mlm-claims-")))
        if not any(pending(job) for job in free):
            return
        with ForkPool(len(devices), fresh=True) as pool:
            for number, device in enumerate(devices):
                alone = dataclasses.replace(request, device=device, workers=1)
                jobs = [dataclasses.replace(job, request=alone) for job in free]
                share = Share(folder=folder, first=number / len(devices))
                pool.submit(functools.partial(_worker, jobs, alone, share), lambda _: None)
            pool.finish()


def _worker(jobs: list[Job], request: Request, share: Share) -> None:
    logging.basicConfig(level=logging.INFO, format="%(levelname)s: %(message)s")
    register_stored(request.store)
    _work(jobs, request, share)


def _work(jobs: list[Job], request: Request, share: Share | None = None) -> None:
    """Do all jobs that no other process is doing, on a CPU as many runs side by side as fit."""
    pooling = POOLINGS[request.pooling]
    device = choose_device(
        request.device, request.precision, positions=request.positions, exact=request.exact_micro_batches
    )
    threads = torch.get_num_threads()
    if device.kind.side_by_side:
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
        side_by_side = (request.workers or fitting) if device.kind.side_by_side else 1
        do_jobs(jobs, resettable, side_by_side, share)
    finally:
        torch.set_num_threads(threads)


def _devices(jobs: list[Job], request: Request, kind: DeviceKind) -> list[str]:
    """Return the device of each worker that a request asks for; more workers than GPUs share these as memory allows.

    What a run needs is measured: by the finished runs of the request, or by one fine-tuning that is done for it alone.
    """
    workers, count = request.workers or 1, kind.count()
    if request.device not in ("auto", kind.name):
        raise UserError(f"--workers {workers} takes all GPUs in turn: leave out --device {request.device}")
    if workers <= count:
        return [f"{kind.name}:{number}" for number in range(workers)]
    if not (most := _most_memory(jobs)):
        job = next(job for job in jobs if pending(job))
        key = pending(job)[0]
        alone = dataclasses.replace(
            request, datasets=job.datasets, lrs=(key.lr,), seeds=(key.seed,), workers=1
        )
        log.info("%s: one fine-tuning alone, to measure what it needs", request.name)
        run_on([f"{kind.name}:0"], alone)  # in a process of its own, whose memory is free afterwards
        most = _most_memory(jobs)
    free = min(kind.free_memory(torch.device(kind.name, number)) for number in range(count))
    fitting = runs_that_fit(free, most)
    chosen = min(workers, fitting * count)
    log.info(
        "%s: %d runs at a time on %d GPUs; %.1f GiB each, %.1f GiB free on a GPU",
        request.name, chosen, count, most / 2**30, free / 2**30,
    )  # fmt: skip
    return [f"{kind.name}:{number % count}" for number in range(chosen)]


def runs_that_fit(free: int, most: int) -> int:
    """Return how many runs fit into the free memory of a GPU, at least 1, and 1 where nothing was measured.

    Args:
        free: bytes.
        most: bytes that a run held at most; its process needs `_CONTEXT` more.
    """
    return max(1, int(0.9 * free) // (most + _CONTEXT)) if most else 1


def _most_memory(jobs: list[Job]) -> int:
    """Return the most memory that a finished run of the jobs held on its GPU; 0 where none says it."""
    return max((measured(job.request.store, key, RESERVED) for job in jobs for key in job.keys), default=0)
