"""Files of every format, damaged at random but from a seed: what a reader does with them.

A reader may refuse a mutant in one sentence, or take it. It may not raise anything else, hang, fill the memory, or
return another value than the original's when the file carries a seal.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.results_json import ResultsError
from common.errors import UserError
from common.plain_text import visible

__all__ = ["QUICK", "SLOW", "FileFormat", "attack", "mutants"]

QUICK, SLOW = 25, 2_500
"""Mutants of a format in `make test`, and in `make test-all`."""
_SECONDS, _KILOBYTES = 30, 1_500_000
"""What reading a mutant may take, and by how much it may raise the process's peak of memory."""
_SPARSE = (1 << 30) + 1
"""Bytes of a file without content."""

_WORDS = [
    b"NaN", b"Infinity", b"-1", b"1e400", b"1e-400", b"null", b"true", b"[]", b"{}", b'""', b"9" * 5_000, b"[" * 1_200,
    b'{"a":' * 1_100, b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b"\\ud800", b"../../../", b"/etc/passwd", b"\x1b[31m",
    b"=HYPERLINK(1)", b"9223372036854775808", b"-9223372036854775809", b"0.1", b",", b"\n", b'"', b"\\",
    b"\\udfff\\ud800", b"\xed\xbf\xbf", b"x" * 300_000, b"[" * 100_000, b"1," * 50_000,
]  # fmt: skip
_VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 7, 2**63, -(2**63) - 1, 10**30, 0.5, -0.0, 1e308, float("nan"), float("inf"), "", "x",
    "../../victim", "/etc/passwd", "\x1b]0;x\x07", "\ud800", "a" * 5_000, [], [1], [None], {}, {"": None},
    "1e5", [[[]]],
]  # fmt: skip


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


def mutants(content: bytes, seed: int, count: int, sibling: bytes = b"") -> Iterator[bytes]:
    """Yield `count` mutants of a file, the same ones for the same seed.

    A tenth are the file cut at the end of a line, a tenth its head with the tail of another good one, `sibling`; the
    rest have other bytes or, for JSON, other values.
    """
    draw = random.Random(seed)
    document = _document(content)
    ends = [place + 1 for place, byte in enumerate(content) if byte == ord("\n")] or [len(content) // 2]
    for number in range(count):
        if number % 10 == 0:
            yield content[: ends[number // 10 * max(1, 10 * len(ends) // count) % len(ends)]]
        elif number % 10 == 2:
            other = sibling or content
            yield content[: draw.randrange(len(content))] + other[draw.randrange(len(other)) :]
        elif document is not None and number % 2:
            yield _other_value(document, draw)
        else:
            yield _other_bytes(content, draw)


def attack(form: FileFormat, folder: Path, *, seed: int, count: int) -> Counter[str]:
    """Let the reader of a format read mutants of a file of it; return how many were refused, same and other.

    Raises:
        AssertionError: a mutant that was neither refused in a sentence nor read rightly; it is left in `folder`.
    """
    path = form.make(folder)
    content = path.read_bytes()
    original = repr(form.read(path))
    tally = Counter[str]()

    def read(where: str) -> None:
        try:
            with _limited(where):
                found = repr(form.read(path))
        except (UserError, ResultsError) as error:
            sentence = visible(str(error))  # as a command shows it
            assert sentence and "\n" not in sentence and sentence.isprintable(), f"{where}: {sentence!r}"
            tally["refused"] += 1
        except Exception as error:
            is_sentence = isinstance(error, OSError) and error.errno and error.filename  # `common.cli.run`
            assert is_sentence, f"{where}: {type(error).__name__}: {str(error)[:300]}"
            tally["refused"] += 1
        else:
            assert found == original or not form.sealed, f"{where}: another value was read although sealed"
            tally["same" if found == original else "other"] += 1

    for number, mutant in enumerate(mutants(content, seed, count, _sibling(path))):
        path.write_bytes(mutant)
        read(f"{form.name}: mutant {number} of seed {seed}, left in {path}")
    path.unlink()
    for name, put in IN_ITS_PLACE.items():
        put(path)
        read(f"{form.name}: a {name} in its place, left in {path}")
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    path.write_bytes(content)
    assert repr(form.read(path)) == original, f"{form.name}: the mutants left something behind"
    return tally


def _sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, _SPARSE)


IN_ITS_PLACE: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "loop of links": lambda path: path.symlink_to(path.name),
    "file without content": _sparse,
}
"""What may stand where a file should, and how it comes there."""


def _sibling(path: Path) -> bytes:
    """Return another good file of the kind, from the folders that were made with it; nothing where there is none."""
    found = (one for place in path.parents[:3] for one in sorted(place.glob(f"*/{path.name}")) if one != path)
    return next((one.read_bytes() for one in found), b"")


@contextlib.contextmanager
def _limited(where: str) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise AssertionError(f"{where}: no end after {_SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    signal.alarm(_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak
    assert more < _KILOBYTES, f"{where}: {more:,} kB more"


def _document(content: bytes) -> Any:
    try:
        document = json.loads(content)
    except ValueError:
        return None
    return document if isinstance(document, dict | list) else None


def _other_value(document: Any, draw: random.Random) -> bytes:
    """Return the JSON with one value replaced, one key renamed, removed or written twice."""
    copy = json.loads(json.dumps(document))
    places = list(_places(copy))
    holder, key = draw.choice(places)
    kind = draw.randrange(5)
    if kind == 0 and isinstance(holder, dict):
        holder[draw.choice(["", "x", "../x", "\x1b", str(key).upper()])] = holder.pop(key)
    elif kind == 1:
        del holder[key]
    elif kind == 2:
        other_holder, other_key = draw.choice(places)
        holder[key] = json.loads(json.dumps(other_holder[other_key]))
    elif kind == 3 and isinstance(holder[key], int | float) and not isinstance(holder[key], bool):
        holder[key] = holder[key] + draw.choice([1e-12, 1e-6, 0.25, 1, -1])
    else:
        holder[key] = draw.choice(_VALUES)
    text = json.dumps(copy)
    if kind == 4 and isinstance(holder, dict) and key in holder:
        twice = f"{json.dumps(str(key))}: "
        text = text.replace(twice, f"{twice}{json.dumps(draw.choice(_VALUES))}, {twice}", 1)
    return text.encode("utf-8", errors="surrogatepass")


def _places(item: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (holder, key) of every value; of long lists only the first and the last few."""
    keys: list[Any] = list(item) if isinstance(item, dict) else list(range(len(item)))
    for key in keys if len(keys) <= 12 else [*keys[:6], *keys[-6:]]:
        yield item, key
        if isinstance(item[key], dict | list):
            yield from _places(item[key])


def _other_bytes(content: bytes, draw: random.Random) -> bytes:
    """Return the content with a bit flipped, or bytes replaced, removed, repeated, moved or put in."""
    found = bytearray(content)
    for _ in range(draw.choice([1, 1, 1, 2, 5])):
        size = len(found)
        at = draw.randrange(size + 1)
        end = min(size, at + draw.choice([1, 1, 2, 8, 64, 1_000]))
        match draw.randrange(8):
            case 0 | 1 if at < size:
                found[at] ^= 1 << draw.randrange(8)
            case 2 if at < size:
                found[at] = draw.randrange(256)
            case 3:
                del found[at:end]
            case 4:
                found[at:at] = found[at:end]
            case 5:
                found[at:at] = draw.choice(_WORDS)
            case 6:
                found[at:end] = draw.choice(_WORDS)
            case _:
                del found[at:]
    return bytes(found)
