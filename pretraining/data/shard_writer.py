"""Shards being written: the splits so far, the position in the source and the documents seen.

All of it is saved whenever a shard has been written, so that a killed run resumes and ends with the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from common.errors import UserError
from common.files import write_bytes
from common.manifest import read_manifest, write_manifest
from common.reading import read_bounded
from pretraining.data.corpus import Document
from pretraining.data.manifest import SPLITS, UNFINISHED
from pretraining.data.shard_compression import Compression
from pretraining.data.shard_index import MDS_COLUMNS, RECORD, ShardEntry, ShardFile, shard_name
from pretraining.data.tokenizer import DIGEST_BYTES

__all__ = ["Position", "ShardWriter", "SplitWriter", "write_shard"]

Tokens = npt.NDArray[np.int32]
_SAVED = ("entries", "documents", "tokens")
_MOST_BYTES = 2**40


def write_shard(folder: Path, number: int, tokens: Tokens, compression: Compression) -> dict[str, Any]:
    """Write tokens as shard `number` of a split's folder and return its entry of the index.

    Args:
        folder: the split's folder.
        number: place of the shard in the stream, from 0.
        tokens: 1-D, int32; whole records, but for the last shard of a split.
        compression: one of `COMPRESSIONS`.
    """
    from streaming.base.format import MDSWriter  # imports torchvision and transformers

    # Only its encoding is used, since its zstd takes half as long again; it needs an empty folder all the same.
    with tempfile.TemporaryDirectory() as unused:
        writer = MDSWriter(
            columns=MDS_COLUMNS, out=unused, compression=compression.mds, hashes=["sha256"], size_limit=None
        )
    for first in range(0, len(tokens), RECORD):
        writer.write({"tokens": tokens[first : first + RECORD]})
    data, name, packed = writer.encode_joint_shard(), shard_name(number), None
    raw = ShardFile.of(name, data)
    if compression.mds is not None:
        data, name = compression.compress(data), f"{name}{compression.suffix}"
        packed = ShardFile.of(name, data)
    write_bytes(folder / name, data)
    entry = ShardEntry(samples=len(writer.new_samples), raw=raw, packed=packed, compression=compression.mds)
    return entry.described()


@dataclass(kw_only=True)
class SplitWriter:
    """One split while it is written."""

    name: str
    """`train` or `validation`."""
    entries: list[dict[str, Any]] = field(default_factory=list)
    """The index's entries of the shards written."""
    pending: list[Tokens] = field(default_factory=list)
    """Tokens that no shard holds yet."""
    held: int = 0
    """Number of pending tokens."""
    documents: int = 0
    """Documents so far."""
    tokens: int = 0
    """Tokens so far, pending ones included."""

    def add(self, tokens: Tokens) -> None:
        """Append a document's tokens."""
        self.pending.append(tokens)
        self.held += len(tokens)
        self.tokens += len(tokens)
        self.documents += 1

    def hold(self, tokens: Tokens) -> None:
        """Replace the pending tokens."""
        self.pending, self.held = [tokens] if len(tokens) else [], len(tokens)

    def joined(self) -> Tokens:
        """Return the pending tokens as one array."""
        self.hold(np.concatenate(self.pending) if self.pending else np.zeros(0, np.int32))
        return self.pending[0] if self.pending else np.zeros(0, np.int32)

    def write(self, out: Path, size: int, compression: Compression, *, last: bool = False) -> bool:
        """Write every whole shard that is pending, and what is left when it is the last; return if any was."""
        if self.held < size and not (last and self.held):
            return False
        tokens = self.joined()
        stop = len(tokens) if last else len(tokens) // size * size
        for first in range(0, stop, size):
            part = tokens[first : min(first + size, stop)]
            self.entries.append(write_shard(out / self.name, len(self.entries), part, compression))
        self.hold(tokens[stop:].copy())
        return True


@dataclass(kw_only=True)
class Position:
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
    digests: int = 0
    """Digests of written documents that are on disk."""


class ShardWriter:
    """The unfinished shards of a folder; its `.state` holds what a killed run needs to resume."""

    def __init__(self, out: Path, request: Mapping[str, Any]) -> None:
        """Begin, or resume where a run with the same request stopped.

        Raises:
            UserError: the folder holds the unfinished shards of another request.
        """
        self._out, self._scratch = out, out / UNFINISHED
        self._remedy = f"remove {out} and run the same command again"
        path, state = self._scratch / "request.json", self._scratch / "state.json"
        if os.path.lexists(state) and not (path.is_file() and read_manifest(path, self._remedy) == request):
            raise UserError(
                f"{out}: holds the unfinished shards of another request; choose another --out or remove it"
            )
        write_manifest(path, request)
        for left_over in (path for name in SPLITS for path in (out / name).glob(".shard.*.tmp*")):
            left_over.unlink()
        self.splits = {name: SplitWriter(name=name) for name in SPLITS}
        self.position = Position()
        self._fresh, self._written = bytearray(), hashlib.sha256()
        self._seen: set[bytes] = set()
        self._load()

    @property
    def tokens(self) -> int:
        """Tokens of all splits so far."""
        return sum(split.tokens for split in self.splits.values())

    def add(self, document: Document, digest: bytes, tokens: Tokens, split: str) -> None:
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
            self.splits[split].add(tokens)

    def save(self) -> None:
        """Record the position after the last document; what is written before the record is harmless when it is not."""
        with (self._scratch / "digests.bin").open("ab") as file:
            file.truncate(self.position.digests * DIGEST_BYTES)
            file.write(self._fresh)
            file.flush()
            os.fsync(file.fileno())
        self.position.digests += len(self._fresh) // DIGEST_BYTES
        self._written.update(self._fresh)
        self._fresh.clear()
        content: dict[str, Any] = {
            "state": asdict(self.position), "digests": self._written.hexdigest(), "splits": {}
        }  # fmt: skip
        for split in self.splits.values():
            name = f"{split.name}-{self.position.digests}.npy"
            # Through memory: on a full disk np.save raises an error that does not say so.
            buffer = io.BytesIO()
            np.save(buffer, split.joined())
            write_bytes(self._scratch / name, buffer.getvalue())
            saved = {field_name: getattr(split, field_name) for field_name in _SAVED}
            digest = hashlib.sha256(buffer.getvalue()).hexdigest()
            content["splits"][split.name] = saved | {"pending": name, "sha256": digest}
        write_manifest(self._scratch / "state.json", content)
        current = {item["pending"] for item in content["splits"].values()}
        for path in self._scratch.glob("*.npy"):
            if path.name not in current:
                path.unlink()

    def remove(self) -> None:
        """Remove the record, once the shards are complete."""
        shutil.rmtree(self._scratch)

    def discard(self) -> None:
        """Remove the record and the shards."""
        self.remove()
        for path in (path for name in SPLITS for path in (self._out / name).glob("shard.*")):
            path.unlink()

    def _load(self) -> None:
        path = self._scratch / "state.json"
        if not os.path.lexists(path):
            (self._scratch / "digests.bin").unlink(missing_ok=True)
            return
        content = read_manifest(path, self._remedy)
        for name, saved in content["splits"].items():
            split = self.splits[name]
            for field_name in _SAVED:
                setattr(split, field_name, saved[field_name])
            array = self._scratch / saved["pending"]
            data = self._content(array)
            if hashlib.sha256(data).hexdigest() != saved["sha256"]:
                raise UserError(f"{array}: its content has changed (SHA-256); {self._remedy}")
            split.hold(np.load(io.BytesIO(data)))
        self.position = Position(**content["state"])
        data = self._content(self._scratch / "digests.bin")[: self.position.digests * DIGEST_BYTES]
        self._written.update(data)
        if self._written.hexdigest() != content["digests"]:
            raise UserError(
                f"{self._scratch / 'digests.bin'}: its content has changed (SHA-256); {self._remedy}"
            )
        self._seen = {data[place : place + DIGEST_BYTES] for place in range(0, len(data), DIGEST_BYTES)}

    def _content(self, path: Path) -> bytes:
        try:
            return read_bounded(path, _MOST_BYTES)
        except FileNotFoundError:
            raise UserError(f"{path}: is missing; {self._remedy}") from None
