"""Original distribution files: plain, .gz or .zst; TSV, JSON, JSON lines or Parquet. Bad rows are named.

Those of one's own may be CSV or a saved dataset, too, and their TSV may have quotes or no header.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.datasets.schema import DOCUMENT
from benchmarks.protocol import Dataset
from common.errors import UserError, first_line
from common.packed import plain_suffix, unpacked
from common.progress import progress

if TYPE_CHECKING:
    import datasets

__all__ = [
    "BadRowError", "Reading", "Row", "class_names", "document_of", "is_text", "json_of",
    "lines", "parquet_file", "pick", "pick_text", "records",
]  # fmt: skip

Row = dict[str, Any]
log = logging.getLogger(__name__)

_BATCH = 1 << 14
_LONGEST = 1 << 28
"""Bytes of the longest line that is read: all of SQuAD is a line of 30 MB."""
csv.field_size_limit(2 * _LONGEST)

_Line = tuple[int, list[str] | str]
"""Number of a row's first line, and its fields, or what is wrong with it."""


class BadRowError(ValueError):
    """What is wrong with a row, in a sentence that does not name its place."""


class Reading:
    """What to do with bad rows: stop with a sentence that names the line, or skip, count and say so."""

    own: Dataset | None = None
    """The dataset of one's own that is read, of which there is one."""

    def __init__(self, *, skip_bad: bool = False) -> None:
        self._skip_bad = skip_bad
        self._skipped: dict[str, str] = {}
        self._notes: dict[str, None] = {}
        self._seen: dict[tuple[str, str], str] = {}

    def bad(self, where: str, sentence: str) -> None:
        """Report a bad row.

        Raises:
            UserError: bad rows are not to be skipped.
        """
        if not self._skip_bad:
            raise UserError(f"{where}: {sentence} (--skip-bad-lines leaves such lines out)")
        log.warning("%s: %s; left out", where, sentence)
        self._skipped.setdefault(where, sentence)

    @contextlib.contextmanager
    def row(self, where: str) -> Iterator[None]:
        """Report the row that a block reads where it is bad, or its fields are missing or of another kind."""
        try:
            yield
        except BadRowError as error:
            self.bad(where, str(error))
        except UserError:
            raise
        except (KeyError, TypeError, AttributeError, IndexError, ValueError, OverflowError) as error:
            what = f"{error} is missing" if isinstance(error, KeyError) else first_line(error)
            self.bad(where, f"the row does not have the expected form: {what}")

    def once(self, identity: str, scope: str, where: str) -> None:
        """Take note of an id.

        Raises:
            BadRowError: it has occurred in `scope`, a file, before.
        """
        first = self._seen.setdefault((scope, identity), where)
        if first != where:
            hint = "; set ids = 'none' to number the questions instead" if self.own else ""
            raise BadRowError(f"the id {identity!r} occurs twice, first at {first}{hint}")

    def note(self, sentence: str) -> None:
        """Keep a sentence for the manifest, once."""
        self._notes[sentence] = None

    def notes(self) -> tuple[str, ...]:
        """Return what the manifest should say about repairs and lines left out."""
        if not self._skipped:
            return tuple(self._notes)
        where, sentence = next(iter(self._skipped.items()))
        first = f"{where.rpartition('/')[2]}: {sentence}"
        return (*self._notes, f"bad lines left out: {len(self._skipped)}, the first at {first}")


def pick(row: Row, names: Sequence[str]) -> Any:
    """Return the first of the columns `names` that the row has; `BadRowError` where it has none."""
    for name in names:
        if row.get(name) is not None:
            return row[name]
    there = ", ".join(repr(name[:40]) for name in row)
    raise BadRowError(f"there is no column {' or '.join(names)}; the columns are {there}")


def pick_text(row: Row, names: Sequence[str]) -> str:
    """Return what `pick` finds; `BadRowError` where it is no text."""
    found = pick(row, names)
    if not isinstance(found, str):
        raise BadRowError(f"{names[0]} is not text: {found!r:.80}")
    return found


def document_of(row: Row, names: Sequence[str]) -> Row:
    """Return what the local form has of a row's document: nothing where none of the columns `names` has a value."""
    found = next((row[name] for name in names if row.get(name) is not None), None)
    return {} if found is None else {DOCUMENT: str(found)}


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, line without its end) of a text file, compressed or not.

    Only a newline ends a line, so that a form feed or a Unicode separator inside a text is kept.

    Raises:
        UserError: the file is absent, cut short or not UTF-8, or a line is endless; the line is named.
    """
    if not path.is_file():
        raise UserError(f"there is no file {path}")
    number = 0
    try:
        with path.open("rb") as raw:
            read = functools.partial(unpacked(path, raw).readline, _LONGEST)
            for number, line in enumerate(iter(read, b""), 1):
                if len(line) == _LONGEST:
                    raise UserError(f"{path}:{number}: the line is too long ({_LONGEST:,} bytes or more)")
                text = line.removesuffix(b"\n").removesuffix(b"\r")
                yield number, text.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{path}:{number}: the line is not UTF-8; convert the file first") from None
    except OSError as error:
        if error.errno is not None:
            raise
        raise UserError(
            f"{path}: the compressed file is damaged after line {number} ({first_line(error)})"
        ) from None


def json_of(path: Path) -> Any:
    """Return a JSON file's content; `UserError` names the line where it is none."""
    try:
        return orjson.loads("\n".join(line for _, line in lines(path)))
    except orjson.JSONDecodeError as error:
        raise UserError(f"{path}:{error.lineno}: not valid JSON ({error.msg})") from None


def is_text(path: Path) -> bool:
    """Return whether a file's lines need not name their fields, by its name."""
    return not path.is_dir() and plain_suffix(path) not in _ROWS


def records(path: Path, reading: Reading) -> Iterator[tuple[str, Row]]:
    """Yield (where, row) of Parquet, JSON lines, a JSON array or object of rows, or a table with a header.

    Args:
        path: the file; its kind follows from its name.
        reading: is given the lines that cannot be read.
    """
    read = _saved_rows if path.is_dir() else _ROWS.get(plain_suffix(path), _table_rows)
    return read(path, reading)


def class_names(path: Path, column: str) -> tuple[str, ...]:
    """Return the class names that a hub's Parquet file or a saved dataset declares for `column`; none for none."""
    if path.is_dir():
        features: Any = _saved(path).features.to_dict()
    elif plain_suffix(path) == ".parquet":
        with parquet_file(path) as file:
            metadata = (file.schema_arrow.metadata or {}).get(b"huggingface")
        features = orjson.loads(metadata)["info"]["features"] if metadata else {}
    else:
        return ()
    feature = features.get(column)
    while feature is not None:
        feature = feature[0] if isinstance(feature, list) else feature
        if feature.get("names"):
            return tuple(feature["names"])
        feature = feature.get("feature")
    return ()


@contextlib.contextmanager
def parquet_file(path: Path) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file; `UserError` when it is absent, or turns out damaged while it is read."""
    try:
        with pq.ParquetFile(path) as file:
            yield file
    except FileNotFoundError:
        raise UserError(f"there is no file {path}") from None
    except UserError:
        raise
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise UserError(f"{path} cannot be read as Parquet: {first_line(error)}") from None


def _parsed(line: str) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return None


def _json_line_rows(path: Path, reading: Reading) -> Iterator[tuple[str, Row]]:
    for number, line in lines(path):
        if line.strip():
            row = _parsed(line)
            if isinstance(row, dict):
                yield f"{path}:{number}", row
            else:
                reading.bad(f"{path}:{number}", "the line is not a JSON object")


def _json_rows(path: Path, reading: Reading) -> Iterator[tuple[str, Row]]:
    first = [line for (_, line), _ in zip(lines(path), range(2), strict=False)]
    if len(first) == 2 and isinstance(_parsed(first[0]), dict):
        yield from _json_line_rows(path, reading)
        return
    content = json_of(path)
    if not isinstance(content, dict | list):
        raise UserError(f"{path} contains neither a list nor an object of rows")
    for key, row in content.items() if isinstance(content, dict) else enumerate(content):
        if isinstance(row, dict):
            yield f"{path}: entry {key}", row
        else:
            reading.bad(f"{path}: entry {key}", "the entry is not a JSON object")


def _parquet_rows(path: Path, reading: Reading) -> Iterator[tuple[str, Row]]:
    number = 0
    with parquet_file(path) as file:
        total = -(-file.metadata.num_rows // _BATCH)
        for batch in progress(file.iter_batches(_BATCH), path.name, total=total, unit="batch"):
            for row in batch.to_pylist():
                yield f"{path}: row {number}", row
                number += 1


def _table_rows(path: Path, reading: Reading) -> Iterator[tuple[str, Row]]:
    found = _table_lines(path, reading.own)
    number, header = next(found, (0, []))
    if isinstance(header, str):
        raise UserError(f"{path}:{number}: {header}")
    for number, fields in found:
        if isinstance(fields, str):
            reading.bad(f"{path}:{number}", fields)
        elif len(fields) != len(header):
            reading.bad(f"{path}:{number}", f"the line has {len(fields)} columns instead of {len(header)}")
        else:
            yield f"{path}:{number}", dict(zip(header, fields, strict=True))


def _table_lines(path: Path, own: Dataset | None) -> Iterator[_Line]:
    """Yield the names of the columns, then the fields of each row of a table of text.

    CSV is read as RFC 4180 has it, with the comma, semicolon or tab that its first line has most of. Whether quotes
    around a field of a TSV file are part of its text is for the definition to say.

    Args:
        path: the file.
        own: says the `header` of a file that has none, and the meaning of `quotes` where there are any; None for the
            paper's files, whose quotes are of the text.

    Raises:
        UserError: there are, and it does not; or the header is there.
    """
    rows: list[_Line]
    is_csv = ".csv" in path.suffixes
    if is_csv or (own and own.quotes):
        first = next((line for _, line in lines(path)), "")
        rows = list(_quoted(path, max(",;\t", key=first.count) if is_csv else "\t"))
    else:
        rows = [(number, line.split("\t")) for number, line in lines(path) if number == 1 or line.strip()]
    marked = (number for number, fields in rows if any(field[:1] == '"' for field in fields))
    if own and own.quotes is None and not is_csv and (number := next(marked, None)):
        raise UserError(
            f"{path}:{number}: the quotes may enclose the text or be part of it; set quotes = true if they enclose "
            f"it, else quotes = false, in {own.where}"
        )
    if own and own.header:
        if rows and rows[0][1] == list(own.header):
            raise UserError(f"{path}:1: the first line is the header; remove `header` from {own.where}")
        yield 0, list(own.header)
    yield from rows


def _quoted(path: Path, mark: str) -> Iterator[_Line]:
    reader, start = csv.reader((f"{line}\n" for _, line in lines(path)), delimiter=mark, strict=True), 1
    while True:
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield start, f"the line has invalid quotes ({error})"
        else:
            if fields:
                yield start, fields
        start = reader.line_num + 1


def _saved(path: Path) -> datasets.Dataset:
    """Open a folder that `save_to_disk` of the package datasets wrote; `UserError` for others."""
    import datasets  # not for files of text

    try:
        found: Any = datasets.load_from_disk(str(path))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is not a dataset written by save_to_disk ({first_line(error)})") from None
    if isinstance(found, datasets.DatasetDict):
        raise UserError(
            f"{path} contains the splits {', '.join(found)}; give the folder of one, such as {path / next(iter(found))}"
        )
    return found


def _saved_rows(path: Path, reading: Reading) -> Iterator[tuple[str, Row]]:
    for number, row in enumerate(_saved(path)):
        yield f"{path}: row {number}", dict(row)


_ROWS: dict[str, Callable[[Path, Reading], Iterator[tuple[str, Row]]]] = {
    ".parquet": _parquet_rows,
    ".csv": _table_rows,
    ".jsonl": _json_line_rows,
    ".json": _json_rows,
}
"""How the rows of a file are read, by the end of its name; any other name is a file of lines."""
