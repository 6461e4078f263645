"""Where documents come from: local Parquet, JSON-lines and text files, and datasets of the Hugging Face hub.

A source is an ordered list of files; a document's place in it is (file, row), at which reading can start again
without reading what comes before (Parquet) or parsing it (JSON lines). Hub files are read over the network, row
group by row group, at a pinned revision.
"""

from __future__ import annotations

import glob
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow
import pyarrow.parquet
import zstandard

from common.errors import UserError
from common.files import sha256_file
from common.registry import Registry
from pretraining.data.corpus_files import ARCHIVES, FILE_KINDS, CorpusFile, decompressed, kind_of

__all__ = ["ORIGINS", "Document", "Origin", "Source", "batched", "decompressed", "open_source"]  # fmt: skip

_HUB = re.compile(r"hf:(?P<repo>[\w.-]+/[\w.-]+)(?::(?P<config>[\w.-]+))?(?:@(?P<revision>[\w./-]+))?")


@dataclass(frozen=True, kw_only=True)
class Document:
    """One text and how to resume after it."""

    text: str
    """The document."""
    file: int
    """Number of its file in the source."""
    row: int
    """Number of the row after it in that file."""
    read_bytes: int
    """How far the file has been read, of `Source.sizes[file]` bytes."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """An ordered list of files with documents."""

    spec: str
    """What the user gave."""
    files: tuple[str, ...]
    """Paths, or `hf://` addresses with the revision in them."""
    sizes: tuple[int, ...]
    """Bytes of each file."""
    revision: str | None
    """Commit of a hub dataset; None for local files."""
    text_field: str
    """Column or key that holds the text."""
    origin: Origin
    """Where the files are."""

    def identity(self) -> dict[str, object]:
        """Return what makes two sources the same without reading them: names, sizes, revision, field."""
        names = [file if self.revision else Path(file).name for file in self.files]
        listing = [{"name": name, "bytes": size} for name, size in zip(names, self.sizes, strict=True)]
        return {
            "spec": self.spec if self.revision else None,
            "revision": self.revision,
            "text_field": self.text_field,
            "files": listing,
        }

    def hashes(self) -> list[str] | None:
        """Return the SHA-256 of each local file; None for hub files, which their revision identifies."""
        return None if self.revision else [sha256_file(Path(file)) for file in self.files]

    def documents(self, file: int = 0, row: int = 0) -> Iterator[Document]:
        """Yield the documents from (file, row) on; empty and missing texts come as empty strings.

        Raises:
            UserError: a file that cannot be read, or that has no such field.
        """
        for number in range(file, len(self.files)):
            start = row if number == file else 0
            try:
                for place, (text, read) in enumerate(self._texts(number, start), start + 1):
                    yield Document(text=text, file=number, row=place, read_bytes=read)
            except (
                OSError,
                EOFError,
                zstandard.ZstdError,
                pyarrow.ArrowException,
                UnicodeDecodeError,
            ) as error:
                if isinstance(error, OSError) and error.errno is not None:
                    raise
                raise UserError(f"{self.files[number]}: cannot be read: {error}") from None

    def _texts(self, number: int, start: int) -> Iterator[tuple[str, int]]:
        name, size = self.files[number], self.sizes[number]
        with self.origin.open(name) as raw:
            file = CorpusFile(name=name, raw=raw, size=size, text_field=self.text_field)
            yield from FILE_KINDS[kind_of(name)].texts(file, start)


@dataclass(frozen=True, kw_only=True)
class Origin:
    """A place that files come from."""

    name: str
    """What it is."""
    prefix: str
    """How what the user gives begins; the longest one that fits counts."""
    find: Callable[[Sequence[str], str], Source]
    """The source of what the user gave, and a text field."""
    open: Callable[[str], IO[bytes]]
    """One of the source's files, opened for reading."""


def open_source(specs: Sequence[str], text_field: str = "text") -> Source:
    """Return the source of local paths, folders and patterns, or of one `hf:owner/name[:config][@revision]`.

    Raises:
        UserError: nothing is there, a file's kind is unknown, or the hub does not answer.
    """
    fitting = [item for item in ORIGINS.values() for spec in specs if spec.startswith(item.prefix)]
    return max(fitting, key=lambda item: len(item.prefix)).find(specs, text_field)


def _local_source(specs: Sequence[str], text_field: str) -> Source:
    paths = [path for spec in specs for path in _local(spec)]
    return Source(
        spec=" ".join(specs),
        files=tuple(map(str, paths)),
        sizes=tuple(path.stat().st_size for path in paths),
        revision=None,
        text_field=text_field,
        origin=ORIGINS["local"],
    )


def _local(spec: str) -> list[Path]:
    path = Path(spec)
    if path.is_dir():
        files = sorted(
            item for item in path.rglob("*") if item.is_file() and kind_of(item.name) in FILE_KINDS
        )
    elif path.is_file():
        if kind_of(path.name) not in FILE_KINDS:
            raise UserError(
                f"{path}: unknown kind of file; known are {', '.join(FILE_KINDS)}, each also "
                f"{' or '.join(ARCHIVES)}"
            )
        files = [path]
    else:
        files = sorted(map(Path, glob.glob(spec, recursive=True)))  # noqa: PTH207  # a pattern may be absolute
    if not files:
        raise UserError(f"{spec}: no documents here; give a file, a folder, a pattern, or hf:owner/name")
    return files


def _hub_source(specs: Sequence[str], text_field: str) -> Source:
    if len(specs) > 1:
        raise UserError("give either one hub dataset or local files, not both")
    spec = specs[0]
    match = _HUB.fullmatch(spec)
    if match is None:
        raise UserError(f"{spec}: a hub dataset reads hf:owner/name[:config][@revision]")
    from datasets import load_dataset_builder
    from huggingface_hub import HfApi, HfFileSystem

    repo, config = match["repo"], match["config"]
    try:
        revision = str(HfApi().dataset_info(repo, revision=match["revision"]).sha)
        builder: Any = load_dataset_builder(repo, config, revision=revision)
        files = tuple(map(str, builder.config.data_files["train"]))
        disk = HfFileSystem()
        sizes = tuple(int(disk.info(file)["size"]) for file in files)
    except Exception as error:
        # requests has a ConnectionError of its own, whose text is a page of nested objects.
        offline = type(error).__name__ == "ConnectionError"
        first = "no connection" if offline else (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(f"{spec}: the hub did not give its files: {first}") from None
    if not files or any(kind_of(file) not in FILE_KINDS for file in files):
        raise UserError(f"{spec}: its train split is no Parquet, JSON-lines or text files")
    return Source(
        spec=spec,
        files=files,
        sizes=sizes,
        revision=revision,
        text_field=text_field,
        origin=ORIGINS["hub"],
    )


def _open_local(file: str) -> IO[bytes]:
    return Path(file).open("rb")


def _open_on_hub(file: str) -> IO[bytes]:
    from huggingface_hub import HfFileSystem

    handle: IO[bytes] = HfFileSystem().open(file, "rb")
    return handle


ORIGINS = Registry(
    "kind of source",
    [
        Origin(name="local", prefix="", find=_local_source, open=_open_local),
        Origin(name="hub", prefix="hf:", find=_hub_source, open=_open_on_hub),
    ],
)
"""Where sources can be."""


def batched(documents: Iterator[Document], characters: int, most: int) -> Iterator[list[Document]]:
    """Yield the documents in groups of at most `most`, closed once they hold `characters` characters."""
    while True:
        group: list[Document] = []
        held = 0
        for document in itertools.islice(documents, most):
            group.append(document)
            held += len(document.text)
            if held >= characters:
                break
        if not group:
            return
        yield group
