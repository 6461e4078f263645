"""Checkpoints written while training continues: copied at once, written by a thread, one at a time.

What is written is the copy, so that a checkpoint holds the step it is named for however long the disk takes. A problem
of the thread comes up at the next checkpoint or at the end, whichever is first; a process killed meanwhile leaves the
checkpoint before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from common.errors import UserError
from pretraining.training import checkpoints

__all__ = ["CheckpointWriter"]


class CheckpointWriter:
    """Writes a stage's checkpoints."""

    def __init__(self, folder: Path) -> None:
        """Write into the stage's folder."""
        self._folder = folder
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._pending: Future[None] | None = None

    def begin(
        self,
        step: int,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        state: Mapping[str, Any],
        keep: Iterable[int],
    ) -> None:
        """Copy what a step's checkpoint holds, and have it written; those that are no longer needed are then removed.

        It waits for the checkpoint before, so that at most one copy is in memory.

        Raises:
            UserError: the disk has no room, for this one or the one before.
            OSError: the disk failed otherwise.
        """
        self.wait()
        if checkpoints.is_there(self._folder, step):
            return
        checkpoints.check_room(self._folder, step, model, optimizer)
        tensors = checkpoints.Tensors.of(model, optimizer)
        self._pending = self._pool.submit(self._write, step, tensors, dict(state), [*keep, step])

    def wait(self) -> None:
        """Wait until what was begun is written.

        Raises:
            UserError: the disk has no room for it; what was there before is untouched.
            OSError: the disk failed otherwise.
        """
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def close(self) -> None:
        """Wait for what was begun, whatever becomes of it, and end the thread."""
        self._pool.shutdown()

    def problem(self) -> UserError | OSError | None:
        """Wait, and return what went wrong."""
        try:
            self.wait()
        except (UserError, OSError) as error:
            return error
        return None

    def _write(
        self, step: int, tensors: checkpoints.Tensors, state: Mapping[str, Any], keep: list[int]
    ) -> None:
        checkpoints.write(self._folder, step, tensors, state)
        checkpoints.prune(self._folder, keep)
