"""One process at a time: file locks that a process loses by ending in any way (the `filelock` library)."""

from __future__ import annotations

import contextlib
import errno
import logging
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

__all__ = ["is_locked", "try_lock", "wait_for_lock"]

logger = logging.getLogger(__name__)

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


@contextlib.contextmanager
def try_lock(path: Path) -> Iterator[bool]:
    """Hold the lock `path` (made, folder included, and left behind empty); yield False when another process holds it.

    On a file system without locks the block runs unprotected, after a warning.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        yield False
        return
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        logger.warning("%s: this file system has no locks; do not start a second process here", path)
    try:
        yield True
    finally:
        lock.release()


@contextlib.contextmanager
def wait_for_lock(path: Path, waiting: str) -> Iterator[None]:
    """Hold the lock `path`; log `waiting` and wait while another process holds it."""
    with try_lock(path) as held:
        if held:
            yield
            return
    logger.info("%s", waiting)
    with FileLock(path, poll_interval=0.2):
        yield


def is_locked(path: Path) -> bool:
    """Return whether another process holds the lock `path`; changes nothing on disk."""
    if not path.is_file():
        return False
    try:
        with FileLock(path, timeout=0):
            return False
    except OSError as error:  # a file system without locks, unless it is the time-out
        return isinstance(error, Timeout)
