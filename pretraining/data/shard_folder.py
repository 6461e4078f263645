"""The folder of shards: what they take there, and the place where they grow until they are complete.

    out/.state/     all of what follows while it is written, the record of a killed run, and the tokens of parts
    out/train/, out/validation/, out/tokenizer/, out/provenance.json, and at last out/manifest.json

Until they are complete nothing but `.state` is touched, and nothing is ever replaced.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from common.errors import UserError
from common.files import is_marked, remove_folder, remove_leftovers, sync_folder
from common.manifest import MANIFEST, strangers
from common.plain_text import first_of
from common.provenance import PROVENANCE
from pretraining.data.shard_index import INDEX
from pretraining.data.shard_manifest import SHARD_SPLITS, UNFINISHED

_PARTS = (*SHARD_SPLITS, "tokenizer", PROVENANCE, MANIFEST)
"""What finished shards are, in the order in which they leave `.state`."""


def others_in(out: Path, names: Iterable[str] = _PARTS) -> str:
    """Return what others have put where shards would go, for a sentence that begins with the folder; "": nothing.

    Args:
        out: a folder without finished shards.
        names: which of their places to look at.
    """
    places = list(names)
    if not is_marked(out / UNFINISHED):
        places.append(UNFINISHED)
    found = strangers(out, {}, places)
    if not found:
        return ""
    is_dataset = any(f"{split}/{INDEX}" in found for split in SHARD_SPLITS)
    what = "shards of another program" if is_dataset else "other files"
    return f"holds {what} ({first_of(found)})"


def check_place(out: Path, names: Iterable[str] = _PARTS) -> None:
    """Refuse a folder in which something of others is where shards would go.

    Raises:
        UserError: the sentence names it.
    """
    if others := others_in(out, names):
        raise UserError(f"{out} {others}; choose another --out")


def publish(out: Path) -> bool:
    """Move complete shards out of `.state`, the manifest last; return whether `out` has one then.

    A call that is killed meanwhile leaves the rest to the next one.

    Raises:
        UserError: something of others is in a place of theirs.
    """
    state = out / UNFINISHED
    is_complete = (out / MANIFEST).exists()
    if not is_complete and is_marked(state) and (state / MANIFEST).is_file():
        left = [name for name in _PARTS if (state / name).exists()]
        check_place(out, left)
        for name in left:
            # Another process has just moved it
            with contextlib.suppress(FileNotFoundError):
                (state / name).replace(out / name)
            sync_folder(out)
        is_complete = True
    if is_complete:
        remove_unfinished(out)
    return is_complete


def remove_unfinished(out: Path) -> None:
    """Remove what is unfinished, and the folder if nothing else is in it."""
    remove_leftovers(out, UNFINISHED)
    with contextlib.suppress(FileNotFoundError):  # another process has just removed it
        if is_marked(out / UNFINISHED):
            remove_folder(out / UNFINISHED)
    with contextlib.suppress(OSError):
        out.rmdir()
