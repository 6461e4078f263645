"""One process at a time: a lock that waits, and that a process loses by ending in any way."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
from collections.abc import Iterator
from pathlib import Path

__all__ = ["wait_for_lock"]

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def wait_for_lock(path: Path, waiting: str) -> Iterator[None]:
    """Hold the lock `path` (made, folder included, and left behind empty); log `waiting` while another holds it.

    A file system without locks is taken as it is: the block runs unprotected.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.info("%s", waiting)
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
                raise
        yield
