"""One process at a time: a lease, which is a file that its holder touches again and again (the `filelock` library).

A holder that was killed touches its file no more, so that another process can take the lease. Leases work across nodes
and containers, on every file system: nothing asks for flock, which some do not have.
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
"""A holder touches its lease three times in this time; after twice this time without a touch it counts as dead."""


class _Lease(SoftFileLease):
    """A lease whose age is told by the file system's clock: one look is enough to see that it is old.

    The library's own lease waits and watches its file. The methods replace the library's methods of the same names;
    `marker` is the state of the lease's file.
    """

    def _marker_unchanged_for(self, marker: os.stat_result) -> float:
        """Return for how many seconds the lease has not been touched; the library takes it over from `_SECONDS` on."""
        # The library counts a zombie as alive and then asks for the lease's age: a dead holder's is infinite.
        if _is_gone(self.owner):
            return math.inf
        # A late touch may be on its way: with half the age, the lease is taken over after twice `_SECONDS`.
        age = _now(Path(self.lock_file).parent) - marker.st_mtime
        return age / 2

    def _try_break_stale_lock(self) -> None:
        """Take a lease over if its holder is dead or has not touched it for too long."""
        # The library never removes an empty file, which its early versions wrote as a lease. Here a process
        # was killed before it wrote its name, so the file counts for two minutes, like a lease of an unknown
        # holder: `_marker_unchanged_for` returns half its age, which reaches `_SECONDS` after twice that time.
        with contextlib.suppress(OSError), pin_inode(self.lock_file) as pinned:
            marker = os.lstat(self.lock_file)
            # `pin_inode` keeps the number of the file from going to a new file, which another process may have put in
            # its place. None: nothing can be pinned, as on Windows.
            is_same = pinned in (None, marker.st_ino)
            is_old = self._marker_unchanged_for(marker) >= _SECONDS
            if marker.st_size == 0 and is_same and is_old:
                # None: an empty file names no process that held the lease.
                self._take_over(marker, None)
                return
        super()._try_break_stale_lock()

    def _take_over(self, marker: os.stat_result, breaker_pid: int | None) -> None:
        """Remove the lease's file, but never a file that somebody else's program wrote there."""
        if _is_lease(Path(self.lock_file)):
            super()._take_over(marker, breaker_pid)


@contextlib.contextmanager
def try_lease(
    path: Path, lost: Callable[[], None] = lambda: None
) -> Iterator[str | None]:
    """Hold the lease `path` while the block runs, without waiting for it.

    Yields None if the block has the lease, else who holds it: `process 12 on host x`.

    A lease that another process has left is taken: at once if that process ran on this machine and has ended, else when
    the lease was not touched for two minutes.

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
    """Hold the lease `path` while the block runs; before, wait while another process holds it.

    Args:
        path: the lease's file.
        waiting: a sentence for the log, once, if there is anything to wait for.
    """
    is_logged = False
    while True:
        with try_lease(path) as holder:
            # None: this process has the lease, so the caller's block runs here.
            if holder is None:
                yield
                return
        if not is_logged:
            logger.info("%s", waiting)
            is_logged = True
        time.sleep(0.2)


def holder_of(path: Path) -> str | None:
    """Return who holds a lease, `process 12 on host x`; None where nobody does. The lease does not change."""
    # This object only reads the file: the lease is not acquired.
    lease = _Lease(path)
    try:
        touched = path.stat().st_mtime
    except FileNotFoundError:
        return None
    if _is_gone(lease.owner):
        return None
    is_held = _now(path.parent) - touched < 2 * _SECONDS
    return _words(lease) if is_held else None


def end_holder(path: Path) -> bool:
    """Ask the process that holds a lease to end (SIGTERM).

    Returns:
        Whether it was asked or has ended already; False for a process of another machine or of another user.
    """
    owner = _Lease(path).owner
    if owner is None:
        # Without a file, nobody holds the lease. A file that names no process is held by one that cannot be asked.
        return not path.exists()

    if owner.hostname != host_name():
        return False
    try:
        os.kill(owner.pid, signal.SIGTERM)
    except PermissionError:
        return False
    except ProcessLookupError:
        pass

    return True


def _now(folder: Path) -> float:
    """Return the time by the clock that stamps the folder's files; this machine's time where nothing can be written.

    A file system on another machine has a clock of its own, with which the times of its files are compared.
    """
    try:
        with tempfile.NamedTemporaryFile(dir=folder) as file:
            return os.fstat(file.fileno()).st_mtime
    except OSError:
        return time.time()


def _is_gone(owner: OwnerRecord | None) -> bool:
    """Return whether a lease's holder is a process of this machine that has ended.

    A zombie, an ended process whose parent has not asked for its exit code, has ended as well.
    """
    # Who holds the lease is not known.
    if owner is None:
        return False
    if owner_is_stale(owner.pid, owner.hostname, owner.start):
        return True
    return owner.hostname == host_name() and not is_alive(owner.pid)


def _is_lease(path: Path) -> bool:
    """Return whether a file begins as a lease does, also one that is empty or cut short, or that is no longer there."""
    begin = _PROTOCOL.encode()
    try:
        with path.open("rb") as file:
            # What can be read must be a beginning of `begin`, not the other way round: the file may be shorter.
            return begin.startswith(file.read(len(begin)))
    except FileNotFoundError:
        return True


def _words(lease: SoftFileLease) -> str:
    """Return in words who holds a lease."""
    owner = lease.owner
    if owner is None:
        return "another process"
    return f"process {owner.pid} on host {owner.hostname}"
