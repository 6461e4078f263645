"""The folder of shards: where unfinished shards are written, and where finished ones are put.

    out/.state/     the unfinished shards and their other files, the record from which a killed run is resumed, the
                    tokens of parts, and the lease of the process that writes
    out/train/, out/validation/, out/tokenizer/, out/provenance.json, and at last out/manifest.json

Until shards are complete, only `.state` is written to. Then their files move out of it, the manifest last, so that a
folder with a manifest is complete. Files of users or of other programs are never replaced or removed: shards are not
written where such files are. A finished shard is only replaced if the manifest lists it and it is damaged.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path

from common.errors import UserError
from common.files import (
    TAG,
    is_marked,
    mark_cache,
    remove_folder,
    remove_leftovers,
    sync_folder,
)
from common.locks import try_lease
from common.manifest import MANIFEST, strangers
from common.plain_text import first_of
from common.provenance import PROVENANCE
from pretraining.data.shard_manifest import INDEX, SHARD_SPLITS, UNFINISHED

_PARTS = (*SHARD_SPLITS, "tokenizer", PROVENANCE, MANIFEST)
"""Names of the folders and files of finished shards, in the order in which they move out of `.state`."""
_LEASE = "lock"
"""Name of the file in `.state` that a process holds while it writes there."""


def others_in(out: Path, names: Iterable[str] = _PARTS) -> str:
    """Return in words which files that are not this package's stand where shards would be put.

    Args:
        out: a folder without finished shards.
        names: names of folders and files of finished shards to look at.

    Returns:
        The end of a sentence that begins with the folder's path; empty if there are no such files.
    """
    places = list(names)
    # A folder `.state` without this package's mark is another program's.
    if not is_marked(out / UNFINISHED):
        places.append(UNFINISHED)

    # Without finished shards, no record lists files of this package (`{}`): those at these places are
    # another's.
    others = strangers(out, {}, places)
    if not others:
        return ""

    # A split's index is a file of MosaicML's streaming, so other programs write it, too.
    is_dataset = any(f"{split}/{INDEX}" in others for split in SHARD_SPLITS)
    what = "shards of another program" if is_dataset else "other files"
    return f"holds {what} ({first_of(others)})"


def refuse_others(out: Path, names: Iterable[str] = _PARTS) -> None:
    """Refuse a folder in which files that are not this package's stand where shards would be put.

    Args:
        out: a folder without finished shards.
        names: names of folders and files of finished shards to look at.

    Raises:
        UserError: there are such files; the message names one.
    """
    others = others_in(out, names)
    if others:
        raise UserError(f"{out} {others}; choose another --out")


def publish(out: Path) -> bool:
    """Move complete shards out of `.state`, if there are any, the manifest last.

    If the folder has complete shards already, files that were written again take the place of damaged or missing ones.
    If a call is killed meanwhile, the next one moves the remaining files.

    Returns:
        Whether the folder has complete shards afterwards.

    Raises:
        UserError: files that are not this package's stand where shards would be put.
    """
    state = out / UNFINISHED
    is_complete = (out / MANIFEST).exists()
    # The manifest is written last, so shards in `.state` without one are unfinished. A folder `.state`
    # without this package's mark is another program's, whatever is in it.
    if not is_marked(state) or not (state / MANIFEST).is_file():
        return is_complete
    if not is_complete:
        # Names that are no longer in `.state` were moved by a killed call.
        refuse_others(out, [name for name in _PARTS if (state / name).exists()])

    # The files move out in two cases: the folder has no complete shards yet, or it has those of the same
    # manifest, of which `.state` has files that were written again. Complete shards of another manifest stay:
    # a process that took over the lease has finished them here, and the shards in `.state` are dropped.
    if not is_complete or _same(out / MANIFEST, state / MANIFEST):
        # The manifest moves last: whoever finds it finds the other files.
        for name in _PARTS:
            # Another process may have just moved the same file.
            with contextlib.suppress(FileNotFoundError):
                _move(state / name, out / name)
            # A crash may lose names that are not yet on the disk: the manifest's name must reach it last.
            sync_folder(out)

    remove_unfinished(out)
    return True


@contextlib.contextmanager
def writing(out: Path) -> Iterator[None]:
    """Make the folder `.state` and hold its lease while the block runs, so that only one process writes there.

    If the block leaves nothing to resume from, the folder is removed.

    Raises:
        UserError: another process holds the lease.
    """
    state = out / UNFINISHED
    mark_cache(state)

    def end_process() -> None:
        """End this process, which has lost the lease: the process that took it over writes from here on.

        A thread calls this, and an error that it raised would not reach the main thread, which writes.
        """
        os.kill(os.getpid(), signal.SIGTERM)

    try:
        with try_lease(state / _LEASE, end_process) as holder:
            # None: this process has the lease. Else the words name the process that has it.
            if holder is not None:
                raise UserError(
                    f"{holder} is writing shards in {out}; wait for it, or choose another --out"
                )
            yield
    finally:
        # Where the shards are complete, `publish` has removed the folder.
        with contextlib.suppress(FileNotFoundError):
            # Nothing to resume from: the folder has only the file that marks it.
            if all(path.name == TAG for path in state.iterdir()):
                remove_unfinished(out)


def _same(path: Path, other: Path) -> bool:
    """Return whether two files have the same content; also true if one has just moved to the other's place."""
    with contextlib.suppress(FileNotFoundError):
        return path.read_bytes() == other.read_bytes()
    return True  # another process has just moved one of them


def _move(path: Path, place: Path) -> None:
    """Move a file or folder to a place; if the place is a folder already, the files move into it."""
    if path.is_dir() and place.is_dir():
        # Files that were written again take the place of damaged ones; all others in the folder stay.
        for file in path.iterdir():
            file.replace(place / file.name)
        sync_folder(place)
        path.rmdir()
    else:
        path.replace(place)


def remove_unfinished(out: Path) -> None:
    """Remove the folder `.state` with the unfinished shards, and the folder of the shards if nothing else is in it."""
    # Temporary files and folders of processes that were killed while they wrote or removed `.state`.
    remove_leftovers(out, UNFINISHED)
    with contextlib.suppress(FileNotFoundError):  # another process has just removed it
        if is_marked(out / UNFINISHED):
            remove_folder(out / UNFINISHED)
    # Fails where other files are in the folder, which then stays.
    with contextlib.suppress(OSError):
        out.rmdir()
