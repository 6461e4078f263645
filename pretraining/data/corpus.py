"""Where documents come from: local Parquet, JSON-lines and text files, and datasets of the Hugging Face hub.

A source is an ordered list of files; a document's place in it is (file, row), at which reading can start again
without reading what comes before (Parquet) or parsing it (JSON lines). Hub files are read over the network, row
group by row group, at a pinned revision.
"""

from __future__ import annotations

import glob
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, NamedTuple

import orjson
import pyarrow
import pyarrow.parquet

from common.errors import UserError
from common.files import sha256_file
from common.packed import ARCHIVES, plain_suffix, unpacked

__all__ = ["BLANK", "FILE_KINDS", "SOURCES", "Document", "Source", "batched", "open_source"]

BLANK, LINE, FILE = "blank", "line", "file"
"""What ends a document in a text file: a blank line, every line, the file alone."""
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
    text_field: str = "text"
    """Column or key that holds the text."""
    separator: str = BLANK
    """What ends a document in a text file: `BLANK`, `LINE`, `FILE`, or a line that reads so."""
    open: Callable[[str], IO[bytes]] = lambda file: Path(file).open("rb")  # noqa: SIM115  # by the caller
    """Opens one of the files for reading."""

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
            except (OSError, pyarrow.ArrowException, UnicodeDecodeError) as error:
                if isinstance(error, OSError) and error.errno is not None:
                    raise
                raise UserError(f"{self.files[number]}: cannot be read: {error}") from None

    def _texts(self, number: int, start: int) -> Iterator[tuple[str, int]]:
        name, size = self.files[number], self.sizes[number]
        with self.open(name) as raw:
            yield from FILE_KINDS[plain_suffix(name)](CorpusFile(name, raw, size, self), start)


class CorpusFile(NamedTuple):
    """An opened file."""

    name: str
    """Its path or address."""
    raw: IO[bytes]
    """Its bytes."""
    size: int
    """How many."""
    source: Source
    """Where it belongs, which says how it is read."""


def open_source(specs: Sequence[str], text_field: str = "text", separator: str = BLANK) -> Source:
    """Return the source of local paths, folders and patterns, or of one `hf:owner/name[:config][@revision]`.

    Raises:
        UserError: nothing is there, a file's kind is unknown, or the hub does not answer.
    """
    fitting = [prefix for prefix in SOURCES for spec in specs if spec.startswith(prefix)]
    return replace(SOURCES[max(fitting, key=len)](specs), text_field=text_field, separator=separator)


def _local_source(specs: Sequence[str]) -> Source:
    paths = [path for spec in specs for path in _local(spec)]
    return Source(
        spec=" ".join(specs),
        files=tuple(map(str, paths)),
        sizes=tuple(path.stat().st_size for path in paths),
        revision=None,
    )


def _local(spec: str) -> list[Path]:
    path = Path(spec)
    if path.is_dir():
        files = sorted(
            file for file in path.rglob("*") if file.is_file() and plain_suffix(file.name) in FILE_KINDS
        )
    elif path.is_file():
        if plain_suffix(path.name) not in FILE_KINDS:
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


def _hub_source(specs: Sequence[str]) -> Source:
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
    if not files or any(plain_suffix(file) not in FILE_KINDS for file in files):
        raise UserError(f"{spec}: its train split is no Parquet, JSON-lines or text files")
    return Source(spec=spec, files=files, sizes=sizes, revision=revision, open=_open_on_hub)


def _open_on_hub(file: str) -> IO[bytes]:
    from huggingface_hub import HfFileSystem

    return HfFileSystem().open(file, "rb")  # type: ignore[no-any-return]


SOURCES: dict[str, Callable[[Sequence[str]], Source]] = {"": _local_source, "hf:": _hub_source}
"""The source of what the user gave, by how that begins; the longest beginning counts."""


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


def _holds_text(kind: pyarrow.DataType) -> bool:
    types = pyarrow.types
    if types.is_dictionary(kind):
        return _holds_text(kind.value_type)
    return any(
        is_it(kind) for is_it in (types.is_string, types.is_large_string, types.is_string_view, types.is_null)
    )


def _row(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        # Stricter than the standard library, which also takes NaN and halves of surrogate pairs.
        return json.loads(line)


def _parquet_texts(file: CorpusFile, start: int) -> Iterator[tuple[str, int]]:
    table, column_name = pyarrow.parquet.ParquetFile(file.raw), file.source.text_field
    if column_name not in table.schema_arrow.names:
        known = ", ".join(table.schema_arrow.names)
        raise UserError(f"{file.name}: has no column {column_name!r}; it has {known} (--text-field)")
    kind = table.schema_arrow.field(column_name).type
    if not _holds_text(kind):
        raise UserError(f"{file.name}: its column {column_name!r} holds {kind}, not text (--text-field)")
    rows, first = table.metadata.num_rows, 0
    for group in range(table.num_row_groups):
        last = first + table.metadata.row_group(group).num_rows
        if last > start:
            column = table.read_row_group(group, columns=[column_name]).column(0)
            for number in range(max(start, first), last):
                yield column[number - first].as_py() or "", file.size * (number + 1) // rows
        first = last


def _json_texts(file: CorpusFile, start: int) -> Iterator[tuple[str, int]]:
    for number, line in enumerate(unpacked(file.name, file.raw)):
        if number >= start:
            yield _from_json(file, number, line), file.raw.tell()


def _from_json(file: CorpusFile, number: int, line: bytes) -> str:
    if not line.strip():
        return ""
    try:
        row = _row(line)
    except ValueError:
        raise UserError(f"{file.name}: line {number + 1} is not JSON") from None
    if not isinstance(row, dict) or file.source.text_field not in row:
        known = ", ".join(map(str, row)) if isinstance(row, dict) else "no keys"
        raise UserError(
            f"{file.name}: line {number + 1} has no {file.source.text_field!r}; it has {known} (--text-field)"
        )
    text = row[file.source.text_field]
    if not isinstance(text, str | None):
        raise UserError(
            f"{file.name}: line {number + 1} has a {type(text).__name__} in {file.source.text_field!r}, "
            f"not text (--text-field)"
        )
    # Halves of surrogate pairs have no UTF-8.
    return (text or "").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _plain_texts(file: CorpusFile, start: int) -> Iterator[tuple[str, int]]:
    texts = filter(str.strip, _between(unpacked(file.name, file.raw), file.source.separator))
    for text in itertools.islice(texts, start, None):
        yield text, file.raw.tell()


def _between(lines: Iterable[bytes], separator: str) -> Iterator[str]:
    """Yield the texts between the lines that end a document, without the line breaks around them."""
    held: list[str] = []
    end = "" if separator == BLANK else separator
    for line in (line.decode("utf-8") for line in lines):
        is_end = separator != FILE and line.strip() == end
        if not is_end:
            held.append(line)
        if is_end or separator == LINE:
            yield "".join(held).strip("\ufeff\r\n")
            held.clear()
    yield "".join(held).strip("\ufeff\r\n")


FILE_KINDS: dict[str, Callable[[CorpusFile, int], Iterator[tuple[str, int]]]] = {
    ".parquet": _parquet_texts,
    ".jsonl": _json_texts,
    ".json": _json_texts,
    ".txt": _plain_texts,
    ".raw": _plain_texts,
}
"""The texts of a file from a row on, each with the bytes of the file read so far, by its suffix: a row or a line
each, or what stands between the lines that end a document."""
