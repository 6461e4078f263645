"""The texts of a retrieval set's queries and documents, by their ids, from files of any kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.datasets.column_names import TEXTS
from benchmarks.datasets.readers.original_files import (
    cells,
    is_missing,
    is_text,
    pick,
    row_at,
    rows_of_file,
    typed_file,
    words_of,
)
from benchmarks.datasets.schema import Row
from benchmarks.protocol import DatasetFiles
from common.errors import UserError
from common.packed import plain_suffix
from common.progress import progress

Text = tuple[str, str, str | None, str]
"""Place in a file (for messages), id, title or None, text: a query or a document."""


def wanted_texts(
    path: Path, wanted: Mapping[str, object] | None, files: DatasetFiles
) -> Iterator[Text]:
    """Yield the queries or documents of a file whose ids are wanted; the others are never held in memory.

    The file is Parquet or JSON lines with `_id`, `title` and `text`, or has lines of an id, a tab and a text.

    Args:
        path: the file.
        wanted: has the wanted ids as keys; None: all are wanted.
        files: how the definition says that tables of text are read.
    """
    # The library selects wanted rows of Parquet. If all are wanted, the last branch reads them in batches.
    if plain_suffix(path) == ".parquet" and wanted is not None:
        yield from _wanted_rows(path, wanted)
    # Lines of an id and a text, without names of columns.
    # Only files of one's own (`content`) may name their columns in the first line.
    elif is_text(path) and not (files.content and _names_texts(path, files)):
        for number, fields in progress(cells(path, files), path.name, unit="line"):
            # A text of the paper's files may have tabs; in files of one's own, further tabs are further columns.
            if len(fields) > 2 and not files.content:
                fields = [fields[0], "\t".join(fields[1:])]
            if len(fields) != 2:
                raise UserError(
                    f"{path}:{number}: the line is not an id, a tab and a text; further columns need their names in "
                    "the first line, such as id, title and text"
                )

            identity, text = (part.strip() for part in fields)
            if wanted is None or identity in wanted:
                yield f"{path}:{number}", identity, None, text
    # Rows with named columns, in a file of any kind.
    else:
        # The definition's header describes the file of pairs, not this one.
        files = replace(files, header=())
        for where, row in progress(rows_of_file(path, files), path.name, unit="line"):
            with row_at(where):
                identity = str(pick(row, TEXTS["id"]))
                if wanted is None or identity in wanted:
                    yield where, identity, _title(row), words_of(row, TEXTS["text"])


def _title(row: Row) -> str | None:
    """Return a document's title; None if it has none, for which pandas writes NaN."""
    return None if is_missing(row.get("title")) else words_of(row, ["title"])


def _names_texts(path: Path, files: DatasetFiles) -> bool:
    """Return whether the first line of a table names a column of ids and one of texts."""
    _, first = next(cells(path, files), (1, []))
    names = set(first)
    names_ids = not names.isdisjoint(TEXTS["id"])
    return names_ids and not names.isdisjoint(TEXTS["text"])


def _wanted_rows(path: Path, wanted: Mapping[str, object]) -> Iterator[Text]:
    """Yield the wanted rows of a Parquet file; the library reads no other row into memory."""
    with typed_file(path) as (schema, _):
        names = schema.names
        # The columns that may be meant, the most likely one first.
        keys = [name for name in TEXTS["id"] if name in names]
        texts = [name for name in TEXTS["text"] if name in names]
        if not keys or not texts:
            raise UserError(
                f"{path} has the columns {', '.join(names)}, but needs an id and a text column"
            )

        key = keys[0]
        columns = [key, texts[0]]
        if "title" in names:
            columns.append("title")

        # Ids are compared as texts: a file may have numbers.
        ids = pa.array(list(wanted), pa.string())
        is_wanted = pc.field(key).cast(pa.string()).isin(ids)

        # Still inside `typed_file`, which turns the errors of pyarrow into sentences.
        for row in pq.read_table(path, columns=columns, filters=is_wanted).to_pylist():
            where = f"{path}: row {row[key]}"
            with row_at(where):
                # Of the columns in `texts` the row has only the first: no other was read.
                yield where, str(row[key]), _title(row), words_of(row, texts)
