"""One process at a time: a lease, a file that its holder touches and a killed holder loses (the `filelock` library).

It holds across nodes and containers, on every file system: nothing asks for flock, which some do not have.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from filelock import SoftFileLease, Timeout
from filelock._identity import host_name, owner_is_stale
from filelock._marker import _PROTOCOL, OwnerRecord
from filelock._util import pin_inode

from common.errors import UserError
from common.files import is_alive

logger = logging.getLogger(__name__)

_SECONDS = 60.0
"""A holder touches its lease three times in these; after twice as long without a touch it counts as dead."""


class _Lease(SoftFileLease):
    """A lease with its age by the file system's clock, so that nobody has to watch it to see that it is old."""

    def _marker_unchanged_for(self, marker: os.stat_result) -> float:
        # The library counts a zombie as alive and then asks for the lease's age: a dead holder's is infinite.
        if _is_gone(self.owner):
            return math.inf
        # The library takes a lease over once this reaches `_SECONDS`. Half the age: a late touch may be on its way.
        return (_now(Path(self.lock_file).parent) - marker.st_mtime) / 2

    def _try_break_stale_lock(self) -> None:
        # The library never removes an empty file, which its early versions wrote as a lease. Here a process was killed
        # before it wrote its name, so the file counts for two minutes, like a lease of an unknown holder.
        with contextlib.suppress(OSError), pin_inode(self.lock_file) as pinned:
            marker = os.lstat(self.lock_file)
            is_same = pinned in (None, marker.st_ino)
            is_old = self._marker_unchanged_for(marker) >= _SECONDS
            if marker.st_size == 0 and is_same and is_old:
                self._take_over(marker, None)
                return
        super()._try_break_stale_lock()

    def _take_over(self, marker: os.stat_result, breaker_pid: int | None) -> None:
        if _is_lease(Path(self.lock_file)):
            super()._take_over(marker, breaker_pid)


@contextlib.contextmanager
def try_lease(
    path: Path, lost: Callable[[], None] = lambda: None
) -> Iterator[str | None]:
    """Hold the lease `path` while the block runs; yield None, or who holds it: `process 12 on host x`. Never waits.

    A lease of a process of this machine that has ended is taken at once, another when it was not touched for two
    minutes.

    Args:
        path: the lease's file, removed at the end.
        lost: called from a thread when another process took the lease, as after a suspended machine wakes up.

    Raises:
        UserError: a file of somebody else's is there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lease = _Lease(
        path, timeout=0, lease_duration=_SECONDS, on_compromise=lambda _: lost()
    )
    try:
        lease.acquire()
    except Timeout:
        if not _is_lease(path):
            raise UserError(
                f"{path} is not what this package writes there; move it elsewhere, or choose another folder"
            ) from None
        yield _words(lease)
        return
    try:
        yield None
    finally:
        lease.release()


@contextlib.contextmanager
def wait_for_lease(path: Path, waiting: str) -> Iterator[None]:
    """Hold the lease `path`; log `waiting` and wait while another process holds it."""
    is_logged = False
    while True:
        with try_lease(path) as holder:
            if holder is None:
                yield
                return
        if not is_logged:
            logger.info("%s", waiting)
            is_logged = True
        time.sleep(0.2)


def holder_of(path: Path) -> str | None:
    """Return who holds a lease, `process 12 on host x`; None where nobody does. The lease does not change."""
    lease = _Lease(path)
    try:
        touched = path.stat().st_mtime
    except FileNotFoundError:
        return None
    if _is_gone(lease.owner):
        return None
    return _words(lease) if _now(path.parent) - touched < 2 * _SECONDS else None


def end_holder(path: Path) -> bool:
    """Ask the process that holds a lease to end (SIGTERM); return whether it runs on this machine and may be asked."""
    owner = _Lease(path).owner
    if owner is None or owner.hostname != host_name():
        return owner is None and not path.exists()
    try:
        os.kill(owner.pid, signal.SIGTERM)
    except PermissionError:
        return False
    except ProcessLookupError:
        pass
    return True


def _now(folder: Path) -> float:
    """Return the time by the clock that stamps the folder's files; this machine's where it cannot be written to."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder) as file:
            return os.fstat(file.fileno()).st_mtime
    except OSError:
        return time.time()


def _is_gone(owner: OwnerRecord | None) -> bool:
    """Return whether a holder is a process of this machine that has ended, be it a zombie that nobody waited for."""
    if owner is None:
        return False
    if owner_is_stale(owner.pid, owner.hostname, owner.start):
        return True
    return owner.hostname == host_name() and not is_alive(owner.pid)


def _is_lease(path: Path) -> bool:
    """Return whether a file begins as a lease does, be it cut short; also where there is none any more."""
    begin = _PROTOCOL.encode()
    try:
        with path.open("rb") as file:
            return begin.startswith(file.read(len(begin)))
    except FileNotFoundError:
        return True


def _words(lease: SoftFileLease) -> str:
    owner = lease.owner
    if owner is None:
        return "another process"
    return f"process {owner.pid} on host {owner.hostname}"
