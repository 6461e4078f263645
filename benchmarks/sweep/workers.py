"""Calls side by side, each in a process of its own: forked ones on the cores of a CPU, fresh ones with a GPU each."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import wait
from multiprocessing.context import BaseContext
from typing import Any

from common.errors import UserError
from common.processes import become_worker

__all__ = ["Stop", "side_by_side"]

Stop = Callable[[], bool]
"""Says whether another call failed, so that this one should end what it is at and begin nothing new."""


def side_by_side(calls: Sequence[Callable[[Stop], None]], *, fresh: bool) -> None:
    """Make calls at once, each in a process that ends with this one.

    Args:
        calls: what is done.
        fresh: start fresh processes instead of forking this one, for GPUs, which a forked process cannot use; calls
            must then be picklable.

    Raises:
        UserError: the first mistake that a call raised, once the others have ended; or a process was killed.
    """
    context: BaseContext = multiprocessing.get_context("spawn" if fresh else "fork")
    stop, errors = context.Event(), context.SimpleQueue()
    processes = [
        context.Process(target=_call, args=(call, stop, errors, os.getpid()), daemon=True)  # type: ignore[attr-defined]
        for call in calls
    ]
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        for process in processes:
            process.start()
        running = {process.sentinel: process for process in processes}
        while running:
            for sentinel in wait(list(running)):
                ended = running.pop(sentinel)
                ended.join()  # its sentinel may be ready before its exit code is
                if ended.exitcode:
                    stop.set()
    finally:
        for process in processes:
            if process.is_alive():
                process.kill()
                process.join()
    if not errors.empty():
        raise errors.get()
    for process in processes:
        if process.exitcode:
            raise UserError(_ended(process.exitcode))


def _call(call: Callable[[Stop], None], stop: Any, errors: Any, parent: int) -> None:
    """Make a call in a process that ends with its parent; the parent answers Ctrl-C, and ends its children."""
    become_worker(parent)
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


def _ended(code: int) -> str:
    if code < 0:
        name = signal.Signals(-code).name
        return (
            f"a worker was ended by {name}, as happens when memory runs out; the same command with fewer --workers "
            "resumes"
        )
    return f"a worker ended with exit code {code}"
