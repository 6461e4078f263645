"""Shards being written: the splits so far, the position in the source and the documents seen.

Whenever a shard has been written, what is new of all that is appended to a file as a block: a line of JSON, then
digests, and tokens that no shard holds yet. A block names the one before it by a hash. A killed run resumes behind the
last whole block, and ends with the same bytes.
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


def write_shard(
    folder: Path, number: int, tokens: Tokens, place: Path | None = None
) -> Shard:
    """Write tokens as a shard of a split, unless it is already where it belongs.

    Args:
        folder: the split's folder.
        number: place of the shard in the stream, from 0.
        tokens: 1-D, int32; whole records, but for the last shard of a split.
        place: folder of the finished split.
    """
    from streaming.base.format import MDSWriter  # imports torchvision and transformers

    hashes = ["sha256"]
    # Only the writer's encoding is used, since its own compression takes half as long again; it demands a folder.
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
    """Return whether a split's folder has a shard, undamaged."""
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
    """Where its shards are written."""
    place: Path = field(repr=False)
    """Where they belong; those that are there already stay."""
    shards: list[Shard] = field(default_factory=list)
    """The shards written."""
    pending: bytearray = field(default_factory=bytearray)
    """Tokens that no shard holds yet, 4 bytes each."""
    documents: int = 0
    """Documents so far."""
    tokens: int = 0
    """Tokens so far, pending ones included."""
    saved: tuple[int, int] = (0, 0)
    """How many of the shards, and of the bytes of `pending`, are saved."""

    def add(self, tokens: Tokens) -> None:
        """Append a document's tokens."""
        self.pending += tokens.tobytes()
        self.tokens += len(tokens)
        self.documents += 1

    def write(self, size: int, *, last: bool = False) -> bool:
        """Write every whole pending shard and, if `last`, the rest as one more; return whether any was written."""
        before, length = len(self.shards), 4 * size
        while len(self.pending) >= length or (last and self.pending):
            part = np.frombuffer(self.pending[:length], np.int32)
            mark_cache(self.folder.parent)
            number = len(self.shards)
            self.shards.append(write_shard(self.folder, number, part, self.place))
            del self.pending[:length]
            # Pending tokens that were saved before are in the shard now, so none of the rest is saved.
            shards_saved, _ = self.saved
            self.saved = (shards_saved, 0)
        return len(self.shards) > before

    def has(self, shard: Shard) -> bool:
        """Return whether a shard is there, undamaged."""
        return is_there(self.folder, shard) or is_there(self.place, shard)


@dataclass(kw_only=True)
class ShardPosition:
    """How far the source has been read, and what was left out of it."""

    file: int = 0
    """Number of the file."""
    row: int = 0
    """Row to resume at."""
    read_bytes: int = 0
    """How far that file has been read."""
    duplicates: int = 0
    """Documents dropped because their text had been seen."""
    empty: int = 0
    """Documents dropped because they had no text."""
    characters: int = 0
    """Characters of the written documents."""
    unknown: int = 0
    """Their tokens that stand for text which the tokenizer does not know."""


class ShardWriter:
    """The unfinished shards of a folder; its `.state` holds them, and what a killed run needs to resume."""

    def __init__(
        self, out: Path, request: Mapping[str, Any], states: Sequence[str] = ()
    ) -> None:
        """Begin, or resume where a run with the same request stopped.

        Args:
            out: folder of the shards.
            request: what their bytes depend on.
            states: `TextSource.states` of the source.

        Raises:
            UserError: the folder holds the unfinished shards of another request.
        """
        self._out = out
        self.folder = out / UNFINISHED
        """Where the shards are written."""
        self._record = self.folder / _RECORD
        self.splits: dict[str, SplitWriter] = {}
        for name in SHARD_SPLITS:
            self.splits[name] = SplitWriter(
                name=name, folder=self.folder / name, place=out / name
            )
        self.position = ShardPosition()
        self._seen = SeenTexts()
        self._fresh = bytearray()  # hashes of texts that are new since the last `save`
        self._head: dict[str, Any] = {"request": dict(request), "states": list(states)}
        self.states_read: list[Any] = self._head["states"]
        self.hashes: list[str] = []
        """The SHA-256 of the source's local files that have been begun."""
        self._hashes_saved = 0
        self._seal = ""
        if os.path.lexists(self._record):
            self._load()
        if not self._seal:  # a run of other settings may have left more shards
            for split in self.splits.values():
                if split.folder.is_dir():
                    remove_folder(split.folder)

    @property
    def tokens(self) -> int:
        """Tokens of all splits so far."""
        return sum(split.tokens for split in self.splits.values())

    def unseen(self, digests: Sequence[bytes]) -> npt.NDArray[np.bool_]:
        """Return for each digest whether no document before it had it, and remember all of them."""
        are_new = self._seen.add(digests)
        pairs = zip(digests, are_new, strict=True)
        self._fresh += packed([digest for digest, is_new in pairs if is_new])
        return are_new

    def add(
        self,
        document: Document,
        tokens: Tokens,
        split: str | None,
        *,
        unknown_id: int | None = None,
    ) -> None:
        """Append a document to a split, unless it is empty or the split is None, for a text that has been seen."""
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
        """Record what is new up to the last document."""
        parts = [bytes(self._fresh)]
        # Only the first block records the request and the files' states.
        record = self._head | {
            "after": self._seal,
            "hashes": self.hashes[self._hashes_saved :],
            "position": asdict(self.position),
        }
        for name, split in self.splits.items():
            shards_saved, bytes_saved = split.saved
            parts.append(bytes(split.pending[bytes_saved:]))
            record[name] = {
                "shards": [asdict(shard) for shard in split.shards[shards_saved:]],
                "documents": split.documents,
                "tokens": split.tokens,
            }
            split.saved = (len(split.shards), len(split.pending))
        record["bytes"] = [len(part) for part in parts]
        line = json.dumps(record, sort_keys=True).encode()
        data = b"\n".join([line, b"".join(parts)])
        self._seal = sha256_bytes(data)
        # A block is appended: writing the whole record again at each of 6,000 shards took minutes.
        append_bytes(self._record, packed_block(data))
        self._head, self._hashes_saved = {}, len(self.hashes)
        self._fresh.clear()

    def _load(self) -> None:
        """Restore what `save` recorded, up to the first damaged block; refuse a record of other settings."""
        remedy = f"remove {self._out} and run the same command again"
        whole = 0
        with (
            another_shape(self._record, remedy),
            os.fdopen(open_plain(self._record), "rb") as file,
        ):
            while True:
                try:
                    data = read_block(file) or b""
                    line, _, content = data.partition(b"\n")
                    record = json.loads(line)
                except ValueError:
                    break
                # Two processes may have appended: one that lost its lease, and its successor.
                if record["after"] != self._seal:
                    break
                if "request" in record:
                    request = self._head["request"]
                    old_request = record["request"]
                    check_request(self._out, old_request, request, "unfinished shards")
                    self.states_read = record["states"]
                bad = self._bad_shards(record)
                if bad:
                    logger.warning(
                        "missing or damaged, so written again: %s", first_of(bad)
                    )
                    break
                stream = io.BytesIO(content)
                parts = [stream.read(size) for size in record["bytes"]]
                self._restore(record, *parts)
                self._seal = sha256_bytes(data)
                whole = file.tell()
        os.truncate(self._record, whole)

    def _bad_shards(self, record: Mapping[str, Any]) -> list[str]:
        """Return the shards of a block that are missing or damaged, by path."""
        bad = []
        for split in self.splits.values():
            for shard in _shards(record[split.name]):
                if not split.has(shard):
                    bad.append(f"{split.name}/{shard.packed_name}")
        return bad

    def _restore(
        self, record: Mapping[str, Any], digests: bytes, *pending: bytes
    ) -> None:
        """Restore what one block recorded; earlier blocks are restored already."""
        self._seen.add_all(digests)
        self.hashes += record["hashes"]
        self._hashes_saved = len(self.hashes)
        self.position = ShardPosition(**record["position"])
        for (name, split), part in zip(self.splits.items(), pending, strict=True):
            new = record[name]
            if new["shards"]:  # new shards hold all tokens that were pending before
                split.pending.clear()
            split.pending += part
            split.shards += _shards(new)
            split.documents = new["documents"]
            split.tokens = new["tokens"]
            split.saved = (len(split.shards), len(split.pending))


def _shards(record: Mapping[str, Any]) -> list[Shard]:
    """Return the shards that a block recorded of a split."""
    return [Shard(**shard) for shard in record["shards"]]
