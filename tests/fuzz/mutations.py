"""A file of any format, damaged by hypothesis: what a reader does with it.

A reader may refuse a mutant in one sentence, or take it. It may not raise anything else, hang, fill the memory, or
return another value than the original's when the file carries a seal.
"""

import contextlib
import copy
import hashlib
import json
import os
import resource
import signal
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import strategies as st

from benchmarks.results_json import ResultsError
from common.errors import UserError
from common.manifest import DamagedError, manifest_text, parse_manifest
from tests.messages import check

_SECONDS, _KILOBYTES = 30, 1_500_000
"""What reading a mutant may take, and by how much it may raise the process's peak of memory."""

_WORDS = [
    b"NaN",
    b"Infinity",
    b"1e400",
    b"null",
    b"[]",
    b"9" * 5_000,
    b"\x00",
    b"\xed\xa0\x80",
    b"\\ud800",
    b"../../../",
    b"/etc/passwd",
    b"\x1b[31m",
    b"9223372036854775808",
    b",",
    b"\n",
    b'"',
    b"x" * 300_000,
    b"[" * 100_000,
    b'{"a":' * 1_100,
    b"1," * 50_000,
]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(
        [
            "../../victim",
            "/etc/passwd",
            "\x1b]0;x\x07",
            "\ud800",
            "a" * 5_000,
            10**30,
            2**63,
        ]
    ),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.text(max_size=2), inner, max_size=2)
    ),
    max_leaves=3,
)


@dataclass(frozen=True)
class FileFormat:
    """A format, the reader that the commands use for it, and a command that reads it."""

    name: str
    """What it is called."""
    make: Callable[[Path], Path]
    """Makes what is read in a folder and returns the file that is mutated."""
    read: Callable[[Path], Any]
    """Reads it, given that file, and returns what can be compared."""
    command: str = ""
    """With `{at}`, the folder it was made in, `{file}`, and `{new}`, a folder of the call's own; empty: `train`."""
    sealed: bool = True
    """Whether no other value than the original's may be returned."""
    share: float = 1.0
    """Share of the usual number of mutants; less for formats whose reading takes long."""


def mutants(content: bytes) -> st.SearchStrategy[bytes]:
    """Return a file's mutants: other bytes or another encoding; of JSON other values, of manifests sealed again."""
    try:
        document = json.loads(content)
    except ValueError:
        document = None
    found = _other_bytes(content) | _other_encoding(content)
    if isinstance(document, dict | list):
        found |= _other_value(document).map(_json)
    if is_sealed(content):
        found |= _other_value(parse_manifest(content)).map(_sealed)
    return found


def is_sealed(content: bytes) -> bool:
    """Return whether this is a manifest whose seal is right."""
    try:
        return bool(parse_manifest(content))
    except DamagedError:
        return False


def _json(document: Any) -> bytes:
    return json.dumps(document).encode("utf-8", errors="surrogatepass")


def _sealed(record: Any) -> bytes:
    try:
        return manifest_text(record).encode()
    except ValueError:  # NaN, which no writer can seal
        return _json(record)


@st.composite
def _other_encoding(draw: st.DrawFn, content: bytes) -> bytes:
    text, cut = (
        content.decode("utf-8", errors="surrogateescape"),
        draw(st.integers(0, len(content))),
    )
    return draw(
        st.sampled_from(
            [
                content[:cut],
                content[:cut] + bytes(len(content) - cut),
                b"\xef\xbb\xbf" + content,
                text.encode("utf-16", errors="replace"),
                text.encode("latin-1", errors="replace"),
                unicodedata.normalize("NFD", text).encode(
                    "utf-8", errors="surrogateescape"
                ),
                content.replace(b"\n", b"\r\n"),
                content.replace(b"\n", "\u2028".encode()),
            ]
        )
    )


@st.composite
def _other_bytes(draw: st.DrawFn, content: bytes) -> bytes:
    at = draw(st.integers(0, len(content)))
    end = min(
        len(content), at + draw(st.sampled_from([0, 1, 2, 8, 64, 1_000, len(content)]))
    )
    old = content[at:end]
    flipped = (
        bytes([old[0] ^ 1 << draw(st.integers(0, 7))]) + old[1:] if old else b"\x01"
    )
    new = draw(
        st.sampled_from([flipped, b"", 2 * old, *_WORDS]) | st.binary(max_size=8)
    )
    return content[:at] + new + content[end:]


@st.composite
def _other_value(draw: st.DrawFn, document: Any) -> Any:
    changed = copy.deepcopy(document)
    holder, key = draw(st.sampled_from(list(_places(changed))))
    old, kind = (
        holder[key],
        draw(st.sampled_from(["value", "near", "gone", "renamed", "exchanged"])),
    )
    if kind == "gone":
        del holder[key]
    elif kind == "exchanged":
        other, place = draw(st.sampled_from(list(_places(document))))
        holder[key] = copy.deepcopy(other[place])
    elif kind == "renamed" and isinstance(holder, dict):
        holder[draw(st.sampled_from(["", "x", "../x", "\x1b", str(key).upper()]))] = (
            holder.pop(key)
        )
    elif kind == "near" and isinstance(old, int | float):
        holder[key] = old + draw(st.sampled_from([1e-12, 1e-6, 0.25, 1, -1]))
    else:
        holder[key] = draw(VALUES)
    return changed


def _places(item: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (holder, key) of every value; of long lists only the first and the last few."""
    keys: list[Any] = list(item) if isinstance(item, dict) else list(range(len(item)))
    for key in keys if len(keys) <= 12 else [*keys[:6], *keys[-6:]]:
        yield item, key
        if isinstance(item[key], dict | list):
            yield from _places(item[key])


IN_ITS_PLACE: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "loop of links": lambda path: path.symlink_to(path.name),
    "file without content": lambda path: (path.touch(), os.truncate(path, _LARGE)),
}
"""What may stand where a file should, and how it comes there."""
_LARGE = (1 << 30) + 1
_HASHES: dict[str, Any] = {}
"""Of the file without content, by the hash's name."""
_file_digest = hashlib.file_digest


def _digest(file: Any, name: str) -> Any:
    """Return what `hashlib.file_digest` does; the file without content is the same for all, and is hashed once."""
    status = os.fstat(file.fileno())
    if (status.st_size, status.st_blocks) != (_LARGE, 0):
        return _file_digest(file, name)
    if name not in _HASHES:
        _HASHES[name] = _file_digest(file, name)
    return _HASHES[name]


def outcome(form: FileFormat, path: Path, original: str) -> str:
    """Return what a reader does with what is at `path`: `refused`, `same` or `other`; nothing else is allowed."""
    try:
        with _limited(), mock.patch("hashlib.file_digest", _digest):
            found = repr(form.read(path))
    except (UserError, ResultsError) as error:
        check(error)
        return "refused"
    except OSError as error:
        # What `common.cli.run` says in a sentence
        assert error.errno and error.filename, error
        return "refused"
    # Whoever seals a manifest again says what is in it.
    believed = not form.sealed or is_sealed(path.read_bytes())
    assert found == original or believed, "another value was read although sealed"
    return "same" if found == original else "other"


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise AssertionError(f"no end after {_SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    signal.alarm(_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak
    assert more < _KILOBYTES, f"{more:,} kB more"
