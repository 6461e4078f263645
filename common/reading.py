"""Reading what others wrote: bounded regular files, JSON and TOML with nothing to be guessed, paths that stay inside.

Nothing here waits on a pipe, opens a device, or needs more memory than the file's format allows.
"""

from __future__ import annotations

import codecs
import json
import math
import os
import re
import stat
import tomllib
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

from common.errors import UserError
from common.plain_text import name_fault

MOST_BYTES = 2**28
"""Bytes of the largest file that is read as a whole: a hundred times the release's largest, a million rows of a log."""
MOST_LARGE = 2**30
"""The same for runs tables and for indexes of shards."""


_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""The encoding of a text by its byte-order mark, with which it begins. UTF-32 stands first, since its mark begins with
that of UTF-16."""
_OFFICE = {
    **dict.fromkeys(
        (".xlsx", ".xlsm", ".xls", ".ods"),
        "a spreadsheet; save its rows as {rows} in UTF-8",
    ),
    **dict.fromkeys(
        (".docx", ".doc", ".odt"),
        "a document with layout; save its text as .txt in UTF-8",
    ),
}
"""What a file of an office program is, and what to do, by the end of its name."""
_SOME_OFFICE = "an Office file, such as .xlsx or .docx; save its rows as {rows} or its text as .txt, in UTF-8"
PARQUET = b"PAR1"
"""The first bytes of a Parquet file, whatever its name."""
_BINARY = {
    PARQUET: "a Parquet file; let its name end in .parquet",
    rb"ARROW1": "an Arrow file; write it as Parquet",
    rb"PK\x03\x04.{26}(\[Content_Types\]|_rels/|mimetype)": _SOME_OFFICE,
    rb"\xd0\xcf\x11\xe0": _SOME_OFFICE,
    rb"PK\x03\x04": "a zip archive; unpack it, and give the files in it",
    rb"%PDF-": "a PDF; write its text to a .txt in UTF-8, such as with pdftotext",
    rb"WARC/\d": "a WARC of web pages; extract its texts, and save them as {rows} or .txt in UTF-8",
    rb".{257}ustar": "a tar archive; unpack it, and give the files in it",
    rb"\x00\x05\x16\x07": "what macOS keeps beside a file; give the file whose name lacks the ._",
    rb"(?i:\s*<(!doctype html|html\b))": "a web page (HTML); save its text as .txt in UTF-8",
    rb"{\\rtf": "a document with layout (RTF); save its text as .txt in UTF-8",
    rb"SQLite format 3\x00": "an SQLite database; write its rows as {rows} in UTF-8",
}
"""What a file is, and what to do, by a pattern of its first bytes; the first pattern that fits counts."""
_PACKED = {
    rb"\x1f\x8b": ("gzip", ".gz"),
    rb"\xfd7zXZ\x00": ("xz", ".xz"),
    rb"\x28\xb5\x2f\xfd": ("Zstandard", ".zst"),
    rb"BZh\d1AY&SY": ("bzip2", ""),
}
"""The program that packed a file, and the end of the name by which the file would be unpacked here (empty: it is not),
by a pattern of the file's first bytes."""


class UnreadableError(UserError):
    """A file that is not opened or not read: no regular file, too large, or refused by the system."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} {reason}")
        self.reason = reason


class ChangingError(UnreadableError):
    """A file that was written while it was read."""


class BadJsonError(ValueError):
    """Content that is not the JSON it should be: the sentence says why, without the file's name."""


def refuse_pointer(path: Path, start: bytes) -> None:
    """Refuse a Git LFS pointer, the few lines that a clone without Git LFS has in place of a large file.

    Args:
        path: the file.
        start: the first bytes of the file, or all.

    Raises:
        UnreadableError: the file is such a pointer.
    """
    if start.startswith(b"version https://git-lfs"):
        raise UnreadableError(
            path, "is a Git LFS pointer, not the file; fetch it with `git lfs pull`"
        )


def refuse_binary(
    name: str | Path, start: bytes, *, rows: str = "CSV", packed: bool = False
) -> None:
    """Refuse a file of another program or a packed one where a text or a table should be, by its first bytes.

    Args:
        name: the file's name.
        start: the file's first bytes, or all.
        rows: the formats in which a table can be given here, for the message.
        packed: whether a packed file would be read here under the right name.

    Raises:
        UserError: it is such a file; the sentence says which, and what to do.
    """
    for pattern, known in _BINARY.items():
        if re.match(pattern, start, re.DOTALL):
            what = known
            # Files of Excel and Word begin like any ZIP or OLE file: only the name says which they are.
            if start.startswith((b"PK", b"\xd0")):
                what = _OFFICE.get(Path(name).suffix.lower(), known)
            raise UserError(f"{name} is {what.format(rows=rows)}")
    for pattern, (program, suffix) in _PACKED.items():
        if re.match(pattern, start):
            or_name = f", or let its name end in {suffix}" if packed and suffix else ""
            raise UserError(f"{name} is packed by {program}; unpack it{or_name}")


def encoding_of(start: bytes) -> str:
    """Return a text's encoding, as Python calls it, from its first bytes."""
    for mark, encoding in _MARKS.items():
        if start.startswith(mark):
            return encoding
    # Without a mark: in UTF-16, one of the two bytes of a Latin letter is 0; no letter has such a byte in UTF-8.
    first_two = start[:2]
    if 0 not in first_two:
        return "utf-8-sig"
    return "utf-16-be" if first_two[0] == 0 else "utf-16-le"


def text_of(
    name: str | Path,
    content: bytes,
    line: int = 1,
    *,
    rows: str = "CSV",
    packed: bool = False,
) -> str:
    """Return a text in UTF-8, without a mark at its beginning.

    Args:
        name: the file's name.
        content: a line of it, or all.
        line: the number of its first line.
        rows: as `refuse_binary` takes it.
        packed: as `refuse_binary` takes it.

    Raises:
        UserError: it is no text, or in another encoding; file, line and byte are named.
    """
    # Only the beginning of a file says what the file is, and may have a mark; later lines do not.
    if line == 1:
        refuse_binary(name, content, rows=rows, packed=packed)
        encoding = encoding_of(content)
        if not encoding.startswith("utf-8"):
            # iconv writes UTF-16LE, Python utf-16-le.
            encoding = encoding.upper().replace("-LE", "LE").replace("-BE", "BE")
            raise UserError(
                f"{name} is text in {encoding}, not in UTF-8; convert it with `iconv -f {encoding} -t UTF-8`"
            )

        content = content.removeprefix(codecs.BOM_UTF8)

    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line += before.count(b"\n")
        # Counted from 1 in its line; `rfind` returns -1 in the first line, as if a line break stood before it.
        byte = error.start - before.rfind(b"\n")
        raise UserError(
            f"{name}: line {line}, byte {byte} (0x{content[error.start]:02x}) is not UTF-8; "
            "convert the file, with `iconv -f WINDOWS-1252 -t UTF-8` if it is Latin-1 or Windows-1252"
        ) from None


def open_plain(path: Path, most: int | None = None) -> int:
    """Return a descriptor for reading a regular file; pipes, devices and sockets are never waited for.

    Args:
        path: the file.
        most: bytes of the largest that is opened; None: whatever its size.

    Raises:
        OSError: it cannot be opened.
        UnreadableError: it is no regular file, or larger.
    """
    # Without O_NONBLOCK, a pipe would hold this process until somebody writes into it.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    status = os.fstat(descriptor)
    mode, size = status.st_mode, status.st_size
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise UnreadableError(
            path, f"is {'a folder' if stat.S_ISDIR(mode) else 'not a regular file'}"
        )

    if most is not None and size > most:
        os.close(descriptor)
        raise UnreadableError(
            path, f"has {size:,} bytes, more than the limit of {most:,}"
        )

    return descriptor


def read_bounded(path: Path, most: int = MOST_BYTES) -> bytes:
    """Return the content of a regular file of at most `most` bytes; pipes, devices and sockets are not opened.

    Raises:
        FileNotFoundError: there is none.
        UnreadableError: it is no regular file, larger than that, a Git LFS pointer, or cannot be read.
        ChangingError: it is being written.
    """
    try:
        with open(open_plain(path, most), "rb") as file:
            before = os.fstat(file.fileno())
            # One byte more than there should be shows that the file has grown.
            content = file.read(before.st_size + 1)
            after = os.fstat(file.fileno())
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UnreadableError(path, f"cannot be read ({error.strerror})") from None

    if len(content) != before.st_size or before.st_mtime_ns != after.st_mtime_ns:
        raise ChangingError(path, "changed while it was being read")
    refuse_pointer(path, content)
    return content


def strict_json(content: bytes, *, finite: bool = True) -> Any:
    """Return JSON in UTF-8 in which no key occurs twice and every number can be held.

    Args:
        content: the bytes.
        finite: refuse NaN and Infinity, which Python writes into JSON; off for logs, where a loss may be one.

    Raises:
        BadJsonError: it is something else.
    """
    if content.startswith(codecs.BOM_UTF8):
        raise BadJsonError(
            "it begins with a byte-order mark, which `sed -i '1s/^\\xEF\\xBB\\xBF//'` takes off"
        )

    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadJsonError(f"byte {error.start:,} is not UTF-8") from None

    try:
        return json.loads(
            text,
            object_pairs_hook=_unique,
            # Python's JSON calls this for the words NaN, Infinity and -Infinity.
            parse_constant=_no_number if finite else float,
            parse_float=_finite,
        )
    except json.JSONDecodeError as error:
        raise BadJsonError(f"line {error.lineno}: {error.msg}") from None
    except RecursionError:
        raise BadJsonError("it is nested too deeply") from None
    except ValueError as error:
        # Python raises a plain ValueError for a number of thousands of digits.
        raise BadJsonError(str(error)) from None


def read_json(path: Path, remedy: str) -> Any:
    """Return the content of a JSON file, read as `strict_json` does.

    Args:
        path: the file.
        remedy: what the user can do about a damaged one, for the message.

    Raises:
        FileNotFoundError: there is none.
        UserError: it cannot be read, or is something else; the sentence ends with the remedy.
    """
    try:
        return strict_json(read_bounded(path))
    except BadJsonError as error:
        raise UserError(f"{path}: {error}; {remedy}") from None


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file; TOML itself lets no key occur twice.

    Raises:
        FileNotFoundError: there is none.
        UserError: it is not TOML, no regular file, or too large.
    """
    content = read_bounded(path)
    try:
        # utf-8-sig: editors on Windows begin a file with a byte order mark.
        return tomllib.loads(content.decode("utf-8-sig"))
    # Python raises a plain ValueError for a number of thousands of digits.
    except (ValueError, RecursionError) as error:
        # Only a RecursionError may come without words.
        reason = " ".join(str(error).split()) or "nested too deep"
        raise UserError(f"{path}: not a TOML file: {reason}") from None


def inside(folder: Path, name: str) -> Path:
    """Return the path of `name` below `folder`; refuse a name that could lead out of the folder.

    Args:
        folder: the folder.
        name: a path that stands in a file, which others may have written.

    Raises:
        UserError: the name is absolute, climbs with `..`, or has a part that is empty or not printable.
    """
    parts = PurePosixPath(name).parts
    leads_out = name.startswith("/") or ".." in parts or "\\" in name
    if not parts or leads_out or any(name_fault(part, most=255) for part in parts):
        raise UserError(f"{name!r} is not a valid path inside its folder")
    return folder.joinpath(*parts)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the dictionary of a JSON object's keys and values; a key that occurs twice is refused."""
    unique = dict(pairs)
    if len(unique) < len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise BadJsonError(f"the key {repeated[:40]!r} occurs twice")
    return unique


def _no_number(word: str) -> NoReturn:
    """Refuse a word that Python's JSON takes for a number."""
    raise BadJsonError(f"it contains {word}, which is not a finite number")


def _finite(digits: str) -> float:
    """Return the number that digits of JSON say; refuse one that is too large to be held."""
    number = float(digits)
    if not math.isfinite(number):
        raise BadJsonError(
            f"it contains the number {digits[:20]}, which is out of range"
        )
    return number
