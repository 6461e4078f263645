"""The end of a job in which a process hangs, and the speed of training.

A rank is one process of the job, by its number; a step is one update, which all ranks make together. If one rank hangs,
the others wait for it. torch ends a process that waits only after its own time-out, with pages of text from each
process, and on a GPU by an abort. The watchdog is earlier: one process logs in one sentence which rank has stopped, on
which machine, and all processes end.

The ranks report to each other through torch's store: a table of keys and values that all processes of a job can read
and write, kept by the first one.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import NamedTuple

from torch.distributed import distributed_c10d

from common.processes import AGAIN
from pretraining.training.ranks import Ranks

logger = logging.getLogger(__name__)

_MOST_BEAT = 5.0
"""Most seconds from one report of a process to its next."""
_LOOKS = 4
"""A process counts as stopped if it has not reported for this many times the interval of reports."""


class _Report(NamedTuple):
    """State of a rank as it tells the others; a JSON list in the store."""

    step: int
    """The step that it has reached."""
    part: int
    """Number of the part of the next update that has begun; rises within a step."""
    beats: int
    """Number of its reports: rises as long as the process runs at all."""
    machine: str
    """Name of its machine."""


class Watchdog(AbstractContextManager["Watchdog"]):
    """Ends this process once training has not moved on for too long; so does the watchdog of every other process.

    While the block runs, a thread of every process reports to the others how far it is.
    """

    def __init__(self, ranks: Ranks, name: str, seconds: float) -> None:
        """Prepare to watch; where there is only one process, nothing is watched.

        Args:
            ranks: this process among those of the job.
            name: what is trained, for messages and for the keys of reports.
            seconds: time without progress after which the job is ended.
        """
        self._ranks, self._name, self._seconds = ranks, name, seconds
        # At most a twentieth, so that the `_LOOKS` reports that `_end` waits for take at most a fifth of
        # `seconds`.
        self._beat = min(_MOST_BEAT, seconds / 20)
        """Seconds between reports."""
        self._position = 0, 0
        """The step that was reached, and the part of the next update that has begun."""
        self._moved_at = time.monotonic()
        """Time at which it was reached."""
        self._beats = 0
        self._over = threading.Event()
        """Set at the end of the block."""

    def mark(self, step: int, part: int) -> None:
        """Note that training has come so far: to a step and, in it, to a part of the next update, by its number."""
        self._position = step, part
        self._moved_at = time.monotonic()

    def __enter__(self) -> Watchdog:
        """Begin to watch."""
        self._moved_at = time.monotonic()
        if self._ranks.world > 1:
            # A connection of its own: training may be waiting in a call that holds the other one.
            self._store = distributed_c10d._get_default_store().clone()
            # A call that waits longer for the store raises an error. `_LOOKS` reports take less time.
            self._store.set_timeout(timedelta(seconds=10 + _LOOKS * self._beat))
            threading.Thread(target=self._watch, name="watchdog", daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        """Stop watching."""
        self._over.set()

    def _watch(self) -> None:
        """Report and look at the time until the block ends; run by the thread."""
        while not self._over.wait(self._beat):
            self._report()
            if self._is_late():
                self._end()

    def _is_late(self) -> bool:
        """Return whether training has not moved on for too long."""
        return time.monotonic() - self._moved_at > self._seconds

    def _key(self, rank: int) -> str:
        return f"watchdog/{self._name}/{rank}"

    def _report(self) -> None:
        """Tell the others how far this process is."""
        self._beats += 1
        report = _Report(*self._position, self._beats, platform.node())
        try:
            self._store.set(self._key(self._ranks.rank), json.dumps(report))
        except RuntimeError:
            # The process that keeps the store has ended. `_end` will find that, too, and name it.
            return

    def _reports(self) -> dict[int, _Report]:
        """Return the last report of each rank that has reported."""
        reports = {}
        for rank in range(self._ranks.world):
            key = self._key(rank)
            # `get` would wait for a key that nobody has set.
            if self._store.check([key]):
                reports[rank] = _Report(*json.loads(self._store.get(key)))
        return reports

    def _end(self) -> None:
        """End this process because training does not move on, unless it moves on in the meantime.

        A rank has stopped if it reports nothing new for a while. If all ranks report, those have stopped that are
        behind the others. The first rank that has not stopped logs the message for all.
        """
        world = range(self._ranks.world)

        # Two looks at all reports, some beats apart.
        try:
            before = self._reports()
            for _ in range(_LOOKS):
                time.sleep(self._beat)
                self._report()
            after = self._reports()
        except RuntimeError:
            # The store is gone, so the first rank, which keeps it, has ended. Reports are made up: the first rank's is
            # the same as before, so that it counts as stopped, and the others' are new.
            before = {0: _Report(0, 0, 0, "the first node")}
            after = before | {rank: _Report(0, 0, 0, "") for rank in world[1:]}

        # The ranks that have stopped: without a report, or with the same report as before.
        lost = []
        for rank in world:
            if rank not in after or before.get(rank) == after[rank]:
                lost.append(rank)

        if not lost:
            # All processes run, so one of them waits or computes without end. It is behind the others.
            positions = {
                rank: (report.step, report.part) for rank, report in after.items()
            }
            least, most = min(positions.values()), max(positions.values())
            if least < most:
                lost = [rank for rank in world if positions[rank] == least]

        # The looks took time, in which training may have moved on.
        if self._over.is_set() or not self._is_late():
            return

        # One sentence from one process, and the end of all. If all ranks seem to have stopped, the first one
        # logs it.
        running = [rank for rank in world if rank not in lost] or [0]
        if self._ranks.rank == running[0]:
            logger.error("%s", self._sentence(lost, after))
        else:
            # Leave time for that message: when one process ends, the job's launcher may end the others.
            time.sleep(_LOOKS * self._beat)

        os._exit(AGAIN)

    def _sentence(self, lost: list[int], reports: dict[int, _Report]) -> str:
        """Return the message: which ranks have stopped, on which machines, and how to resume.

        Args:
            lost: the ranks that have stopped; empty if none is behind the others.
            reports: the last report of each rank.
        """
        who = "no rank is behind, so look at the network or the GPUs"
        if lost:
            names = ", ".join(str(rank) for rank in lost)
            who = f"rank {names} of {self._ranks.world} has stopped there"
            machines = {reports[rank].machine for rank in lost if rank in reports}
            if machines:
                who += f", on {', '.join(sorted(machines))}"

        step, _ = self._position
        return (
            f"{self._name}: nothing has moved for {self._seconds / 60:.3g} minutes after step {step}: {who}; "
            "every process ends now with exit code 75; the same command resumes from the last checkpoint"
        )


class Speed:
    """Counts the tokens of all processes and their time, for tokens per second since the last row of the log."""

    def __init__(self) -> None:
        """Begin to count."""
        self._began = time.monotonic()
        self._tokens = 0

    def count(self, tokens: int) -> None:
        """Add the tokens of an update."""
        self._tokens += tokens

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count the time of the block."""
        paused_at = time.monotonic()
        yield
        # As if counting had begun so much later.
        self._began += time.monotonic() - paused_at

    def tokens_per_second(self) -> float:
        """Return the speed, and begin to count anew."""
        now = time.monotonic()
        speed = self._tokens / (now - self._began)
        self._began, self._tokens = now, 0
        return speed
