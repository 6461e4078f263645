"""Tokens of a source's files, made by several processes or machines, before one of them writes the shards.

Each process tokenises a part, which is some of the source's files. It writes a file of tokens for each of them. Such a
file begins with its own name, which is a hash of all that the tokens depend on. Blocks follow (`blocks`), each with up
to a thousand documents: their number, a table with a row for each, and the tokens of all.

A call without a part writes no such files: they are as large as the shards, and a resumed run would read all of them.
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
"""Groups of documents, each with the digests and tokens of its documents in the same order."""
_TABLE = np.dtype(
    [
        ("digest", f"V{DIGEST_BYTES}"),
        ("characters", "<i8"),
        ("tokens", "<i8"),
        ("read", "<i8"),
    ]
)
"""A document in a block: digest and length of its text, number of its tokens, and how many bytes of the source's file
have been read after it."""
_BLOCK = 1_000
"""Most documents of a block."""


def part_of(text: str, count: int) -> range:
    """Return the numbers of a part's files, from 0.

    Args:
        text: the part, such as `3/8`: the third of every eight files.
        count: number of the source's files.

    Raises:
        UserError: the text is not a part, or there are more parts than files.
    """
    # Two numbers of up to six digits, with a slash between them.
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
    # Any other text counts as part 0, which is refused below.
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
    """The files of tokens in a folder: one for each file of a source, as far as they have been written."""

    def __init__(
        self, folder: Path, source: TextSource, request: Mapping[str, Any]
    ) -> None:
        """Take the folder, the source, and all that the tokens depend on besides the source's files."""
        self.folder, self._source, self._request = folder, source, dict(request)
        self._files = source.identity()["files"]

    def path(self, number: int, sha256: str | None) -> Path:
        """Return the path of the tokens of a source's file, whether or not they have been written.

        Args:
            number: the file's number in the source.
            sha256: hash of the file's content; None for a file on the hub.
        """
        what = json.dumps([self._request, self._files[number], sha256], sort_keys=True)
        return self.folder / hashlib.sha256(what.encode()).hexdigest()[:32]

    def write(
        self, numbers: range, encode: Callable[[Iterator[Document]], EncodedGroups]
    ) -> None:
        """Write the tokens of some of the source's files, each atomically, unless they have been written before.

        A file of the source without documents gets no file of tokens.

        Args:
            numbers: the files' numbers in the source.
            encode: makes groups with tokens of documents.
        """
        source = self._source

        # The method `path`, with the hash that it wants. Cached, since the file is hashed for that.
        @functools.cache
        def path(number: int) -> Path:
            # A commit fixes the content of a hub's file, so only local files are hashed.
            sha256 = None
            if not source.revision:
                sha256 = sha256_file(Path(source.files[number]))
            return self.path(number, sha256)

        missing = (number for number in numbers if not path(number).exists())
        documents = _encoded_documents(encode(source.documents(files=missing)))
        # For the progress meter: bytes of the files before each file, and of all.
        bytes_before, total_bytes = {}, 0
        for number in numbers:
            bytes_before[number] = total_bytes
            total_bytes += source.sizes[number]

        with Meter("tokenising", total_bytes, unit="B") as meter:
            # The documents come file after file.
            for number, file_documents in itertools.groupby(documents, _file_of):
                # The folder `.state` above. With its mark it is known as this package's, and backups leave it
                # out.
                mark_cache(self.folder.parent)
                with (
                    atomic_path(path(number)) as temporary,
                    temporary.open("wb") as file,
                ):
                    file.write(path(number).name.encode())
                    for block in _blocks(file_documents):
                        file.write(packed_block(_block_data(block)))
                        last = block[-1].document
                        meter.update(bytes_before[number] + last.read_bytes)

                    file.write(END)
                    # Raises an error if the file was changed meanwhile; its tokens are then not kept.
                    source.refuse_changed([number])


class _EncodedDocument(NamedTuple):
    """A document with the digest of its text and its tokens."""

    document: Document
    digest: bytes
    ids: Ids


def _encoded_documents(groups: EncodedGroups) -> Iterator[_EncodedDocument]:
    """Yield the documents of all groups, one by one."""
    for documents, encodings in groups:
        for document, (digest, ids) in zip(documents, encodings, strict=True):
            yield _EncodedDocument(document, digest, ids)


def _file_of(encoded: _EncodedDocument) -> int:
    """Return the number of a document's file."""
    return encoded.document.file


def _blocks(documents: Iterator[_EncodedDocument]) -> Iterator[list[_EncodedDocument]]:
    """Yield documents in lists of at most `_BLOCK`."""
    while True:
        block = list(itertools.islice(documents, _BLOCK))
        if not block:
            return
        yield block


def _block_data(block: list[_EncodedDocument]) -> bytes:
    """Return documents as the content of a block: their number, a table of them, and the tokens of all."""
    rows = []
    for document, digest, ids in block:
        rows.append((digest, document.characters, len(ids), document.read_bytes))
    table = np.array(rows, _TABLE)
    tokens = np.concatenate([ids for _, _, ids in block])
    return len(block).to_bytes(8, "little") + table.tobytes() + tokens.tobytes()


def read_tokens(path: Path, number: int, row: int) -> EncodedGroups:
    """Yield groups of documents of a source's file, with tokens, as `write` has written them; their text is empty.

    Args:
        path: the file of tokens.
        number: number of the source's file.
        row: number of the row to begin at.

    Raises:
        DamagedError: the file of tokens is not as it was written.
    """
    rows_before = 0  # number of documents in the blocks before
    try:
        with path.open("rb") as file:
            if file.read(len(path.name)) != path.name.encode():
                raise ValueError("it is another file's")
            while True:
                data = read_block(file)
                if data is None:
                    break

                # The layout is that of `_block_data`.
                count = int.from_bytes(data[:8], "little")
                table = np.frombuffer(data, _TABLE, count, 8)
                tokens = np.frombuffer(data, np.int32, offset=8 + table.nbytes)
                group = []
                # `Document.row` is the number of the row after the document, where reading continues. Rows
                # count from 0, so it is 1 for the first document of the file.
                rows = enumerate(table.tolist(), rows_before + 1)
                # A row of the table: digest, characters, number of tokens, and bytes read (`_TABLE`).
                for next_row, (_, characters, _, read_bytes) in rows:
                    document = Document(
                        text="",
                        characters=characters,
                        file=number,
                        row=next_row,
                        read_bytes=read_bytes,
                    )
                    group.append(document)

                # Cut the tokens where each document ends; the last one ends with them.
                ends = np.cumsum(table["tokens"])
                ids = np.split(tokens, ends[:-1])
                encodings = list(zip(table["digest"].tolist(), ids, strict=True))

                # Documents before the row to begin at are left out.
                first = max(0, row - rows_before)
                rows_before += count
                yield group[first:], encodings[first:]

            # The end must be that of the file, too.
            if file.read(1):
                raise ValueError("more follows its end")
    except (OSError, ValueError) as error:
        raise DamagedError(
            f"{path} is damaged ({error}); remove it and run the same command again"
        ) from None
