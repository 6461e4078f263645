"""Child processes: pools that end with their parent, and the signal that asks a process to save and stop."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from types import FrameType

from common.errors import UserError

STOP_SIGNALS = (signal.SIGTERM, signal.SIGUSR1)
"""What asks a process to save and stop: SIGUSR1 is what Slurm sends before a time limit."""

AGAIN = 75
"""Exit code of a process that was asked to stop, has saved its work and must be started again (EX_TEMPFAIL)."""

_PR_SET_PDEATHSIG = 1


def cores() -> int:
    """Return the number of cores that this process may use."""
    # Slurm and containers may limit a process to some of a machine's cores; macOS lacks this call.
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def end_with_parent(parent: int | None = None) -> None:
    """End this process when its parent ends, however the parent ends.

    On Linux the kernel does it. Elsewhere a thread of a `multiprocessing` child waits for its parent.

    Args:
        parent: the parent's process id as it was before this process started; a parent that ended meanwhile ends
            this process at once.
    """
    if sys.platform == "linux":
        # A call of the C library, which this process has loaded (None): Python itself does not offer it.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # The kernel sends no signal for a parent that had ended before this call.
        if parent is not None and os.getppid() != parent:
            os._exit(1)
    else:
        process = multiprocessing.parent_process()
        if process is not None:
            waiting = (process.sentinel,)
            threading.Thread(target=_exit_after, args=waiting, daemon=True).start()


def _exit_after(sentinel: int) -> None:
    """Wait until the process ends whose sentinel this is, then end this process."""
    multiprocessing.connection.wait([sentinel])
    os._exit(1)


def become_worker(parent: int) -> None:
    """Make this process a worker of `parent`: it ends with the parent, and Ctrl-C is the parent's to answer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent(parent)


@contextlib.contextmanager
def worker_pool(
    workers: int,
    *,
    killed: str = "a worker process was killed, probably for lack of memory; run the same command again",
) -> Iterator[ProcessPoolExecutor]:
    """Yield a pool of fresh processes that end with this one, and whose unfinished work is dropped at the end.

    Args:
        workers: number of processes.
        killed: the sentence when a process is killed.

    Raises:
        UserError: a process was killed; the message is `killed`.
    """
    pool = ProcessPoolExecutor(
        workers,
        # A fork would copy this process's threads and their locks.
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_begin,
        initargs=(os.getpid(),),
    )
    try:
        with _interrupts_held():
            for _ in range(workers):
                # Each task starts a process, since no worker is idle yet.
                pool.submit(os.getpid)
        yield pool
    except BrokenProcessPool:
        raise UserError(killed) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _begin(parent: int) -> None:
    become_worker(parent)
    logging.basicConfig(
        level=logging.INFO, format="%(levelname)s: %(message)s", stream=sys.stderr
    )


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C back while worker processes start; it is answered when the block ends.

    A new process inherits the mask of held signals, so it is not interrupted before `become_worker` has made it ignore
    Ctrl-C.
    """
    mask_before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask_before)


def ignore_stop_signal() -> None:
    """Ignore SIGUSR1 here and in all processes that this one starts, until a process handles it with `on_stop_signal`.

    A process that neither ignores nor handles this signal dies of it.
    """
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)


@contextlib.contextmanager
def on_first_interrupt(call: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Call `call` for the first Ctrl-C while the block runs; a second one interrupts as usual."""
    usual_handler = signal.getsignal(signal.SIGINT)

    def handle_first(received: int, _: FrameType | None) -> None:
        signal.signal(signal.SIGINT, usual_handler)
        call(signal.Signals(received))

    # A process that ignores Ctrl-C, such as one in the background of a shell, goes on ignoring it.
    if usual_handler is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, handle_first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual_handler)


@contextlib.contextmanager
def on_stop_signal(call: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Call `call` for every stop signal while the block runs."""

    def handle(received: int, _: FrameType | None) -> None:
        call(signal.Signals(received))

    # `signal.signal` returns the handler that it replaces.
    handlers_before = {number: signal.signal(number, handle) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in handlers_before.items():
            signal.signal(number, handler)
