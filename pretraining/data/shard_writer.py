"""Shards being written: the splits so far, the position in the source and the documents seen.

All of it is saved whenever a shard has been written, so that a killed run resumes and ends with the same bytes.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import zstandard

from common.files import sha256_bytes, write_bytes
from common.manifest import FILES, another_shape, check_files, read_manifest, write_manifest
from pretraining.data.corpus import Document
from pretraining.data.shard_index import COMPRESSION, MDS_COLUMNS, RECORD, Shard, Tokens
from pretraining.data.shard_manifest import SHARD_SPLITS, UNFINISHED, check_request
from pretraining.data.tokenizer import DIGEST_BYTES

_STATE, _DIGESTS = "state.json", "digests-"


def write_shard(folder: Path, number: int, tokens: Tokens) -> Shard:
    """Write tokens as a shard of a split.

    Args:
        folder: the split's folder.
        number: place of the shard in the stream, from 0.
        tokens: 1-D, int32; whole records, but for the last shard of a split.
    """
    from streaming.base.format import MDSWriter  # imports torchvision and transformers

    # Only its encoding is used, since its zstd takes half as long again; it needs an empty folder all the same.
    with tempfile.TemporaryDirectory() as unused:
        writer = MDSWriter(columns=MDS_COLUMNS, out=unused, hashes=["sha256"], size_limit=None)
    for first in range(0, len(tokens), RECORD):
        writer.write({"tokens": tokens[first : first + RECORD]})
    data = writer.encode_joint_shard()
    # Level 1: with tiktoken the default, 3, would be a twelfth of the work, for a tenth less disk.
    packed = zstandard.compress(data, COMPRESSION)
    shard = Shard(
        number=number,
        samples=len(writer.new_samples),
        size=len(data),
        sha256=sha256_bytes(data),
        packed_size=len(packed),
        packed_sha256=sha256_bytes(packed),
    )
    write_bytes(folder / shard.packed_name, packed)
    return shard


@dataclass(kw_only=True)
class SplitWriter:
    """One split while it is written."""

    name: str
    """`train` or `validation`."""
    shards: list[Shard] = field(default_factory=list)
    """The shards written."""
    pending: bytearray = field(default_factory=bytearray)
    """Tokens that no shard holds yet, 4 bytes each."""
    documents: int = 0
    """Documents so far."""
    tokens: int = 0
    """Tokens so far, pending ones included."""

    def add(self, tokens: Tokens) -> None:
        """Append a document's tokens."""
        self.pending += tokens.tobytes()
        self.tokens += len(tokens)
        self.documents += 1

    def write(self, out: Path, size: int, *, last: bool = False) -> bool:
        """Write every whole shard that is pending, and what is left when it is the last; return if any was."""
        before, length = len(self.shards), 4 * size
        while len(self.pending) >= length or (last and self.pending):
            part = np.frombuffer(bytes(self.pending[:length]), np.int32)
            self.shards.append(write_shard(out / self.name, len(self.shards), part))
            del self.pending[:length]
        return len(self.shards) > before


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
    """The unfinished shards of a folder; its `.state` holds what a killed run needs to resume."""

    def __init__(self, out: Path, request: Mapping[str, Any], states: Sequence[str] = ()) -> None:
        """Begin, or resume where a run with the same request stopped.

        Args:
            out: folder of the shards.
            request: what their bytes depend on.
            states: `TextSource.states` of the source.

        Raises:
            UserError: the folder holds the unfinished shards of another request, or its record is damaged.
        """
        self._out, self._scratch, self._request = out, out / UNFINISHED, dict(request)
        self.splits = {name: SplitWriter(name=name) for name in SHARD_SPLITS}
        self.position = ShardPosition()
        self._fresh, self._seen = bytearray(), set[bytes]()
        self._digests: dict[str, str] = {}
        self._states = self.states_read = list(states)
        self.hashes: list[str] = []
        """The SHA-256 of the source's local files that have been begun."""
        if os.path.lexists(self._scratch / _STATE):
            self._load()

    @property
    def tokens(self) -> int:
        """Tokens of all splits so far."""
        return sum(split.tokens for split in self.splits.values())

    def add(
        self, document: Document, digest: bytes, tokens: Tokens, split: str, *, unknown_id: int | None = None
    ) -> None:
        """Append a document to a split, unless it is empty or its text has been seen."""
        position = self.position
        position.file, position.row, position.read_bytes = document.file, document.row, document.read_bytes
        if not document.text:
            position.empty += 1
        elif digest in self._seen:
            position.duplicates += 1
        else:
            self._seen.add(digest)
            self._fresh += digest
            position.characters += len(document.text)
            position.unknown += 0 if unknown_id is None else int(np.count_nonzero(tokens == unknown_id))
            self.splits[split].add(tokens)

    def save(self) -> None:
        """Record the position after the last document; what is written before the record is harmless when it is not."""
        count = len(self._seen)
        pending = {_pending(name, count): bytes(split.pending) for name, split in self.splits.items()}
        digests = f"{_DIGESTS}{count}.bin"
        files = dict(self._digests)
        for name, content in {**pending, digests: bytes(self._fresh)}.items():
            write_bytes(self._scratch / name, content)
            files[name] = sha256_bytes(content)
        self._digests[digests] = files[digests]
        self._fresh.clear()
        record = {
            "request": self._request,
            "states": self._states,
            "hashes": self.hashes,
            "position": asdict(self.position),
            "count": count,
            "splits": {
                name: {
                    "shards": [asdict(shard) for shard in split.shards],
                    "documents": split.documents,
                    "tokens": split.tokens,
                }
                for name, split in self.splits.items()
            },
        }
        write_manifest(self._scratch / _STATE, record, files)
        for path in self._scratch.glob("*.bin"):
            if path.name not in files:
                path.unlink()

    def remove(self) -> None:
        """Remove the record, once the shards are complete."""
        shutil.rmtree(self._scratch, ignore_errors=True)

    def discard(self) -> None:
        """Remove the record, the shards, and the folder if nothing else is in it."""
        for name in (UNFINISHED, *SHARD_SPLITS):
            shutil.rmtree(self._out / name, ignore_errors=True)
        with contextlib.suppress(OSError):
            self._out.rmdir()

    def _load(self) -> None:
        """Restore what `save` recorded, once its settings are those of this call and its files are undamaged."""
        remedy = f"remove {self._out} and run the same command again"
        record = read_manifest(self._scratch / _STATE, remedy)
        with another_shape(self._scratch / _STATE, remedy):
            check_request(self._out, record["request"], self._request, "unfinished shards")
            # What an earlier version wrote has neither; its text is taken as it is now.
            self.hashes = record.get("hashes", [])
            self.states_read = record.get("states", [])
            check_files(self._scratch, record[FILES], remedy)
            self._digests = {name: sha for name, sha in record[FILES].items() if name.startswith(_DIGESTS)}
            self.position = ShardPosition(**record["position"])
            for name, saved in record["splits"].items():
                split = self.splits[name]
                split.shards = [Shard(**shard) for shard in saved["shards"]]
                split.documents, split.tokens = saved["documents"], saved["tokens"]
                # Pending files are named by the number of documents seen.
                split.pending = bytearray((self._scratch / _pending(name, record["count"])).read_bytes())
            for name in self._digests:
                data = (self._scratch / name).read_bytes()
                self._seen.update(
                    data[place : place + DIGEST_BYTES] for place in range(0, len(data), DIGEST_BYTES)
                )


def _pending(split: str, count: int) -> str:
    return f"{split}-{count}.bin"
