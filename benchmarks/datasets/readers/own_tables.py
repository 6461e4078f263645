"""Tables of one's own: CSV, TSV with quotes or without, with or without a header, Arrow files and saved datasets."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.protocol import Dataset
from common.errors import UserError, first_line

if TYPE_CHECKING:
    import datasets

__all__ = ["Line", "saved", "table_lines"]

csv.field_size_limit(1 << 29)

Line = tuple[int, list[str] | str]
"""Number of a row's first line, and its fields, or what is wrong with it."""


def table_lines(path: Path, lines: Sequence[tuple[int, str]], dataset: Dataset) -> Iterator[Line]:
    """Yield the names of the columns, then the fields of each row of a table of text.

    CSV is read as RFC 4180 has it, with the comma, semicolon or tab that its first line has most of. Whether quotes
    around a field of a TSV file are part of its text is decided for the file as a whole: they are not where only then
    all rows have the columns of the first, where a column has them throughout, or where only fields have them that need
    them.

    Args:
        path: the file.
        lines: its lines with their numbers.
        dataset: says the `header` of a file that has none, and `quotes` where both readings are possible.

    Raises:
        UserError: both are, and `quotes` is not given.
    """
    first = lines[0][1] if lines else ""
    if ".csv" in path.suffixes:
        found = list(_quoted(lines, max(",;\t", key=first.count)))
    else:
        plain: list[Line] = [(number, line.split("\t")) for number, line in lines if line.strip()]
        found = plain
        marked = [number for number, fields in plain if any(field[:1] == '"' for field in fields)]
        if marked and dataset.quotes is not False:
            quoted = list(_quoted(lines, "\t"))
            width = len(dataset.header or plain[0][1])
            fits, as_plain = _fits(quoted, width), _fits(plain, width)
            sure = dataset.quotes or not as_plain or _meant(plain[not dataset.header :])
            if fits and not sure:
                raise UserError(
                    f"{path}:{marked[0]}: the quotes may be around the text or part of it, both can be read; say which "
                    f"with quotes = true or quotes = false in {dataset.where}"
                )
            found = quoted if dataset.quotes or fits else plain
    if dataset.header:
        if found and found[0][1] == list(dataset.header):
            raise UserError(
                f"{path}:1: the first line is the header; leave `header` out of {dataset.where}, which is for files "
                "without one"
            )
        yield 0, list(dataset.header)
    yield from found


def _quoted(lines: Sequence[tuple[int, str]], mark: str) -> Iterator[Line]:
    reader, start = csv.reader((f"{line}\n" for _, line in lines), delimiter=mark, strict=True), 1
    while True:
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield start, f"the quotes of the line are not those of a table ({error})"
        else:
            if fields:
                yield start, fields
        start = reader.line_num + 1


def _fits(found: Sequence[Line], width: int) -> bool:
    return all(isinstance(fields, list) and len(fields) == width for _, fields in found)


def _meant(rows: Sequence[Line]) -> bool:
    """Whether quotes are those of a writer: around a column throughout, or only where a field has some inside."""
    fields = [[field[:1] == '"' for field in row] for _, row in rows]
    whole = any(all(column) for column in zip(*fields, strict=True))
    return whole or all('""' in field[1:-1] for _, row in rows for field in row if field[:1] == '"')


def saved(path: Path) -> datasets.Dataset:
    """Open an Arrow file or a folder that `save_to_disk` of the package datasets wrote; `UserError` for others."""
    import datasets  # not for files of text
    import pyarrow as pa
    from pyarrow import feather

    try:
        if not path.is_dir():
            try:
                return datasets.Dataset.from_file(str(path))
            except pa.ArrowInvalid:
                return datasets.Dataset(feather.read_table(path))
        found: Any = datasets.load_from_disk(str(path))
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path} is no dataset that save_to_disk wrote, nor Arrow ({first_line(error)})"
        ) from None
    if isinstance(found, datasets.DatasetDict):
        raise UserError(
            f"{path} holds the splits {', '.join(found)}; name the folder of one: {path / next(iter(found))}"
        )
    return found
