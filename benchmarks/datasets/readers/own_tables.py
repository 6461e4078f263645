"""Tables of one's own: CSV, TSV with quotes or without, with or without a header, and saved datasets."""

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
    around a field of a TSV file are part of its text is for the definition to say.

    Args:
        path: the file.
        lines: its lines with their numbers.
        dataset: says the `header` of a file that has none, and the meaning of `quotes` where there are any.

    Raises:
        UserError: there are, and it does not; or the header is there.
    """
    first = lines[0][1] if lines else ""
    found: list[Line]
    if ".csv" in path.suffixes or dataset.quotes:
        found = list(_quoted(lines, max(",;\t", key=first.count) if ".csv" in path.suffixes else "\t"))
    else:
        found = [(number, line.split("\t")) for number, line in lines if line.strip()]
        marked = (number for number, fields in found if any(field[:1] == '"' for field in fields))
        if dataset.quotes is None and (number := next(marked, None)):
            raise UserError(
                f"{path}:{number}: the quotes may be around the text or part of it; say which with quotes = true or "
                f"quotes = false in {dataset.where}"
            )
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


def saved(path: Path) -> datasets.Dataset:
    """Open a folder that `save_to_disk` of the package datasets wrote; `UserError` for others."""
    import datasets  # not for files of text

    try:
        found: Any = datasets.load_from_disk(str(path))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is no dataset that save_to_disk wrote ({first_line(error)})") from None
    if isinstance(found, datasets.DatasetDict):
        raise UserError(
            f"{path} holds the splits {', '.join(found)}; name the folder of one: {path / next(iter(found))}"
        )
    return found
