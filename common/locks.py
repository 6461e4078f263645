"""One process at a time: file locks that a process loses by ending in any way (the `filelock` library).

`try_lock` is for processes of one machine, or of a file system whose locks hold across nodes; `try_lease` holds across
nodes on every file system, by a file that its holder touches.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from filelock import BaseFileLock, FileLock, SoftFileLease, SoftFileLock, Timeout

__all__ = ["holder_of", "is_locked", "try_lease", "try_lock", "wait_for_lock"]

logger = logging.getLogger(__name__)

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


@contextlib.contextmanager
def try_lock(path: Path) -> Iterator[bool]:
    """Hold the lock `path` (made, folder included, and left behind empty); yield False when another process holds it.

    On a file system without locks a file's existence is the lock: it holds against processes of other machines too, and
    one that a killed process of this machine left behind is taken over.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock: BaseFileLock = FileLock(path, timeout=0)
    try:
        lock = _acquired(lock, path)
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def _acquired(lock: BaseFileLock, path: Path) -> BaseFileLock:
    """Return the lock, held; or one that needs no help of the file system."""
    try:
        lock.acquire()
    except (OSError, NotImplementedError) as error:
        # filelock turns ENOSYS into NotImplementedError.
        if isinstance(error, Timeout) or (isinstance(error, OSError) and error.errno not in _NO_LOCKS):
            raise
        logger.warning("%s: this file system has no locks; a file's existence is the lock", path)
        lock = _by_existence(path)
        lock.acquire()
    return lock


def _by_existence(path: Path) -> BaseFileLock:
    return SoftFileLock(path.with_name(f"{path.name}.held"), timeout=0)


@contextlib.contextmanager
def try_lease(path: Path, lost: Callable[[], None], *, seconds: float = 60.0) -> Iterator[str | None]:
    """Hold the lease `path`, touched while the block runs; yield None, or who holds it: `process 12 on host x`.

    A lease of a process of this machine that has ended is taken at once, one of another machine when it was not
    touched for `seconds`: this call waits so long to see.

    Args:
        path: its file, removed at the end.
        lost: called from a thread when another process took the lease, as after a suspended machine wakes up.
        seconds: without a touch for so long, the holder counts as dead.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lease = SoftFileLease(path, timeout=0, lease_duration=seconds, on_compromise=lambda _: lost())
    try:
        _take(lease, path, seconds)
    except Timeout:
        yield _holder(path)
        return
    try:
        yield None
    finally:
        lease.release()


def _take(lease: SoftFileLease, path: Path, seconds: float) -> None:
    try:
        lease.acquire()
    except Timeout:
        if _holder(path).endswith(f" on host {socket.gethostname()}"):
            raise
        logger.info("%s holds %s; waiting %.0f s to see whether it still lives", _holder(path), path, seconds)
        lease.acquire(timeout=1.25 * seconds, poll_interval=min(1.0, seconds / 10))


def holder_of(path: Path, *, seconds: float = 60.0) -> str | None:
    """Return who holds a lease, `process 12 on host x`; None where nobody does. Changes nothing on disk.

    A process of this machine is looked for; one of another counts while it touched the lease lately.
    """
    try:
        text, touched = path.read_text("utf-8", errors="replace"), path.stat().st_mtime
    except OSError:
        return None
    found = _record(text)
    if found.get("host") != socket.gethostname():
        return _holder(path) if time.time() - touched < 2 * seconds else None
    try:
        os.kill(int(found.get("pid", "0")), 0)
    except (ProcessLookupError, ValueError):
        return None
    except PermissionError:
        pass
    return _holder(path)


def _holder(path: Path) -> str:
    """Return whom the lease's file names."""
    try:
        text = path.read_text("utf-8", errors="replace")
    except OSError:
        return "another call"
    found = _record(text)
    return (
        f"process {found['pid']} on host {found['host']}"
        if {"pid", "host"} <= found.keys()
        else "another call"
    )


def _record(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


@contextlib.contextmanager
def wait_for_lock(path: Path, waiting: str) -> Iterator[None]:
    """Hold the lock `path`; log `waiting` and wait while another process holds it."""
    said = False
    while True:
        with try_lock(path) as held:
            if held:
                yield
                return
        if not said:
            logger.info("%s", waiting)
            said = True
        time.sleep(0.2)


def is_locked(path: Path) -> bool:
    """Return whether another process holds the lock `path`."""
    if not path.is_file() and not path.with_name(f"{path.name}.held").is_file():
        return False
    lock: BaseFileLock = FileLock(path, timeout=0)
    try:
        with lock:
            return False
    except Timeout:
        return True
    except (OSError, NotImplementedError):
        try:
            with _by_existence(path):
                return False
        except Timeout:
            return True
