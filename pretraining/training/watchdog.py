"""How the processes of a job move: a warning where one is slow, and the job's end where one hangs.

torch ends a process that waits for another only after its own time-out, with pages of text from each process, and on
a GPU by an abort. The watchdog is earlier: one process says in one sentence which rank has stopped, and where.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import statistics
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch.distributed import distributed_c10d

from common.processes import AGAIN
from pretraining.training.ranks import Ranks

logger = logging.getLogger(__name__)

SLOW = 1.5
"""A rank is slow whose own part of a step takes this many times the median of the others'."""
LATE = 0.2
"""A rank is late with its data that waits this share of a step longer for it than the others."""
_COMPARED_SECONDS = 30.0
_Batch = TypeVar("_Batch")
_MOST_BEAT = 5.0
_LOOKS = 4


class Watchdog(AbstractContextManager["Watchdog"]):
    """Ends the processes of a job, each by itself, once a step has not come further for too long.

    While the block runs, a thread of every process tells the others how far it is, through torch's store.
    """

    def __init__(self, ranks: Ranks, name: str, seconds: float) -> None:
        """Watch a stage, by its name; does nothing where there is one process."""
        self._ranks, self._name, self._seconds = ranks, name, seconds
        self._beat = min(_MOST_BEAT, seconds / 20)
        self._position, self._moved, self._beats = (0, 0), time.monotonic(), 0
        self._over = threading.Event()

    def mark(self, step: int, part: int) -> None:
        """Note that a part of a step has begun; both rise, `part` within its step."""
        self._position, self._moved = (step, part), time.monotonic()

    def __enter__(self) -> Watchdog:
        """Begin to watch."""
        self._moved = time.monotonic()
        if self._ranks.world > 1:
            # A connection of its own: the training's may be held by a call that waits.
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
            if time.monotonic() - self._moved > self._seconds:
                self._end()

    def _key(self, rank: int) -> str:
        return f"watchdog/{self._name}/{rank}"

    def _report(self) -> None:
        """Tell the others `[step, part, beats, machine]`; the beats rise as long as this process runs at all."""
        self._beats += 1
        try:
            self._store.set(
                self._key(self._ranks.rank), json.dumps([*self._position, self._beats, platform.node()])
            )
        except RuntimeError:  # whoever keeps the store is gone, as `_reports` will find
            return

    def _reports(self) -> dict[int, list[int | str]]:
        """Return what each rank reported last; nothing of those that have not."""
        keys = {rank: self._key(rank) for rank in range(self._ranks.world)}
        return {
            rank: json.loads(self._store.get(key)) for rank, key in keys.items() if self._store.check([key])
        }

    def _end(self) -> None:
        """End this process, unless it moves again meanwhile; the first rank that runs says which ones have stopped.

        Stopped is who reports nothing new between two looks; where all do, whoever is behind the others.
        """
        try:
            before = self._reports()
            for _ in range(_LOOKS):
                time.sleep(self._beat)
                self._report()
            after = self._reports()
        except RuntimeError:  # the store is gone, and with it the first rank, which keeps it
            before, after = {}, {rank: [0, 0, 0, "the first node"] for rank in range(1, self._ranks.world)}
        lost = [
            rank for rank in range(self._ranks.world) if rank not in after or before.get(rank) == after[rank]
        ]
        if not lost:
            positions = {rank: report[:2] for rank, report in after.items()}
            least, most = min(positions.values()), max(positions.values())
            lost = [rank for rank, position in positions.items() if position == least < most]
        running = [rank for rank in range(self._ranks.world) if rank not in lost] or [0]
        if self._over.is_set() or time.monotonic() - self._moved < self._seconds:
            return  # it was only slow
        if self._ranks.rank == running[0]:
            logger.error("%s", self._sentence(lost, after))
        else:
            time.sleep(_LOOKS * self._beat)  # the first to end may take the others with it
        os._exit(AGAIN)

    def _sentence(self, lost: list[int], reports: dict[int, list[int | str]]) -> str:
        """Return the last message: which ranks have stopped on which machines, and how to resume."""
        who = "no rank is behind, so look at the network or the GPUs"
        if lost:
            where = sorted({str(reports[rank][3]) for rank in lost if rank in reports})
            names = ", ".join(map(str, lost))
            who = f"rank {names} of {self._ranks.world} has stopped there{', on ' if where else ''}{', '.join(where)}"
        step, _ = self._position
        return (
            f"{self._name}: nothing has moved for {self._seconds / 60:.3g} minutes after step {step}: {who}; "
            "every process ends now with exit code 75; the same command resumes from the last checkpoint"
        )


class Speed:
    """Tokens a second of all processes since the last row of the log, but for the time of what is `paused`."""

    def __init__(self) -> None:
        """Begin to count."""
        self._began, self._tokens = time.monotonic(), 0

    def count(self, tokens: int) -> None:
        """Add the tokens of an update."""
        self._tokens += tokens

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave out the time of the block."""
        paused = time.monotonic()
        yield
        self._began += time.monotonic() - paused

    def tokens_per_second(self) -> float:
        """Return the speed, and begin to count anew."""
        now = time.monotonic()
        speed = self._tokens / (now - self._began)
        self._began, self._tokens = now, 0
        return speed


class OwnTime:
    """Seconds of a step that this process computes for itself: until its last backward pass, which waits for others."""

    def __init__(self, ranks: Ranks) -> None:
        """Measure on the rank's device."""
        self._ranks = ranks
        self._begin = self._end = self._now()
        self._total, self._waited, self.steps, self._since = 0.0, 0.0, 0, time.monotonic()

    def is_due(self) -> bool:
        """Return whether it is time to compare several ranks, by the first one's clock."""
        late = time.monotonic() > self._since + _COMPARED_SECONDS
        return self._ranks.rank == 0 and self._ranks.world > 1 and late

    def reading(self, batches: Iterable[_Batch]) -> Iterator[_Batch]:
        """Yield batches; the time that this process waits for one counts, but for the first."""
        self._since, begin, first = time.monotonic(), time.perf_counter(), True
        for batch in batches:
            self._waited += 0.0 if first else time.perf_counter() - begin
            yield batch
            begin, first = time.perf_counter(), False

    def _now(self) -> Any:
        if self._ranks.device.type != "cuda":
            return time.perf_counter()
        event: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def begin(self) -> None:
        """Note that a step begins."""
        self._begin = self._end = self._now()

    def backward(self) -> None:
        """Note that a backward pass begins; the last of a step counts."""
        self._end = self._now()

    def count(self) -> None:
        """Add a step, whose loss has been read."""
        if isinstance(self._begin, float):
            self._total += self._end - self._begin
        else:
            self._total += self._begin.elapsed_time(self._end) / 1000
        self.steps += 1

    def by_rank(self, stage: str, step: int) -> tuple[list[float], list[float]]:
        """Return the mean seconds a step of every rank since the last call, its own part and its wait for the batch.

        A rank that is slow, or that waits for its disk, is warned of.
        """
        seconds, steps = self._ranks.each(self._total / self.steps), self.steps
        waits = self._ranks.each(self._waited / steps)
        self._total, self._waited, self.steps, self._since = 0.0, 0.0, 0, time.monotonic()
        rank = self._ranks.rank
        others_wait = statistics.median(waits[:rank] + waits[rank + 1 :])
        if waits[rank] - others_wait > LATE * statistics.median(seconds):
            logger.warning(
                "%s: rank %d, on %s, waits for its data, and all others wait for it: %.3g s a step, they %.3g s (steps "
                "%d to %d); look at the disk or file system of its shards and of its cache (--set cache=DIR)",
                stage, rank, platform.node(), waits[rank], others_wait, step - steps + 1, step,
            )  # fmt: skip
        others_seconds = statistics.median(seconds[:rank] + seconds[rank + 1 :])
        if seconds[rank] > SLOW * others_seconds:
            logger.warning(
                "%s: rank %d, on %s, is slow, and all others wait for it: its own part of a step took %.3g s, theirs "
                "%.3g s (steps %d to %d); look at that machine, or leave it out",
                stage, rank, platform.node(), seconds[rank], others_seconds, step - steps + 1, step,
            )  # fmt: skip
        return seconds, waits
