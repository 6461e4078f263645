"""The jobs of a command, one after another: locks, runs side by side, and what a user sees of them meanwhile."""

from __future__ import annotations

import contextlib
import functools
import logging
import mmap
import sys
from collections.abc import Iterator, Sequence
from types import TracebackType

import numpy as np
from tqdm import tqdm

from benchmarks.protocol import format_lr
from benchmarks.sweep.fork_pool import Crew
from benchmarks.sweep.jobs import Job, Outcome, Prepared, pending, prepare
from benchmarks.sweep.model_reset import Workbench
from benchmarks.sweep.run_state import hold_lock

__all__ = ["do_jobs"]

log = logging.getLogger(__name__)


def do_jobs(jobs: Sequence[Job], bench: Workbench, side_by_side: int) -> None:
    """Do the pending runs of all jobs that no other process is at.

    While the last runs of a job are computed the next job is prepared; a job's lock is let go of after its last run.

    Args:
        jobs: what to do.
        bench: the model, on a CPU where runs go side by side.
        side_by_side: runs at a time; they share the model and their data, and no run depends on the number.

    Raises:
        UserError: a dataset is not there, has other labels, or the store holds runs of other settings.
    """
    waiting = [_fine_tunings(job) for job in jobs]
    board = _Board(sum(waiting), sum(len(job.keys) for job in jobs), side_by_side)
    with contextlib.ExitStack() as locks, board, Crew(side_by_side, board.refresh) as crew:
        for job, expected in zip(jobs, waiting, strict=True):
            lock = locks.enter_context(contextlib.ExitStack())
            if not lock.enter_context(hold_lock(job.lock)):
                log.info("%s on %s: another process is at it", job.model, job.trained_on)
                board.total -= expected
                continue
            if not pending(job):
                board.total -= expected
                lock.close()
                continue
            prepared = prepare(job, bench)
            left = prepared.fine_tunings
            board.total += len(left) - expected
            board.announce(prepared)
            for number, (lr, seed) in enumerate(prepared.fine_tunings, 1):
                watch = functools.partial(board.watch, board.take()) if side_by_side > 1 else None
                crew.submit(
                    functools.partial(prepared.run, lr, seed, watch),
                    functools.partial(_ended, board, prepared, lr, seed, number, left, lock),
                )
        crew.finish()


def _ended(
    board: _Board,
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
    name = f"{prepared.job.model} {prepared.job.trained_on} lr{format_lr(lr)}_sd{seed}"
    board.report(f"{name} [{number}/{len(prepared.fine_tunings)}]: {outcome.words}", outcome.seconds)


def _fine_tunings(job: Job) -> int:
    return len({(key.lr, key.seed) for key in pending(job)})


class _Board:
    """Lines for what is done, with an estimate of the time left, and a bar for what is under way.

    Processes write how far they are into memory that they share with this one.
    """

    def __init__(self, total: int, most: int, side_by_side: int) -> None:
        self.total = total
        self._side_by_side = side_by_side
        self._done = 0
        self._seconds = 0.0
        self._taken = 0
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

    def __enter__(self) -> _Board:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def take(self) -> int:
        """Return the place of one more run in the shared memory."""
        self._taken += 1
        return self._taken - 1

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
        """Tell what a job is."""
        number, job = len(prepared.fine_tunings), prepared.job
        together = f", {self._side_by_side} side by side" if min(number, self._side_by_side) > 1 else ""
        self._log(
            f"{job.model} on {', '.join(job.datasets)}: {number} fine-tuning{'s' * (number > 1)} of "
            f"{prepared.steps:,} steps{together}"
        )

    def report(self, line: str, seconds: float) -> None:
        """Tell how a run ended and about how long the others will take."""
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
