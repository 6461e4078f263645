"""Sources of documents: local Parquet, JSON-lines and text files, and datasets of the Hugging Face hub.

A source is an ordered list of files, and a file is a sequence of rows, each of which has one document: a row of a
Parquet file, a line of a JSON-lines file, or a text between two separators of a text file. The place of a document is
its file's number and its row's number. Reading can start at any place. The rows before are then not read (Parquet), not
parsed (JSON lines) or passed over (text). Files on the hub are read over the network, at a pinned revision.
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
"""What ends a document in a text file: a blank line, the end of every line, or only the file's end."""
_SAVED = ("dataset_info.json", "dataset_dict.json")
"""Files that the library `datasets` writes next to data, whose JSON is not text."""
MOST_TEXT = 8_000_000
"""Most bytes of a document, in UTF-8: tokenizers need a hundred times as much memory, in each thread."""
_SPLIT = "split it, or write it to a .txt, which --document-separator splits"
"""Remedy for a row that is too large."""
_ROWS = "JSON Lines"
"""Format that messages suggest for a file of another program, such as a spreadsheet."""
_SEPARATE = (
    "give --document-separator, the line that stands between documents, or `line`"
)
"""Remedy for a document of a text file that is too large."""
_NOT_TEXTS = re.compile(
    r"[._].*|(README|LICENSE)(\..*)?|.*\.(csv|tsv|crc|md5|sha\d+|ya?ml|toml)(\.\w+)?",
    re.IGNORECASE,
)
"""Names of files that often stand beside documents: marks such as `_SUCCESS`, notes such as README.md, tables,
checksums and settings. `--kind` does not apply to those in a folder; a file that the user names is always read."""
_HUB = re.compile(
    r"hf:(?P<repo>[\w.-]+/[\w.-]+)(?::(?P<config>[\w.-]+))?(?:@(?P<revision>[\w./-]+))?"
)
"""A dataset on the hub: `hf:owner/name`, `hf:owner/name:config` or `hf:owner/name:config@revision`."""


class TextGoneError(UserError):
    """No file is where the user says that the text is."""


@dataclass(frozen=True, kw_only=True)
class Document:
    """One text of a source, and the place at which reading continues after it."""

    text: str
    """The text; empty where its tokens were read from a file of tokens (`token_files`)."""
    characters: int
    """Length of the text, also where `text` is empty."""
    file: int
    """Number of the document's file in the source, from 0."""
    row: int
    """Number of the next row in that file, from 0."""
    read_bytes: int
    """How many bytes of the file have been read, of `TextSource.sizes[file]`."""


@dataclass(frozen=True, kw_only=True)
class TextSource:
    """An ordered list of files with documents."""

    spec: str
    """The paths, or the hub dataset, that the user gave."""
    files: tuple[str, ...]
    """Paths, or `hf://` addresses with the revision in them."""
    sizes: tuple[int, ...]
    """Bytes of each file."""
    revision: str | None
    """Commit of a hub dataset; None for local files."""
    text_field: str = "text"
    """Column or key that holds the text."""
    separator: str = BLANK
    """What ends a document in a text file: `BLANK`, `LINE`, `FILE`, or the text of a line that stands between two."""
    kind: str | None = None
    """Suffix, such as `.txt`, as which files of unknown suffixes are read; None: such files are left out."""
    left_out: tuple[str, ...] = ()
    """Files of a folder or a pattern that are hidden or of an unknown kind, and are not read."""
    states: tuple[str, ...] = ()
    """For each local file the SHA-256 of its absolute path and the time of its last change in ns; empty for the hub."""

    def identity(self) -> dict[str, Any]:
        """Return what is equal for equal sources, without reading their files: names, sizes, revision and field.

        What ends a document in a text file (`separator`) is not a part of it. The requests of shards list it
        among their settings, and those of token files beside the source.
        """
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
        # Only where the user gave one: without it, equal files are read in the same way by their suffixes.
        if self.kind is not None:
            identity["kind"] = self.kind
        return identity

    def refuse_changed(self, files: Iterable[int] | None = None) -> None:
        """Refuse local files that have changed since the source was opened; shards could be of two different texts.

        Args:
            files: numbers of the files to look at; all files when left out.

        Raises:
            UserError: a file has changed.
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
        """Complete the list of the files' hashes, so that it has those of all files before a number.

        Files on the hub are not hashed, since the revision fixes their content.

        Args:
            number: number of the first file whose hash is not needed.
            hashes: SHA-256 of the source's first files, to which those of the next ones are appended.
        """
        if self.revision:
            return
        for file in self.files[len(hashes) : number]:
            hashes.append(sha256_file(Path(file)))

    def documents(
        self, file: int = 0, row: int = 0, *, files: Iterable[int] | None = None
    ) -> Iterator[Document]:
        """Yield the documents from a place on; rows without a text give empty texts.

        Args:
            file: number of the file to begin in.
            row: number of the row of that file to begin at; all other files are read from their first row.
            files: numbers of the files to read; all from `file` on when left out.

        Raises:
            UserError: a file cannot be read, or has no text in the field.
        """
        for number in range(file, len(self.files)) if files is None else files:
            name = self.files[number]  # `files` are numbers of these
            first_row = row if number == file else 0
            try:
                with _open(name) as raw:
                    if not self.revision:
                        # A clone without Git LFS has pointers in place of large files. The first 64 bytes
                        # show one.
                        refuse_pointer(Path(name), raw.read(64))
                        raw.seek(0)
                    # A file of an unknown suffix is in a source only where there is a kind: `open_documents`
                    # leaves it out or refuses it where there is none.
                    suffix = plain_suffix(name)
                    if suffix not in FILE_KINDS:
                        suffix = str(self.kind)
                    texts = FILE_KINDS[suffix](self, name, raw, first_row)
                    # A document has the number of the row after it, where reading would continue. Of a packed
                    # file, the packed bytes that were read count (`raw`), as they do in `sizes`.
                    for next_row, text in enumerate(texts, first_row + 1):
                        yield Document(
                            text=text,
                            characters=len(text),
                            file=number,
                            row=next_row,
                            read_bytes=raw.tell(),
                        )
            except (OSError, pyarrow.ArrowException) as error:
                # An error with a number is the system's, such as a full disk. One without is a library's that cannot
                # decode the file.
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
    """Open a local file, or a file on the hub by its `hf://` address."""
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

    Args:
        specs: the paths, folders and patterns, or the hub dataset.
        text_field: column or key that holds the text.
        separator: what ends a document in a text file, as `TextSource.separator`.
        kind: kind as which files of unknown suffixes are read, such as `txt`; None: they are left out.

    Raises:
        UserError: no file is there, a file's kind is unknown, or the hub does not answer.
    """
    suffix = None if kind is None else f".{kind.removeprefix('.')}"
    if suffix not in {None, *FILE_KINDS}:
        raise UserError(f"--kind {kind}: no such kind; choose one of {_KINDS}")
    is_on_hub = any(spec.startswith("hf:") for spec in specs)
    source = _hub_source(specs, suffix) if is_on_hub else _local_source(specs, suffix)
    # The source's `kind` is the suffix with its dot (`.txt`), not the word that the user gave (`txt`).
    return replace(source, text_field=text_field, separator=separator, kind=suffix)


def _is_known(name: str, kind: str | None) -> bool:
    """Return whether the name of a file says that it has documents.

    Args:
        name: name of a file that the user did not name singly: it is in a folder, matches a pattern or is on the hub.
        kind: suffix as which files of unknown suffixes are read; None: they are not.
    """
    base = Path(name).name
    if plain_suffix(name) in FILE_KINDS:
        return base not in _SAVED
    return kind is not None and not _NOT_TEXTS.fullmatch(base)


def _is_hidden(path: Path, spec: str) -> bool:
    """Return whether a program keeps a file for itself, such as `data/.cache/part.txt` in the folder `data`.

    Such a file, or a folder above it, has a name that begins with a dot. Names that the user gave do not count.
    """
    parts = set(path.parts) - set(Path(spec).parts)
    # macOS puts a folder `__MACOSX` of its own into archives.
    return any(part.startswith(".") or part == "__MACOSX" for part in parts)


def _local_source(specs: Sequence[str], kind: str | None) -> TextSource:
    """Return the source of local files: all that are named singly, and of folders those whose kind can be read.

    Args:
        specs: paths, folders and patterns.
        kind: suffix, such as `.txt`, as which files of unknown suffixes are read; None: they are left out.
    """
    named = {Path(spec) for spec in specs}
    files: list[str] = []
    left_out: list[str] = []
    for spec in specs:
        for path in _local_files(spec, kind):
            is_text = _is_known(path.name, kind) and not _is_hidden(path, spec)
            if is_text or path in named:
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
    """Return a hash of a file's place and time of change, which differs once the file was moved or written."""
    path = Path(file)
    return sha256_bytes(os.fsencode(f"{path.absolute()} {path.stat().st_mtime_ns}"))


def _within(path: Path, above: Sequence[Path] = ()) -> Iterator[Path]:
    """Yield a file itself, or all files of a folder and of the folders in it.

    Links to files and folders are followed, except a link to a folder that the link is in, which would never end.

    Args:
        path: a file, a folder or a link.
        above: real paths of the folders that the path was found in.

    Raises:
        TextGoneError: a link leads to a place where nothing is.
    """
    if path.is_dir():
        real = path.resolve()
        if real in above:
            return
        for child in path.iterdir():
            yield from _within(child, [*above, real])
    elif path.is_file():
        yield path
    elif path.is_symlink():
        raise TextGoneError(
            f"{path} links to {path.readlink()}, where nothing is; mount that, or remove the link"
        )


def _local_files(spec: str, kind: str | None) -> list[Path]:
    """Return the files that a path, a folder or a pattern stands for, sorted, hidden ones last.

    Args:
        spec: a path, a folder or a pattern.
        kind: suffix as which files of unknown suffixes are read; None: they are not.

    Raises:
        UserError: no file is there, or no file is of a kind that can be read.
    """
    # Find the files. glob.glob, since a pattern may be absolute. The name of an existing file or folder is
    # never a pattern.
    matches = [spec] if Path(spec).exists() else glob.glob(spec, recursive=True)  # noqa: PTH207
    if not matches and not glob.has_magic(spec):
        raise TextGoneError(
            f"{spec} does not exist; give a file, a folder, a pattern, or hf:owner/name"
        )

    # Each real path once: a pattern may find both a folder and its files, or both a link and its target. Of
    # several names of a file, the first one of a known kind is taken: in a cache, `part.txt` is a link to a
    # file that is called by its hash.
    by_real_path: dict[Path, Path] = {}
    candidates = [file for match in matches for file in _within(Path(match))]
    known_names_first = sorted(
        candidates, key=lambda file: (not _is_known(file.name, None), file)
    )
    for file in known_names_first:
        by_real_path.setdefault(file.resolve(), file)
    # This is the order in which the documents are read. The order above only chose among names.
    files = sorted(
        by_real_path.values(), key=lambda file: (_is_hidden(file, spec), file)
    )

    # Refuse files of which none can be read.
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
    # Hidden files are sorted last: if the first one is hidden, all are.
    if _is_hidden(first, spec):
        raise UserError(
            f"{first} is hidden, as all files here; name it to have it read"
        )
    # A file that is named singly is read as --kind says, whatever its name.
    has_kind = kind is not None and Path(spec).is_file()
    if not has_kind and not any(_is_known(file.name, kind) for file in files):
        # If the first bytes show which program's file it is, the message says so: first by the content of a
        # packed file, and if that cannot be unpacked, by the file as it is. With `packed`, the message on a
        # packed file also tells the suffix by which it would be unpacked.
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
    """Return the source of one hub dataset: the files of its train split, at the commit that its revision is now."""
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
    except Exception as error:  # whatever the two libraries may raise
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
    """Yield the documents in groups.

    Args:
        documents: the documents, in order.
        characters: number of characters after which a group ends.
        most: most documents of a group.
    """
    while True:
        group: list[Document] = []
        size = 0
        for document in itertools.islice(documents, most):
            group.append(document)
            size += len(document.text)
            if size >= characters:
                break
        # No document is left.
        if not group:
            return
        yield group


def _row(line: bytes) -> Any:
    """Return the value of a line of JSON.

    Raises:
        ValueError: the line is not JSON.
    """
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        # orjson is stricter than the standard library, which also takes NaN and halves of surrogate pairs.
        return json.loads(line)


def _parquet_texts(
    source: TextSource, name: str, raw: IO[bytes], start: int
) -> Iterator[str]:
    """Yield the texts of a Parquet file from the row `start` on, one a row."""
    table, field = pyarrow.parquet.ParquetFile(raw), source.text_field
    if field not in table.schema_arrow.names:
        known = ", ".join(table.schema_arrow.names)
        raise UserError(
            f"{name} has no column {field!r}; choose one of {known} with --text-field"
        )
    # Row groups before the row `start` are not read; `first` and `end` are numbers of rows in the file.
    first = 0
    for group in range(table.num_row_groups):
        end = first + table.metadata.row_group(group).num_rows
        if end > start:
            column = table.read_row_group(group, columns=[field]).column(0)
            for number in range(max(start, first), end):
                value = column[number - first].as_py()
                # Messages count rows from 1.
                yield _text(value, f"{name}: row {number + 1}", field)
        first = end


def _json_texts(
    source: TextSource, name: str, raw: IO[bytes], start: int
) -> Iterator[str]:
    """Yield the texts of a JSON-lines file from the row `start` on, one a line."""
    lines = _bounded(name, unpacked(name, raw), MOST_BYTES, _SPLIT)
    # Lines count from 1, so the first `start` lines are passed over.
    for number, line in enumerate(lines, 1):
        if number <= start:
            continue
        # An empty line counts as a document without text, so that a row's number is its line's.
        text = ""
        if line.strip():
            text = _from_json(name, number, line, source.text_field)
        yield text


def _from_json(name: str, number: int, line: bytes, field: str) -> str:
    """Return the text of a line of a JSON-lines file.

    Args:
        name: the file.
        number: the line's number, from 1.
        line: the line.
        field: key of the text.

    Raises:
        UserError: the line is not an object with a text under that key.
    """
    where = f"{name}: line {number}"
    # Files from Windows may begin with a byte order mark.
    line = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
    try:
        row = _row(line)
    except ValueError:
        # Bytes that are not text are refused here, with their place. A text that is not JSON is refused below.
        row = _decoded(name, number, line)
    if isinstance(row, dict) and field in row:
        text = _text(row[field], where, field)
        # Halves of surrogate pairs have no UTF-8: they become replacement characters.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(row, dict):
        raise UserError(
            f"{where} has no {field!r}; it has {', '.join(row) or 'no keys'}; name the text's key with --text-field"
        )
    # The message has a command that writes the file in the right form, by the form that the line shows.
    what, command = "is not a JSON object", "jq -c ."
    if line.lstrip().startswith(b"["):
        what, command = "begins a JSON array", "jq -c '.[]'"
    # A comma between two objects, or after the line's last one: `{...}, {...}` or `{...},`.
    elif re.search(rb"}\s*,\s*({|$)", line):
        what = "has a comma after an object"
        # With a bracket before the first line, and one in place of the commas that end the last, the file is
        # an array.
        command = "sed '1s/^/[/;$s/,*$/]/' FILE | jq -c '.[]'"
    raise UserError(
        f"{where} {what}; one object with {field!r} a line is needed (`{command}` writes it)"
    )


def _text(value: object, where: str, field: str) -> str:
    """Return the text in a row's field; empty if the text is missing (null or NaN).

    Args:
        value: the field's value.
        where: file and row, for messages.
        field: column or key, for messages.

    Raises:
        UserError: the value is not text, or is larger than a document may be.
    """
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
    """Yield the texts of a text file from the row `start` on; texts of blanks only are left out and not counted."""
    # Kept to the end: an unreferenced reader would close `raw`, whose position is read after the last text.
    reader = unpacked(name, raw)
    texts = _between(name, _lines(name, reader), source.separator)
    not_blank = (text for text in texts if text.strip())
    yield from itertools.islice(not_blank, start, None)


def _bounded(name: str, lines: IO[bytes], most: int, remedy: str) -> Iterator[bytes]:
    """Yield a file's lines, each with its line break.

    Args:
        name: the file's name, for messages.
        lines: the opened file.
        most: most bytes of a line.
        remedy: what a message says to do about a longer line.

    Raises:
        UserError: a line has more than `most` bytes.
    """
    for number in itertools.count(1):
        # One byte more than allowed shows that a line is too long, without reading all of it.
        line = lines.readline(most + 1)
        if len(line) > most:
            raise _too_large(f"{name}: line {number}", most, remedy)
        # Only the end of the file is an empty line; others have a line break.
        if not line:
            return
        yield line


def _too_large(where: str, most: int, remedy: str) -> UserError:
    return UserError(
        f"{where}: the document is larger than {most / 1e6:,.0f} MB; {remedy}"
    )


def _lines(name: str, lines: IO[bytes]) -> Iterator[str]:
    """Yield the lines of a text file as text, each with its line break."""
    for number, line in enumerate(_bounded(name, lines, MOST_TEXT, _SEPARATE), 1):
        yield _decoded(name, number, line)


def _decoded(name: str, number: int, line: bytes) -> str:
    """Return a line as text.

    Args:
        name: the line's file.
        number: the line's number, from 1.
        line: the line's bytes.

    Raises:
        UserError: the line is not UTF-8, or not text; the message names file and line.
    """
    # `rows` and `packed` only word the message on a file of another program: what a table can be written as
    # here, and that packed files are read under the right name.
    text = text_of(name, line, number, rows=_ROWS, packed=True)
    return _without_nul(text, f"{name}: line {number}")


def _without_nul(text: str, where: str) -> str:
    """Return a text unchanged.

    Raises:
        UserError: the text has a NUL, as no text has; the message names its place.
    """
    if "\x00" in text:
        raise UserError(f"{where} holds NULs, so it is no text; leave it out")
    return text


def _between(name: str, lines: Iterable[str], separator: str) -> Iterator[str]:
    """Yield the texts of a text file's lines, without the line breaks around them; some may be empty.

    Args:
        name: the file's name, for messages.
        lines: its lines.
        separator: what ends a text, as `TextSource.separator`.

    Raises:
        UserError: a text is larger than a document may be; the message names file and line.
    """
    text_lines: list[str] = []
    # Of the text so far: the number of its first line, and its bytes.
    first_line_number = size = 0
    separating_line = "" if separator == BLANK else separator
    for number, line in enumerate(lines, 1):
        # With FILE and LINE no line separates texts.
        is_separator = separator not in (FILE, LINE) and line.strip() == separating_line
        if not is_separator:
            if not text_lines:
                first_line_number, size = number, 0
            size += len(line.encode())
            text_lines.append(line)
        if size > MOST_TEXT:
            raise _too_large(f"{name}: line {first_line_number}", MOST_TEXT, _SEPARATE)
        if is_separator or separator == LINE:
            yield _joined(text_lines)
            text_lines.clear()
    # The last text ends with the file.
    yield _joined(text_lines)


def _joined(lines: Sequence[str]) -> str:
    """Return lines as one text, without line breaks at its begin and end."""
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
"""The function that yields the texts of a file, by the file's suffix. It takes the source, the file's name, the opened
file, and the number of the row to begin at."""
_KINDS = ", ".join(suffix[1:] for suffix in FILE_KINDS)
