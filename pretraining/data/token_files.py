"""Tokens of a source's files, made by several processes or machines, before one of them writes the shards.

A file of these begins with its name, the hash of all that the tokens depend on. Blocks of documents follow: their
number, a table of them and the tokens of all.

A call without parts keeps no such files: they are as large as the shards, and a resumption would read all of them.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from common.errors import UserError
from common.files import atomic_path, mark_cache, sha256_file
from common.manifest import DamagedError
from common.progress import Meter
from pretraining.data.blocks import END, packed_block, read_block
from pretraining.data.corpus import Document, TextSource
from pretraining.data.tokenizer import DIGEST_BYTES, Encoded, Ids

EncodedGroups = Iterator[tuple[list[Document], Encoded]]
"""Documents with their digests and tokens."""
_TABLE = np.dtype(
    [
        ("digest", f"V{DIGEST_BYTES}"),
        ("characters", "<i8"),
        ("tokens", "<i8"),
        ("read", "<i8"),
    ]
)
_BLOCK = 1_000
"""Documents of a block at most."""


def part_of(text: str, count: int) -> range:
    """Return the numbers of the files of a part, such as `3/8`: the third of every eight of `count` files.

    Raises:
        UserError: it is not a part, or there are more parts than files.
    """
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
    part = parts = 0
    if match is not None:
        part, parts = int(match[1]), int(match[2])
    if not 0 < part <= parts:
        raise UserError(f"--part {text}: the third of eight parts is 3/8")
    if parts > count:
        raise UserError(
            f"--part {text}: a part is whole files, of which there are {count}; choose at most {count} parts, or cut "
            "the files"
        )
    return range(part - 1, count, parts)


class TokenFiles:
    """The tokens of a source's files in a folder, as far as they are there."""

    def __init__(
        self, folder: Path, source: TextSource, request: Mapping[str, Any]
    ) -> None:
        """Take the folder, the source, and what the tokens depend on besides the files."""
        self.folder, self._source, self._request = folder, source, dict(request)
        self._files = source.identity()["files"]

    def path(self, number: int, sha256: str | None) -> Path:
        """Return where a file's tokens are or will be, given the hash of its content; None of a hub's."""
        what = json.dumps([self._request, self._files[number], sha256], sort_keys=True)
        return self.folder / hashlib.sha256(what.encode()).hexdigest()[:32]

    def write(
        self, numbers: range, encode: Callable[[Iterator[Document]], EncodedGroups]
    ) -> None:
        """Write the tokens of those files that have none yet, each atomically."""
        source = self._source

        @functools.cache
        def path(number: int) -> Path:
            # A commit fixes the content of a hub's file, so only local files are hashed.
            sha256 = None
            if not source.revision:
                sha256 = sha256_file(Path(source.files[number]))
            return self.path(number, sha256)

        missing = (number for number in numbers if not path(number).exists())
        documents = _encoded_documents(encode(source.documents(files=missing)))
        offsets, total = {}, 0
        for number in numbers:
            offsets[number] = total
            total += source.sizes[number]
        with Meter("tokenising", total, unit="B") as meter:
            for number, of_file in itertools.groupby(documents, _file_of):
                mark_cache(self.folder.parent)
                with (
                    atomic_path(path(number)) as temporary,
                    temporary.open("wb") as file,
                ):
                    file.write(path(number).name.encode())
                    while block := list(itertools.islice(of_file, _BLOCK)):
                        file.write(packed_block(_block_data(block)))
                        last = block[-1].document
                        meter.update(offsets[number] + last.read_bytes)
                    file.write(END)
                    source.refuse_changed([number])


class _EncodedDocument(NamedTuple):
    """A document with its tokens."""

    document: Document
    digest: bytes
    ids: Ids


def _encoded_documents(groups: EncodedGroups) -> Iterator[_EncodedDocument]:
    for documents, encodings in groups:
        for document, (digest, ids) in zip(documents, encodings, strict=True):
            yield _EncodedDocument(document, digest, ids)


def _file_of(encoded: _EncodedDocument) -> int:
    return encoded.document.file


def _block_data(block: list[_EncodedDocument]) -> bytes:
    """Return documents as the content of a block: their number, a table of them, and the tokens of all."""
    rows = []
    for document, digest, ids in block:
        rows.append((digest, document.characters, len(ids), document.read_bytes))
    table = np.array(rows, _TABLE)
    tokens = np.concatenate([ids for _, _, ids in block])
    return len(block).to_bytes(8, "little") + table.tobytes() + tokens.tobytes()


def read_tokens(path: Path, number: int, row: int) -> EncodedGroups:
    """Yield the documents of the file of that number from a row on, without their text, from where its tokens are.

    Raises:
        DamagedError: the content has changed.
    """
    before = 0  # documents of the blocks before
    try:
        with path.open("rb") as file:
            if file.read(len(path.name)) != path.name.encode():
                raise ValueError("it is another file's")
            while (data := read_block(file)) is not None:
                # The layout is that of `_block_data`.
                count = int.from_bytes(data[:8], "little")
                table = np.frombuffer(data, _TABLE, count, 8)
                tokens = np.frombuffer(data, np.int32, offset=8 + table.nbytes)
                group = []
                rows = enumerate(table.tolist(), before + 1)
                for next_row, (_, characters, _, read_bytes) in rows:
                    document = Document(
                        text="",
                        characters=characters,
                        file=number,
                        row=next_row,
                        read_bytes=read_bytes,
                    )
                    group.append(document)
                ids = np.split(tokens, np.cumsum(table["tokens"])[:-1])
                encodings = list(zip(table["digest"].tolist(), ids, strict=True))
                first = max(0, row - before)
                before += count
                yield group[first:], encodings[first:]
            if file.read(1):
                raise ValueError("more follows its end")
    except (OSError, ValueError) as error:
        raise DamagedError(
            f"{path} is damaged ({error}); remove it and run the same command again"
        ) from None
