"""How the workers of one call share its cells: each claims one fine-tuning after another, so that all end together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.protocol import format_lr
from benchmarks.sweep.jobs import Job, pending

__all__ = ["Share"]


@dataclass(frozen=True, kw_only=True)
class Share:
    """One worker's part in a call's jobs."""

    folder: Path
    """An empty folder of the call's own, in which every claim is a file."""
    first: float
    """Where among the jobs it begins, from 0 to 1: workers meet in the same job only when their own are done."""

    def in_order(self, jobs: Sequence[Job]) -> list[Job]:
        """Return the jobs in the order in which this worker takes them."""
        start = int(self.first * len(jobs))
        return [*jobs[start:], *jobs[:start]]

    def claim(self, job: Job, lr: float, seed: int) -> bool:
        """Take a fine-tuning; return False when another worker has it, done or not."""
        try:
            self._path(job, lr, seed).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def is_open(self, job: Job) -> bool:
        """Return whether a fine-tuning of a job is left to claim, before its data is read."""
        return any(not self._path(job, key.lr, key.seed).exists() for key in pending(job))

    def _path(self, job: Job, lr: float, seed: int) -> Path:
        return self.folder / f"{job.trained_on}-lr{format_lr(lr)}-sd{seed}"
