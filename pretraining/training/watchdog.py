"""How fast the processes of a job move, and the job's end where one of them hangs.

torch ends a process that waits for another only after its own time-out, with pages of text from each process, and on
a GPU by an abort. The watchdog is earlier: one process says in one sentence which rank has stopped, and where.
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
"""Most seconds from one report to the next."""
_LOOKS = 4
"""Reports that a process misses before it counts as stopped."""


class _Report(NamedTuple):
    """State of a rank as it tells the others; a JSON list in the store."""

    step: int
    """The update that it is in."""
    part: int
    """What has begun of it."""
    beats: int
    """Rises as long as the process runs at all."""
    machine: str
    """The machine it runs on."""


class Watchdog(AbstractContextManager["Watchdog"]):
    """Ends the processes of a job, each by itself, once a step has not come further for too long.

    While the block runs, a thread of every process tells the others how far it is, through torch's store.
    """

    def __init__(self, ranks: Ranks, name: str, seconds: float) -> None:
        """Watch a stage, by its name; does nothing where there is one process."""
        self._ranks, self._name, self._seconds = ranks, name, seconds
        self._beat = min(_MOST_BEAT, seconds / 20)
        self._position = 0, 0
        self._moved_at = time.monotonic()
        self._beats = 0
        self._over = threading.Event()

    def mark(self, step: int, part: int) -> None:
        """Note that a part of a step has begun; both rise, `part` within its step."""
        self._position = step, part
        self._moved_at = time.monotonic()

    def __enter__(self) -> Watchdog:
        """Begin to watch."""
        self._moved_at = time.monotonic()
        if self._ranks.world > 1:
            # A separate connection: the training's connection may be held by a call that waits.
            self._store = distributed_c10d._get_default_store().clone()
            self._store.set_timeout(timedelta(seconds=10 + _LOOKS * self._beat))
            threading.Thread(target=self._watch, name="watchdog", daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        """Stop watching."""
        self._over.set()

    def _watch(self) -> None:
        while not self._over.wait(self._beat):
            self._report()
            if self._is_late():
                self._end()

    def _is_late(self) -> bool:
        return time.monotonic() - self._moved_at > self._seconds

    def _key(self, rank: int) -> str:
        return f"watchdog/{self._name}/{rank}"

    def _report(self) -> None:
        """Tell the others how far this process is."""
        self._beats += 1
        report = _Report(*self._position, self._beats, platform.node())
        try:
            self._store.set(self._key(self._ranks.rank), json.dumps(report))
        except RuntimeError:  # whoever keeps the store is gone, as `_reports` will find
            return

    def _reports(self) -> dict[int, _Report]:
        """Return what each rank reported last; nothing of those that have not."""
        reports = {}
        for rank in range(self._ranks.world):
            key = self._key(rank)
            # `get` would wait for a key that nobody has set.
            if self._store.check([key]):
                reports[rank] = _Report(*json.loads(self._store.get(key)))
        return reports

    def _end(self) -> None:
        """End this process, unless it moves again meanwhile; the first rank that runs says which ones have stopped.

        Stopped is who reports nothing new between two looks; where all do, whoever is behind the others.
        """
        world = range(self._ranks.world)
        try:
            before = self._reports()
            for _ in range(_LOOKS):
                time.sleep(self._beat)
                self._report()
            after = self._reports()
        except RuntimeError:
            # The store is gone, so the first rank, which keeps it, has ended.
            before = {}
            after = {rank: _Report(0, 0, 0, "the first node") for rank in world[1:]}
        lost = []
        for rank in world:
            if rank not in after or before.get(rank) == after[rank]:
                lost.append(rank)
        if not lost:
            positions = {
                rank: (report.step, report.part) for rank, report in after.items()
            }
            least, most = min(positions.values()), max(positions.values())
            if least < most:
                lost = [rank for rank in world if positions[rank] == least]
        running = [rank for rank in world if rank not in lost] or [0]
        if self._over.is_set() or not self._is_late():
            return  # it was only slow
        if self._ranks.rank == running[0]:
            logger.error("%s", self._sentence(lost, after))
        else:
            # Wait until the message is logged: the first process to end may end the others too.
            time.sleep(_LOOKS * self._beat)
        os._exit(AGAIN)

    def _sentence(self, lost: list[int], reports: dict[int, _Report]) -> str:
        """Return the last message: which ranks have stopped on which machines, and how to resume."""
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
    """Tokens a second of all processes since the last row of the log, but for the time of what is `paused`."""

    def __init__(self) -> None:
        """Begin to count."""
        self._began = time.monotonic()
        self._tokens = 0

    def count(self, tokens: int) -> None:
        """Add the tokens of an update."""
        self._tokens += tokens

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave out the time of the block."""
        paused_at = time.monotonic()
        yield
        self._began += time.monotonic() - paused_at

    def tokens_per_second(self) -> float:
        """Return the speed, and begin to count anew."""
        now = time.monotonic()
        speed = self._tokens / (now - self._began)
        self._began, self._tokens = now, 0
        return speed
