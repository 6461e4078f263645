"""Sources of documents: local Parquet, JSON-lines and text files, and datasets of the Hugging Face hub.

A source is an ordered list of files; a document's place in it is (file, row), at which reading can start again
without reading what comes before (Parquet) or parsing it (JSON lines). Hub files are read over the network, row
group by row group, at a pinned revision.
"""

from __future__ import annotations

import codecs
import contextlib
import glob
import io
import itertools
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import orjson
import pyarrow
import pyarrow.parquet

from common.errors import UserError, first_line
from common.files import sha256_bytes, sha256_file
from common.packed import ARCHIVES, plain_suffix, unpacked
from common.reading import MOST_BYTES, refuse_binary, refuse_pointer, text_of

BLANK, LINE, FILE = "blank", "line", "file"
"""What ends a document in a text file: a blank line, every line, only the file's end."""
_SAVED = ("dataset_info.json", "dataset_dict.json")
"""Files that `datasets` writes, whose JSON is not text."""
MOST_TEXT = 8_000_000
"""Bytes of a document at most, in UTF-8: tokenizers need a hundred times that of memory, in each thread."""
_SPLIT = "split it, or write it to a .txt, which --document-separator splits"
_ROWS = "JSON Lines"
_SEPARATE = (
    "give --document-separator, the line that stands between documents, or `line`"
)
_NOT_TEXTS = re.compile(
    r"[._].*|(README|LICENSE)(\..*)?|.*\.(csv|tsv|crc|md5|sha\d+|ya?ml|toml)(\.\w+)?",
    re.IGNORECASE,
)
"""Files beside documents, which no `--kind` reads unless they are named: marks, notes, tables, checksums, settings."""
_HUB = re.compile(
    r"hf:(?P<repo>[\w.-]+/[\w.-]+)(?::(?P<config>[\w.-]+))?(?:@(?P<revision>[\w./-]+))?"
)


class TextGoneError(UserError):
    """Nothing is where the text should be."""


@dataclass(frozen=True, kw_only=True)
class Document:
    """One text and how to resume after it."""

    text: str
    """The document; empty where its tokens are known (`token_files`)."""
    characters: int
    """Its length."""
    file: int
    """Number of its file in the source."""
    row: int
    """Number of the row after it in that file."""
    read_bytes: int
    """How far the file has been read, of `TextSource.sizes[file]` bytes."""


@dataclass(frozen=True, kw_only=True)
class TextSource:
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
    kind: str | None = None
    """Suffix by which files of no known one are read, such as `.txt`."""
    left_out: tuple[str, ...] = ()
    """Files of a folder or a pattern whose kind is not known."""
    states: tuple[str, ...] = ()
    """Of each local file the SHA-256 of its absolute path and the time of its last change, ns."""

    def identity(self) -> dict[str, Any]:
        """Return what two equal sources have in common, without reading them: names, sizes, revision, field."""
        listing = []
        for file, size in zip(self.files, self.sizes, strict=True):
            # A local file counts by its name only: the same text in another folder is the same text.
            name = file if self.revision else Path(file).name
            listing.append({"name": name, "bytes": size})
        identity: dict[str, Any] = {
            "spec": self.spec if self.revision else None,
            "revision": self.revision,
            "text_field": self.text_field,
            "files": listing,
        }
        if self.kind is not None:
            identity["kind"] = self.kind
        return identity

    def refuse_changed(self, files: Iterable[int] | None = None) -> None:
        """Compare the local files, all or those of these numbers, with what they were when the source was opened.

        Raises:
            UserError: one has changed: a record of it would be another text's.
        """
        if self.revision:
            return
        for number in range(len(self.states)) if files is None else files:
            if _state(self.files[number]) != self.states[number]:
                raise UserError(
                    f"{self.files[number]} changed while it was read, so nothing of it is kept; run the same command "
                    "again once it is whole"
                )

    def hash_up_to(self, number: int, hashes: list[str]) -> None:
        """Append the SHA-256 of each local file before that number that `hashes` lacks; a hub's have a revision."""
        if self.revision:
            return
        for file in self.files[len(hashes) : number]:
            hashes.append(sha256_file(Path(file)))

    def documents(
        self, file: int = 0, row: int = 0, *, files: Iterable[int] | None = None
    ) -> Iterator[Document]:
        """Yield the documents from (file, row) on, or only of `files`; empty and missing texts come as empty strings.

        Raises:
            UserError: a file that cannot be read, or that has no such field.
        """
        for number in range(file, len(self.files)) if files is None else files:
            name = self.files[number]
            first = row if number == file else 0
            try:
                with _open(name) as raw:
                    if not self.revision:
                        # A clone without Git LFS has pointers in place of large files.
                        refuse_pointer(Path(name), raw.read(64))
                        raw.seek(0)
                    suffix = plain_suffix(name)
                    if suffix not in FILE_KINDS:
                        suffix = str(self.kind)
                    texts = FILE_KINDS[suffix](self, name, raw, first)
                    for place, text in enumerate(texts, first + 1):
                        yield Document(
                            text=text,
                            characters=len(text),
                            file=number,
                            row=place,
                            read_bytes=raw.tell(),
                        )
            except (OSError, pyarrow.ArrowException) as error:
                if isinstance(error, OSError) and error.errno is not None:
                    raise
                remedy = "fetch it again"
                if "memory" in str(error):
                    # zstd refuses windows above 128 MB unless it is told otherwise.
                    remedy = "decompress it with `zstd -d --long=31`"
                raise UserError(
                    f"{name} cannot be read: {str(error).rstrip('.')}; {remedy}"
                ) from None


def _open(file: str) -> IO[bytes]:
    if not file.startswith("hf://"):
        return Path(file).open("rb")
    from huggingface_hub import HfFileSystem

    # Buffered: the hub's own file object reads lines of any length, and 5 MB for each.
    return io.BufferedReader(HfFileSystem().open(file, "rb"), 1 << 20)


def open_documents(
    specs: Sequence[str],
    text_field: str = "text",
    separator: str = BLANK,
    kind: str | None = None,
) -> TextSource:
    """Return the source of local paths, folders and patterns, or of one `hf:owner/name[:config][@revision]`.

    Raises:
        UserError: nothing is there, a file's kind is unknown, or the hub does not answer.
    """
    suffix = None if kind is None else f".{kind.removeprefix('.')}"
    if suffix not in {None, *FILE_KINDS}:
        raise UserError(f"--kind {kind}: no such kind; choose one of {_KINDS}")
    is_on_hub = any(spec.startswith("hf:") for spec in specs)
    source = _hub_source(specs, suffix) if is_on_hub else _local_source(specs, suffix)
    return replace(source, text_field=text_field, separator=separator, kind=suffix)


def _is_known(name: str, kind: str | None) -> bool:
    """Return whether a file of a folder, a pattern or the hub is read, by its name."""
    base = Path(name).name
    if plain_suffix(name) in FILE_KINDS:
        return base not in _SAVED
    return kind is not None and not _NOT_TEXTS.fullmatch(base)


def _is_hidden(path: Path, spec: str) -> bool:
    """Return whether a program keeps a file for itself: a dot begins a part of its path that the user did not name."""
    parts = set(path.parts) - set(Path(spec).parts)
    # `__MACOSX` is what macOS puts into its archives.
    return any(part.startswith(".") or part == "__MACOSX" for part in parts)


def _local_source(specs: Sequence[str], kind: str | None) -> TextSource:
    """Return the source of local files: named files of any kind, and files in folders if their kind can be read."""
    named = {Path(spec) for spec in specs}
    files: list[str] = []
    left_out: list[str] = []
    for spec in specs:
        for path in _local_files(spec, kind):
            is_read = _is_known(path.name, kind) and not _is_hidden(path, spec)
            if is_read or path in named:
                files.append(str(path))
            else:
                left_out.append(str(path))
    return TextSource(
        left_out=tuple(left_out),
        spec=" ".join(specs),
        files=tuple(files),
        sizes=tuple(Path(file).stat().st_size for file in files),
        revision=None,
        states=tuple(_state(file) for file in files),
    )


def _state(file: str) -> str:
    path = Path(file)
    return sha256_bytes(os.fsencode(f"{path.absolute()} {path.stat().st_mtime_ns}"))


def _within(path: Path, above: Sequence[Path] = ()) -> Iterator[Path]:
    """Yield a file, or those of a folder and of the folders in it, also linked ones, but not of a link to one above.

    Raises:
        TextGoneError: a link leads nowhere.
    """
    if path.is_dir():
        real = path.resolve()
        for child in path.iterdir() if real not in above else ():
            yield from _within(child, [*above, real])
    elif path.is_file():
        yield path
    elif path.is_symlink():
        raise TextGoneError(
            f"{path} links to {path.readlink()}, where nothing is; mount that, or remove the link"
        )


def _local_files(spec: str, kind: str | None) -> list[Path]:
    """Return the files that a name, a folder or a pattern stands for; at least one is of a known kind."""
    # glob.glob, since a pattern may be absolute; the name of an existing file or folder is not a pattern.
    matches = [spec] if Path(spec).exists() else glob.glob(spec, recursive=True)  # noqa: PTH207
    if not matches and not glob.has_magic(spec):
        raise TextGoneError(
            f"{spec} does not exist; give a file, a folder, a pattern, or hf:owner/name"
        )
    # Each real path once: a pattern may find both a folder and its files, or both a link and its target.
    by_real_path: dict[Path, Path] = {}
    candidates = [file for match in matches for file in _within(Path(match))]
    # Names of a known kind come first: in a cache, names are links to files that are called by their hash.
    for file in sorted(
        candidates, key=lambda file: (not _is_known(file.name, None), file)
    ):
        by_real_path.setdefault(file.resolve(), file)
    files = sorted(
        by_real_path.values(), key=lambda file: (_is_hidden(file, spec), file)
    )
    if not files:
        raise TextGoneError(
            f"{spec}: no documents here; give a file, a folder, a pattern, or hf:owner/name"
        )
    for file in files:
        if file.suffix == ".arrow":
            raise UserError(
                f"{file.parent} is a saved dataset; write it as Parquet with its to_parquet, and give that file"
            )
    first = files[0]
    if _is_hidden(first, spec):
        raise UserError(
            f"{first} is hidden, as all files here; name it to have it read"
        )
    is_named = kind is not None and Path(spec).is_file()
    if not is_named and not any(_is_known(file.name, kind) for file in files):
        # A packed file is refused for its content or, if that cannot be read, as a packed file (below).
        with contextlib.suppress(OSError), first.open("rb") as raw:
            refuse_binary(first, unpacked(first, raw).read(512), rows=_ROWS)
        with first.open("rb") as raw:
            refuse_binary(first, raw.read(512), rows=_ROWS, packed=True)
        raise UserError(
            f"{first}: unknown kind of file; kinds are {', '.join(FILE_KINDS)}, each also with "
            f"{' or '.join(ARCHIVES)}; say which it is with --kind, such as --kind txt"
        )
    return files


def _hub_source(specs: Sequence[str], kind: str | None) -> TextSource:
    if len(specs) > 1:
        raise UserError("give either one hub dataset or local files, not both")
    spec = specs[0]
    match = _HUB.fullmatch(spec)
    if match is None:
        raise UserError(
            f"{spec}: a hub dataset has the form hf:owner/name[:config][@revision]"
        )
    from datasets import load_dataset_builder
    from huggingface_hub import HfApi, HfFileSystem

    repo, config = match["repo"], match["config"]
    try:
        revision = str(HfApi().dataset_info(repo, revision=match["revision"]).sha)
        builder: Any = load_dataset_builder(repo, config, revision=revision)
        files = tuple(str(file) for file in builder.config.data_files["train"])
        disk = HfFileSystem()
        sizes = tuple(int(disk.info(file)["size"]) for file in files)
    except Exception as error:
        reason = first_line(error)
        # The text of requests' own ConnectionError would be a page of nested objects.
        if type(error).__name__ == "ConnectionError":
            reason = "no connection"
        raise UserError(
            f"{spec}: its files could not be listed on the hub: {reason}"
        ) from None
    if not files or not all(_is_known(file, kind) for file in files):
        raise UserError(
            f"{spec}: its train split must consist of Parquet, JSON-lines or text files"
        )
    return TextSource(spec=spec, files=files, sizes=sizes, revision=revision)


def batched(
    documents: Iterator[Document], characters: int, most: int
) -> Iterator[list[Document]]:
    """Yield the documents in groups of at most `most`, closed once they hold `characters` characters."""
    while True:
        group: list[Document] = []
        size = 0
        for document in itertools.islice(documents, most):
            group.append(document)
            size += len(document.text)
            if size >= characters:
                break
        if not group:
            return
        yield group


def _row(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        # orjson is stricter than the standard library, which also takes NaN and halves of surrogate pairs.
        return json.loads(line)


def _parquet_texts(
    source: TextSource, name: str, raw: IO[bytes], start: int
) -> Iterator[str]:
    table, field = pyarrow.parquet.ParquetFile(raw), source.text_field
    if field not in table.schema_arrow.names:
        known = ", ".join(table.schema_arrow.names)
        raise UserError(
            f"{name} has no column {field!r}; choose one of {known} with --text-field"
        )
    first = 0
    for group in range(table.num_row_groups):
        last = first + table.metadata.row_group(group).num_rows
        if last > start:
            column = table.read_row_group(group, columns=[field]).column(0)
            for number in range(max(start, first), last):
                value = column[number - first].as_py()
                yield _text(value, f"{name}: row {number + 1}", field)
        first = last


def _json_texts(
    source: TextSource, name: str, raw: IO[bytes], start: int
) -> Iterator[str]:
    lines = _bounded(name, unpacked(name, raw), MOST_BYTES, _SPLIT)
    for number, line in enumerate(lines, 1):
        if number <= start:
            continue
        # An empty line counts as a document without text, so that a row's number is its line's.
        text = ""
        if line.strip():
            text = _from_json(name, number, line, source.text_field)
        yield text


def _from_json(name: str, number: int, line: bytes, field: str) -> str:
    """Return the text of a line of JSON, or refuse it; the arguments are `_decoded`'s."""
    where = f"{name}: line {number}"
    line = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
    try:
        row = _row(line)
    except ValueError:
        row = _decoded(name, number, line)
    if isinstance(row, dict) and field in row:
        text = _text(row[field], where, field)
        # Halves of surrogate pairs have no UTF-8: they become replacement characters.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(row, dict):
        raise UserError(
            f"{where} has no {field!r}; it has {', '.join(row) or 'no keys'}; name the text's key with --text-field"
        )
    what, how = "is not a JSON object", "jq -c ."
    if line.lstrip().startswith(b"["):
        what, how = "begins a JSON array", "jq -c '.[]'"
    elif re.search(rb"}\s*,\s*({|$)", line):
        what = "has a comma after an object"
        how = "sed '1s/^/[/;$s/,*$/]/' FILE | jq -c '.[]'"
    raise UserError(
        f"{where} {what}; one object with {field!r} a line is needed (`{how}` writes it)"
    )


def _text(value: object, where: str, field: str) -> str:
    if value != value:  # NaN, which is a missing text in a table of pandas
        value = None
    if not isinstance(value, str | None):
        or_cast = ""
        if isinstance(value, bytes):
            or_cast = ", or save its bytes as strings in UTF-8"
        raise UserError(
            f"{where} has a {type(value).__name__} in {field!r}, not text; change --text-field{or_cast}"
        )
    text = _without_nul(value or "", where)
    # A letter has at most four bytes: only a text that may be too large is encoded to count them.
    if len(text) > MOST_TEXT // 4:
        size = len(text.encode("utf-8", "surrogatepass"))
        if size > MOST_TEXT:
            raise _too_large(where, MOST_TEXT, _SPLIT)
    return text


def _plain_texts(
    source: TextSource, name: str, raw: IO[bytes], start: int
) -> Iterator[str]:
    # `packed` keeps the reader alive to the end: an unreferenced reader would close the file.
    packed = unpacked(name, raw)
    texts = _between(name, _lines(name, packed), source.separator)
    not_blank = (text for text in texts if text.strip())
    yield from itertools.islice(not_blank, start, None)


def _bounded(name: str, lines: IO[bytes], most: int, remedy: str) -> Iterator[bytes]:
    """Yield a file's lines.

    Raises:
        UserError: one has more than `most` bytes.
    """
    for number in itertools.count(1):
        line = lines.readline(most + 1)
        if len(line) > most:
            raise _too_large(f"{name}: line {number}", most, remedy)
        if not line:
            return
        yield line


def _too_large(where: str, most: int, remedy: str) -> UserError:
    return UserError(
        f"{where}: the document is larger than {most / 1e6:,.0f} MB; {remedy}"
    )


def _lines(name: str, lines: IO[bytes]) -> Iterator[str]:
    for number, line in enumerate(_bounded(name, lines, MOST_TEXT, _SEPARATE), 1):
        yield _decoded(name, number, line)


def _decoded(name: str, number: int, line: bytes) -> str:
    """Return a line as text.

    Args:
        name: its file.
        number: its place, from 1.
        line: its bytes.

    Raises:
        UserError: it is not UTF-8, or not text; file and line are named.
    """
    text = text_of(name, line, number, rows=_ROWS, packed=True)
    return _without_nul(text, f"{name}: line {number}")


def _without_nul(text: str, where: str) -> str:
    """Return a text as it is; `UserError` names the place of one with a NUL, in files of every kind."""
    if "\x00" in text:
        raise UserError(f"{where} holds NULs, so it is no text; leave it out")
    return text


def _between(name: str, lines: Iterable[str], separator: str) -> Iterator[str]:
    """Yield the texts between the lines that end a document, without the line breaks around them.

    Raises:
        UserError: one is larger than a document may be; file and line are named.
    """
    text: list[str] = []
    first = size = 0  # number of the text's first line, and its bytes
    end = "" if separator == BLANK else separator
    for number, line in enumerate(lines, 1):
        is_end = separator not in (FILE, LINE) and line.strip() == end
        if not is_end:
            if not text:
                first, size = number, 0
            size += len(line.encode())
            text.append(line)
        if size > MOST_TEXT:
            raise _too_large(f"{name}: line {first}", MOST_TEXT, _SEPARATE)
        if is_end or separator == LINE:
            yield _without_breaks(text)
            text.clear()
    yield _without_breaks(text)


def _without_breaks(lines: Sequence[str]) -> str:
    # A byte order mark stands before the first line of files from Windows.
    return "".join(lines).strip("\ufeff\r\n")


FILE_KINDS: dict[str, Callable[[TextSource, str, IO[bytes], int], Iterator[str]]] = {
    ".parquet": _parquet_texts,
    ".jsonl": _json_texts,
    ".ndjson": _json_texts,
    ".json": _json_texts,
    ".txt": _plain_texts,
    ".raw": _plain_texts,
}
"""The texts of a source's opened file from a row on, by its suffix: a row or a line each, or what stands between the
lines that end a document."""
_KINDS = ", ".join(suffix[1:] for suffix in FILE_KINDS)
