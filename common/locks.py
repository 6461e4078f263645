"""One process at a time: file locks that a process loses by ending in any way (the `filelock` library).

`try_lock` is for processes of one machine, or of a file system whose locks hold across nodes; where a file system has
no locks, the library takes a file's existence for one. `try_lease` holds across nodes on every file system, by a file
that its holder touches.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from filelock import FileLock, SoftFileLease, Timeout

from common.files import is_alive

logger = logging.getLogger(__name__)

_LATELY = 120.0
"""Seconds since the last touch of a lease in which its holder on another machine counts: twice those of `try_lease`."""


@contextlib.contextmanager
def try_lock(path: Path) -> Iterator[bool]:
    """Hold the lock `path`, which is left behind empty; yield False when another process holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


@contextlib.contextmanager
def wait_for_lock(path: Path, waiting: str) -> Iterator[None]:
    """Hold the lock `path`; log `waiting` and wait while another process holds it."""
    is_logged = False
    while True:
        with try_lock(path) as held:
            if held:
                yield
                return
        if not is_logged:
            logger.info("%s", waiting)
            is_logged = True
        time.sleep(0.2)


def is_locked(path: Path) -> bool:
    """Return whether another process holds the lock `path`."""
    if not path.is_file():
        return False
    with try_lock(path) as free:
        return not free


@contextlib.contextmanager
def try_lease(
    path: Path, lost: Callable[[], None], *, seconds: float = 60.0
) -> Iterator[str | None]:
    """Hold the lease `path`, touched while the block runs; yield None, or who holds it: `process 12 on host x`.

    A lease of a process of this machine that has ended is taken at once, one of another machine when it was not
    touched for `seconds`: this call waits so long to see.

    Args:
        path: its file, removed at the end.
        lost: called from a thread when another process took the lease, as after a suspended machine wakes up.
        seconds: without a touch for so long, the holder counts as dead.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lease = SoftFileLease(
        path, timeout=0, lease_duration=seconds, on_compromise=lambda _: lost()
    )
    try:
        _take(lease, seconds)
    except Timeout:
        yield _words(lease)
        return
    try:
        yield None
    finally:
        lease.release()


def _take(lease: SoftFileLease, seconds: float) -> None:
    """Acquire a lease, at once or when its holder on another machine has not touched it; else raise `Timeout`."""
    try:
        lease.acquire()
    except Timeout:
        if lease.owner is not None and lease.owner.hostname == socket.gethostname():
            raise
        logger.info(
            "%s holds %s; waiting %.0f s to see whether that process is still alive",
            _words(lease),
            lease.lock_file,
            seconds,
        )
        lease.acquire(timeout=1.25 * seconds, poll_interval=min(1.0, seconds / 10))


def holder_of(path: Path) -> str | None:
    """Return who holds a lease, `process 12 on host x`; None where nobody does. Nothing on disk changes.

    A process of this machine is looked for; one of another counts while it touched the lease lately.
    """
    lease = SoftFileLease(path)
    if lease.owner is not None and lease.owner.hostname == socket.gethostname():
        return _words(lease) if is_alive(lease.owner.pid) else None
    try:
        touched = path.stat().st_mtime
    except FileNotFoundError:
        return None
    now = time.time()
    with (
        contextlib.suppress(OSError),
        tempfile.NamedTemporaryFile(dir=path.parent) as file,
    ):
        now = os.fstat(
            file.fileno()
        ).st_mtime  # by the clock of the file system, as the touch is
    return _words(lease) if now - touched < _LATELY else None


def _words(lease: SoftFileLease) -> str:
    owner = lease.owner
    return (
        "another process"
        if owner is None
        else f"process {owner.pid} on host {owner.hostname}"
    )
