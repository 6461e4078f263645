"""The folder of shards: what they take there, and the place where they grow until they are complete.

    out/.state/     all of what follows while it is written, the record of a killed run, the tokens of parts, and the
                    lease of the process that writes
    out/train/, out/validation/, out/tokenizer/, out/provenance.json, and at last out/manifest.json

Until they are complete nothing but `.state` is touched. Replaced is only what a manifest there lists and is not so.
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
"""What finished shards are, in the order in which they leave `.state`."""
_LEASE = "lock"


def others_in(out: Path, names: Iterable[str] = _PARTS) -> str:
    """Return what others have put where shards would go, for a sentence that begins with the folder; "": nothing.

    Args:
        out: a folder without finished shards.
        names: which of their places to look at.
    """
    places = list(names)
    if not is_marked(out / UNFINISHED):
        places.append(UNFINISHED)
    others = strangers(out, {}, places)
    if not others:
        return ""
    is_dataset = any(f"{split}/{INDEX}" in others for split in SHARD_SPLITS)
    what = "shards of another program" if is_dataset else "other files"
    return f"holds {what} ({first_of(others)})"


def refuse_others(out: Path, names: Iterable[str] = _PARTS) -> None:
    """Refuse a folder in which something of others is where shards would go.

    Raises:
        UserError: the sentence names it.
    """
    others = others_in(out, names)
    if others:
        raise UserError(f"{out} {others}; choose another --out")


def publish(out: Path) -> bool:
    """Move complete shards out of `.state`, the manifest last; return whether `out` has one then.

    Of shards that have a manifest, what is made again takes its place. A call that is killed meanwhile leaves the rest
    to the next one.

    Raises:
        UserError: something of others is in a place of theirs.
    """
    state = out / UNFINISHED
    is_complete = (out / MANIFEST).exists()
    if not is_marked(state) or not (state / MANIFEST).is_file():
        return is_complete
    if not is_complete:
        refuse_others(out, [name for name in _PARTS if (state / name).exists()])
    # A process that took over the lease may have finished other shards there meanwhile.
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
    """Hold the lease of the unfinished shards; a process that loses it ends.

    A block that leaves nothing to resume from leaves no folder.

    Raises:
        UserError: another process holds it.
    """
    state = out / UNFINISHED
    mark_cache(state)

    def end_process() -> None:
        # The process that took the lease continues from here: this one must not write any more.
        os.kill(os.getpid(), signal.SIGTERM)

    try:
        with try_lease(state / _LEASE, end_process) as holder:
            if holder is not None:
                raise UserError(
                    f"{holder} is writing shards in {out}; wait for it, or choose another --out"
                )
            yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            if all(path.name == TAG for path in state.iterdir()):
                remove_unfinished(out)


def _same(path: Path, other: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return path.read_bytes() == other.read_bytes()
    return True  # another process has just moved one to the other's place


def _move(path: Path, place: Path) -> None:
    """Move a file, or a folder: into the one that is there."""
    if path.is_dir() and place.is_dir():
        for file in path.iterdir():
            file.replace(place / file.name)
        sync_folder(place)
        path.rmdir()
    else:
        path.replace(place)


def remove_unfinished(out: Path) -> None:
    """Remove what is unfinished, and the folder if nothing else is in it."""
    remove_leftovers(out, UNFINISHED)
    with contextlib.suppress(FileNotFoundError):  # another process has just removed it
        if is_marked(out / UNFINISHED):
            remove_folder(out / UNFINISHED)
    with contextlib.suppress(OSError):
        out.rmdir()
