"""Runs side by side on a CPU: forked processes that share what the parent has prepared.

A small model gains little from a second thread and much from a second run. A forked process reads the parent's
weights, tokenised data and evaluation batches in place, so a run more costs its gradients and optimiser alone.
Every process computes with the same number of threads, so a run's bytes do not depend on how many there are.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any

import psutil  # type: ignore[import-untyped]
import torch

from common.errors import UserError
from common.processes import become_worker, cores

__all__ = ["ForkPool", "default_size"]


def default_size(threads: int, memory: int) -> int:
    """Return how many processes fit: by cores, or OMP_NUM_THREADS where it is set, and by free memory.

    Args:
        threads: threads of each process.
        memory: bytes that each process needs in addition to what all share.
    """
    if not sys.platform.startswith("linux"):
        return 1
    given = os.environ.get("OMP_NUM_THREADS", "")
    usable = int(given) if given.isdigit() else cores()
    return max(1, min(usable // threads, int(psutil.virtual_memory().available // max(1, memory))))


class ForkPool:
    """At most `size` tasks at once, each in a process of its own; with a size of 1 and no `fresh` all in this one.

    As a context manager it ends the processes that are still running when its block ends; after a user's mistake
    it lets them end by themselves.
    """

    def __init__(self, size: int, tick: Callable[[], None] = lambda: None, *, fresh: bool = False) -> None:
        """Make a pool.

        Args:
            size: processes at a time.
            tick: called about once a second while this process waits for others.
            fresh: start fresh processes instead of forking this one, for GPUs, which a forked process cannot use;
                tasks must then be picklable.
        """
        self.size = size
        self._tick = tick
        self._here = size == 1 and not fresh
        self._context: BaseContext = multiprocessing.get_context("spawn" if fresh else "fork")
        self._busy: dict[Connection, tuple[BaseProcess, Callable[[Any], None]]] = {}

    def __enter__(self) -> ForkPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, UserError | OSError):
            with contextlib.suppress(Exception):
                self.finish()
        for process, _ in self._busy.values():
            process.kill()
        for process, _ in self._busy.values():
            process.join()
        self._busy.clear()

    def wait(self) -> None:
        """Wait until fewer than `size` tasks run.

        Raises:
            UserError: a task raised it, or its process was killed; so for its other exceptions.
        """
        while len(self._busy) >= self.size:
            self._collect()

    def submit(self, task: Callable[[], Any], done: Callable[[Any], None] = lambda _: None) -> None:
        """Start `task` as soon as fewer than `size` run, and call `done` with what it returns, in this process.

        Raises:
            UserError: as `wait`.
        """
        if self._here:
            done(task())
            return
        self.wait()
        sys.stdout.flush()
        sys.stderr.flush()
        receive, send = multiprocessing.Pipe(duplex=False)
        process = self._context.Process(  # type: ignore[attr-defined]
            target=_work, args=(task, send, os.getpid(), torch.get_num_threads()), daemon=True
        )
        process.start()
        send.close()
        self._busy[receive] = (process, done)

    def finish(self) -> None:
        """Wait for all tasks."""
        while self._busy:
            self._collect()

    def _collect(self) -> None:
        while not (ready := wait(list(self._busy), timeout=1.0)):
            self._tick()
        for connection in ready:
            assert isinstance(connection, Connection)
            process, done = self._busy[connection]
            try:
                result, error = connection.recv()
            except EOFError:
                process.join()
                del self._busy[connection]
                raise UserError(_ended(process.exitcode)) from None
            process.join()
            del self._busy[connection]
            connection.close()
            if error is not None:
                raise error
            done(result)


def _work(task: Callable[[], Any], send: Connection, parent: int, threads: int) -> None:
    """Do a task in a process that ends with its parent; the parent answers Ctrl-C, and ends its children."""
    become_worker(parent)
    torch.set_num_threads(threads)
    try:
        answer: tuple[Any, BaseException | None] = (task(), None)
    except (UserError, OSError) as error:
        answer = (None, error)
    except Exception as error:
        traceback.print_exc()
        answer = (None, RuntimeError(f"{type(error).__name__} in a run's process: {error}"))
    send.send(answer)
    send.close()


def _ended(code: int | None) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        return (
            f"the process of a run was ended by {name}, as happens when memory runs out; the same command with "
            "fewer --workers resumes"
        )
    return f"the process of a run ended with exit code {code} and without a result"
