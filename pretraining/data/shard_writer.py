"""Shards while they are written: the shards so far, the position in the source, and which texts have been seen.

This state is saved whenever a shard has been written, so that a killed run can be resumed. It is saved in a file, the
record, to which a block is appended with what is new since the block before. A block is a line of JSON, then the
digests of new texts, then the tokens of each split that no shard holds yet (pending tokens). It names the block before
it by a hash. A resumed run restores all whole blocks, continues after the last of them, and ends with the same bytes as
a run that was not killed.
"""

from __future__ import annotations

import io
import json
import logging
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import zstandard

from common.errors import UserError
from common.files import (
    append_bytes,
    mark_cache,
    remove_folder,
    sha256_bytes,
    write_bytes,
)
from common.manifest import another_shape, check_file
from common.plain_text import first_of
from common.reading import open_plain
from pretraining.data.blocks import packed_block, read_block
from pretraining.data.corpus import Document
from pretraining.data.seen_texts import SeenTexts, packed
from pretraining.data.shard_manifest import (
    COMPRESSION,
    MDS_COLUMNS,
    RECORD,
    SHARD_SPLITS,
    UNFINISHED,
    Shard,
    check_request,
)
from pretraining.data.token_stream import Tokens

logger = logging.getLogger(__name__)

_RECORD = "record"
"""Name of the record's file."""


def write_shard(
    folder: Path, number: int, tokens: Tokens, place: Path | None = None
) -> Shard:
    """Write tokens as a shard of a split, unless the finished split has it already.

    Args:
        folder: folder in which the split is written.
        number: place of the shard in the stream, from 0.
        tokens: 1-D, int32; whole records, but for the last shard of a split.
        place: folder of the finished split, where complete shards may have this one; None: there is no such folder.
    """
    # Imported here: it imports torchvision and transformers, which takes seconds.
    from streaming.base.format import MDSWriter

    hashes = ["sha256"]
    # MDSWriter only encodes: its own way of compressing takes half as long again. It demands a folder, but writes no
    # file there. Without a limit of size, it keeps all records for one shard.
    with tempfile.TemporaryDirectory() as unused:
        writer = MDSWriter(
            columns=MDS_COLUMNS, out=unused, hashes=hashes, size_limit=None
        )

    for first in range(0, len(tokens), RECORD):
        writer.write({"tokens": tokens[first : first + RECORD]})
    data = writer.encode_joint_shard()

    # Level 1: the default, 3, would save a tenth of the disk but be a twelfth of all work (with tiktoken).
    compressed = zstandard.compress(data, COMPRESSION)
    shard = Shard(
        number=number,
        samples=len(writer.new_samples),
        size=len(data),
        sha256=sha256_bytes(data),
        packed_size=len(compressed),
        packed_sha256=sha256_bytes(compressed),
    )
    if place is None or not is_there(place, shard):
        write_bytes(folder / shard.packed_name, compressed)
    return shard


def is_there(folder: Path, shard: Shard) -> bool:
    """Return whether a folder has the compressed file of a shard, undamaged."""
    try:
        check_file(folder / shard.packed_name, shard.packed_sha256)
    except (FileNotFoundError, UserError):
        return False
    return True


@dataclass(kw_only=True)
class SplitWriter:
    """One split while it is written."""

    name: str
    """`train` or `validation`."""
    folder: Path = field(repr=False)
    """Folder in which the split's shards are written."""
    place: Path = field(repr=False)
    """Folder of the finished split; shards that are there already are not written again."""
    shards: list[Shard] = field(default_factory=list)
    """The shards written so far."""
    pending: bytearray = field(default_factory=bytearray)
    """Tokens that no shard holds yet, 4 bytes each."""
    documents: int = 0
    """Number of documents so far."""
    tokens: int = 0
    """Number of tokens so far, pending ones included."""
    saved: tuple[int, int] = (0, 0)
    """How many of the shards, and how many of the first bytes of `pending`, the record has already."""

    def add(self, tokens: Tokens) -> None:
        """Append a document's tokens."""
        self.pending += tokens.tobytes()
        self.tokens += len(tokens)
        self.documents += 1

    def write(self, size: int, *, last: bool = False) -> bool:
        """Write the pending tokens as shards, as far as they fill any.

        Args:
            size: tokens of a shard.
            last: whether no tokens will follow, so that the rest is written as a shorter shard.

        Returns:
            Whether a shard was written.
        """
        count_before, shard_bytes = len(self.shards), 4 * size
        while len(self.pending) >= shard_bytes or (last and self.pending):
            # A slice is a copy, so that `pending` can be cut while the array is in use.
            part = np.frombuffer(self.pending[:shard_bytes], np.int32)
            # `.state`, the parent, is made with its mark if it is missing: without the mark, a later call
            # would take it for another program's.
            mark_cache(self.folder.parent)
            number = len(self.shards)
            self.shards.append(write_shard(self.folder, number, part, self.place))
            del self.pending[:shard_bytes]

            # Which pending tokens does the record have now? It is only written after all full shards are,
            # while less than a shard is pending. The pending tokens that it had were therefore fewer than a
            # shard, and this shard holds all of them. Of the tokens that are still pending it has none: 0
            # bytes.
            shards_saved, _ = self.saved
            self.saved = (shards_saved, 0)

        return len(self.shards) > count_before

    def has(self, shard: Shard) -> bool:
        """Return whether a shard is in the folder of unfinished or of finished shards, undamaged."""
        return is_there(self.folder, shard) or is_there(self.place, shard)


@dataclass(kw_only=True)
class ShardPosition:
    """How far the source has been read, and what was left out of it."""

    file: int = 0
    """Number of the file that was read last."""
    row: int = 0
    """Number of the next row in that file, at which reading continues."""
    read_bytes: int = 0
    """How many bytes of that file have been read."""
    duplicates: int = 0
    """Documents dropped because their text had been seen."""
    empty: int = 0
    """Documents dropped because they had no text."""
    characters: int = 0
    """Characters of the written documents."""
    unknown: int = 0
    """Tokens of the written documents that stand for text which the tokenizer does not know."""


class ShardWriter:
    """The unfinished shards of a folder, with the record from which a killed run is resumed; both are in `.state`."""

    def __init__(
        self, out: Path, request: Mapping[str, Any], states: Sequence[str] = ()
    ) -> None:
        """Begin, or resume where a run with the same request stopped.

        The request of the run before stands in the record's first block. If that is missing or damaged,
        nothing tells of which request the shards are, and they are removed.

        Args:
            out: folder of the shards.
            request: all that the shards' bytes depend on: source, tokenizer and settings.
            states: `TextSource.states` of the source.

        Raises:
            UserError: the folder holds the unfinished shards of another request.
        """
        self._out = out
        self.folder = out / UNFINISHED
        """Folder in which the shards are written."""
        self._record = self.folder / _RECORD
        self.splits: dict[str, SplitWriter] = {}
        for name in SHARD_SPLITS:
            self.splits[name] = SplitWriter(
                name=name, folder=self.folder / name, place=out / name
            )

        self.position = ShardPosition()
        self._seen = SeenTexts()
        # Digests of texts that are new since the last `save`.
        self._unsaved_digests = bytearray()

        # Fields that only the first block of each run has; empty once this run has written that block.
        self._head: dict[str, Any] = {"request": dict(request), "states": list(states)}
        self.states_read: list[Any] = self._head["states"]
        """States of the source's files when the last run before this one began; without such a run, those of now."""
        self.hashes: list[str] = []
        """SHA-256 of the source's first local files: of all those that have been read, at least in part."""
        self._hashes_saved = 0

        # Hash of the record's last block; empty while there is none.
        self._last_hash = ""
        # Also true of a link that leads nowhere: opening it fails, so that nothing is appended through it.
        if os.path.lexists(self._record):
            self._load()

        # No block was restored, as after a kill before the first `save`, or where the record is damaged from
        # its begin on. Shards that are there may be of any request, and more than this run will write over.
        if not self._last_hash:
            for split in self.splits.values():
                if split.folder.is_dir():
                    remove_folder(split.folder)

    @property
    def tokens(self) -> int:
        """Tokens of all splits so far."""
        return sum(split.tokens for split in self.splits.values())

    def unseen(self, digests: Sequence[bytes]) -> npt.NDArray[np.bool_]:
        """Return for each digest of a text whether no document before had that text, and remember all of them."""
        are_new = self._seen.add(digests)
        pairs = zip(digests, are_new, strict=True)
        new_digests = [digest for digest, is_new in pairs if is_new]
        self._unsaved_digests += packed(new_digests)
        return are_new

    def add(
        self,
        document: Document,
        tokens: Tokens,
        split: str | None,
        *,
        unknown_id: int | None = None,
    ) -> None:
        """Append a document to a split, and move the position to the row after it.

        An empty document is only counted.

        Args:
            document: the document.
            tokens: the document's tokens.
            split: name of the split; None for a text that has been seen before, which is only counted.
            unknown_id: id of the token for unknown text, which is counted; None for a tokenizer without one.
        """
        position = self.position
        position.file, position.row = document.file, document.row
        position.read_bytes = document.read_bytes
        if not document.characters:
            position.empty += 1
        elif split is None:
            position.duplicates += 1
        else:
            position.characters += document.characters
            if unknown_id is not None:
                position.unknown += int(np.count_nonzero(tokens == unknown_id))
            self.splits[split].add(tokens)

    def save(self) -> None:
        """Append a block to the record with all that is new since the last one."""
        # The bytes that follow the line of JSON: digests, then the pending tokens of each split.
        parts = [bytes(self._unsaved_digests)]
        # Only the first block of a run has the request and the files' states.
        fields = self._head | {
            "after": self._last_hash,
            "hashes": self.hashes[self._hashes_saved :],
            "position": asdict(self.position),
        }
        for name, split in self.splits.items():
            shards_saved, bytes_saved = split.saved
            parts.append(bytes(split.pending[bytes_saved:]))
            fields[name] = {
                "shards": [asdict(shard) for shard in split.shards[shards_saved:]],
                "documents": split.documents,
                "tokens": split.tokens,
            }
            split.saved = (len(split.shards), len(split.pending))

        fields["bytes"] = [len(part) for part in parts]
        line = json.dumps(fields, sort_keys=True).encode()
        data = b"\n".join([line, b"".join(parts)])
        self._last_hash = sha256_bytes(data)

        # A block is appended: writing the whole record again at each of 6,000 shards took minutes.
        append_bytes(self._record, packed_block(data))
        self._head, self._hashes_saved = {}, len(self.hashes)
        self._unsaved_digests.clear()

    def _load(self) -> None:
        """Restore what the record's blocks say, up to the first damaged one; the rest of the record is cut off.

        Raises:
            UserError: the record is that of another request, or does not have the form that `save` writes.
        """
        remedy = f"remove {self._out} and run the same command again"
        whole_bytes = 0
        # Fields that a block lacks become a `UserError` with the remedy (`another_shape`). A pipe under the
        # record's name is refused (`open_plain`), since this process would wait for it forever.
        with (
            another_shape(self._record, remedy),
            os.fdopen(open_plain(self._record), "rb") as file,
        ):
            while True:
                # The end of the file, like a damaged block, raises a ValueError. A record never has the zeros
                # that end a complete file (None), so they count as damage: the empty line is not JSON.
                try:
                    data = read_block(file) or b""
                    line, _, content = data.partition(b"\n")
                    fields = json.loads(line)
                except ValueError:
                    break

                # Two processes may have appended: one that lost its lease, and its successor. Only blocks that follow
                # one another are restored.
                if fields["after"] != self._last_hash:
                    break
                if "request" in fields:
                    request = self._head["request"]
                    old_request = fields["request"]
                    check_request(self._out, old_request, request, "unfinished shards")
                    self.states_read = fields["states"]

                bad = self._bad_shards(fields)
                if bad:
                    logger.warning(
                        "missing or damaged, so written again: %s", first_of(bad)
                    )
                    break

                # Cut the bytes after the line into the parts that `save` has joined.
                stream = io.BytesIO(content)
                digests, *pending = [stream.read(size) for size in fields["bytes"]]
                self._restore(fields, digests, pending)
                self._last_hash = sha256_bytes(data)
                whole_bytes = file.tell()

        # What follows the last whole block would stand between it and the blocks that this run appends.
        os.truncate(self._record, whole_bytes)

    def _bad_shards(self, fields: Mapping[str, Any]) -> list[str]:
        """Return the shards of a block that are missing or damaged, by path."""
        bad = []
        for split in self.splits.values():
            for shard in _shards(fields[split.name]):
                if not split.has(shard):
                    bad.append(f"{split.name}/{shard.packed_name}")
        return bad

    def _restore(
        self, fields: Mapping[str, Any], digests: bytes, pending: Sequence[bytes]
    ) -> None:
        """Restore what one block says; the blocks before it are restored already.

        Args:
            fields: the block's line of JSON.
            digests: digests of the texts that were new.
            pending: the new pending tokens of each split, in the order of `splits`.
        """
        self._seen.add_all(digests)
        self.hashes += fields["hashes"]
        self._hashes_saved = len(self.hashes)
        self.position = ShardPosition(**fields["position"])
        for (name, split), part in zip(self.splits.items(), pending, strict=True):
            new = fields[name]
            if new["shards"]:  # new shards hold all tokens that were pending before
                split.pending.clear()
            split.pending += part
            split.shards += _shards(new)
            split.documents = new["documents"]
            split.tokens = new["tokens"]
            split.saved = (len(split.shards), len(split.pending))


def _shards(fields: Mapping[str, Any]) -> list[Shard]:
    """Return the shards that a block lists for a split."""
    return [Shard(**shard) for shard in fields["shards"]]
