"""The jobs of a command, one after another: locks, runs side by side, and what a user sees of them while they run."""

from __future__ import annotations

import contextlib
import functools
import logging
import mmap
import sys
from collections.abc import Iterator, Sequence

import numpy as np
from tqdm import tqdm

from benchmarks.protocol import format_lr
from benchmarks.sweep.fork_pool import ForkPool
from benchmarks.sweep.jobs import Job, Outcome, Prepared, pending, prepare
from benchmarks.sweep.model_reset import ResettableModel
from benchmarks.sweep.share import Share
from common.locks import try_lock

__all__ = ["do_jobs"]

log = logging.getLogger(__name__)


def do_jobs(
    jobs: Sequence[Job], resettable: ResettableModel, side_by_side: int, share: Share | None = None
) -> None:
    """Do the pending runs of all jobs that no other process is doing; of shared jobs, those that no worker has claimed.

    While the last runs of a job are computed the next job is prepared; a job's lock is released after its last run.

    Args:
        jobs: what to do.
        resettable: the model, on a CPU where runs are computed side by side.
        side_by_side: runs at a time; they share the model and their data, and no run depends on the number.
        share: how the workers of a call share its jobs, whose locks the call holds; None: this process is alone.

    Raises:
        UserError: a dataset is not there, has other labels, or the store has runs of other settings.
    """
    jobs = list(jobs) if share is None else share.in_order(jobs)
    waiting = [_fine_tunings(job) for job in jobs]
    display = _Display(sum(waiting), sum(len(job.keys) for job in jobs), side_by_side)
    with (
        contextlib.ExitStack() as locks,
        contextlib.closing(display),
        ForkPool(side_by_side, display.refresh) as pool,
    ):
        for job, expected in zip(jobs, waiting, strict=True):
            lock = locks.enter_context(contextlib.ExitStack())
            if share is None and not lock.enter_context(try_lock(job.lock)):
                log.info("%s on %s: another process is doing it", job.request.name, job.trained_on)
                display.total -= expected
                continue
            if not pending(job) or (share is not None and not share.is_open(job)):
                display.total -= expected
                lock.close()
                continue
            prepared = prepare(job, resettable)
            left = prepared.fine_tunings
            display.total += len(left) - expected
            display.announce(prepared)
            for number, (lr, seed) in enumerate(prepared.fine_tunings, 1):
                if share is not None and not share.claim(job, lr, seed):
                    left.remove((lr, seed))
                    display.total -= 1
                    continue
                watch = functools.partial(display.watch, display.new_run()) if side_by_side > 1 else None
                pool.submit(
                    functools.partial(prepared.run, lr, seed, watch),
                    functools.partial(_ended, display, prepared, lr, seed, number, left, lock),
                )
        pool.finish()


def _ended(
    display: _Display,
    prepared: Prepared,
    lr: float,
    seed: int,
    number: int,
    left: list[tuple[float, int]],
    lock: contextlib.ExitStack,
    outcome: Outcome,
) -> None:
    left.remove((lr, seed))
    if not left:
        lock.close()
    name = f"{prepared.job.request.name} {prepared.job.trained_on} lr{format_lr(lr)}_sd{seed}"
    display.report(f"{name} [{number}/{len(prepared.fine_tunings)}]: {outcome.words}", outcome.seconds)


def _fine_tunings(job: Job) -> int:
    return len({(key.lr, key.seed) for key in pending(job)})


class _Display:
    """Lines for what is done, with an estimate of the time left, and a bar for what is under way.

    Processes write how far they are into memory that they share with this one.
    """

    def __init__(self, total: int, most: int, side_by_side: int) -> None:
        self.total = total
        self._side_by_side = side_by_side
        self._done = 0
        self._seconds = 0.0
        self._runs = 0
        self._shares = np.frombuffer(mmap.mmap(-1, 8 * max(1, most)), dtype=np.float64)
        self._bar: tqdm[None] | None = None
        if side_by_side > 1:
            form = "{desc} {percentage:3.0f}% of {total:.0f} runs |{bar}| [{elapsed}<{remaining}]"
            self._bar = tqdm(
                total=float(total),
                bar_format=form,
                desc=f"{side_by_side} at a time",
                disable=None,
                leave=False,
            )

    def close(self) -> None:
        """Remove what is shown."""
        if self._bar is not None:
            self._bar.close()

    def new_run(self) -> int:
        """Return where in the shared memory one more run notes its steps."""
        self._runs += 1
        return self._runs - 1

    def watch(self, place: int, steps: range) -> Iterator[int]:
        """Pass steps through and note how many are done."""
        for step in steps:
            yield step
            self._shares[place] = (step + 1) / len(steps)

    def refresh(self) -> None:
        """Show how far the runs are."""
        if self._bar is not None:
            self._bar.total = float(self.total)
            self._bar.n = float(self._shares.sum())
            self._bar.refresh()

    def announce(self, prepared: Prepared) -> None:
        """Log what a job is."""
        number, job = len(prepared.fine_tunings), prepared.job
        together = f", {self._side_by_side} side by side" if min(number, self._side_by_side) > 1 else ""
        self._log(
            f"{job.request.name} on {', '.join(job.datasets)}: {number} fine-tuning{'s' * (number > 1)} of "
            f"{prepared.steps:,} steps{together}"
        )

    def report(self, line: str, seconds: float) -> None:
        """Log how a run ended and about how long the others will take."""
        self._done += 1
        self._seconds += seconds
        left = self._seconds / self._done * max(0, self.total - self._done) / self._side_by_side
        self._log(f"{line}; {_duration(seconds)}, about {_duration(left)} left")

    def _log(self, line: str) -> None:
        with tqdm.external_write_mode(file=sys.stderr):
            log.info("%s", line)


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"
