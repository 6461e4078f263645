"""The judgements of a file in any form: BEIR's TSV, TREC's columns, a JSON object, or rows with named columns.

A judgement (of a file that TREC calls qrels) says how relevant a document is to a query: 1 or more, or 0 for not
at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.datasets.column_names import JUDGEMENTS
from benchmarks.datasets.readers.original_files import (
    BadRowError,
    is_text,
    is_whole_json,
    json_of,
    lines,
    pick,
    row_at,
    rows_of_file,
)
from benchmarks.protocol import DatasetFiles
from common.errors import UserError


def judged_pairs(
    path: Path, files: DatasetFiles
) -> Iterator[tuple[str, str, str, Any]]:
    """Yield (place for messages, query id, document id, relevance as written) of each judgement of a file.

    The branches below read a JSON object `{query: {document: relevance}}`, then text whose lines need not name their
    columns, then rows with named columns.
    """
    # A JSON list has rows with named columns: it goes to the last branch, which reads it by itself.
    content = None
    if is_whole_json(path):
        content = json_of(path)
    if isinstance(content, dict):
        for query, docs in content.items():
            with row_at(f"{path}: {query}"):
                if not isinstance(docs, dict):
                    raise BadRowError(
                        'the judgements have no relevances; write {"query": {"document": 1}}'
                    )
                for doc, value in docs.items():
                    yield f"{path}: {query}", query, doc, value
    elif is_text(path):
        for number, line in lines(path):
            fields = fields_of(line)
            if not any(fields):
                continue
            if number == 1 and fields[0].lower() in JUDGEMENTS["query"]:
                continue  # the names of the columns

            # TREC has a second column between query and document, which is always 0 or Q0 and says nothing.
            if len(fields) == 4:
                fields = [fields[0], *fields[2:]]
            if len(fields) != 3:
                hint = ""
                # A TREC run has what a system retrieved, not what people judged.
                if len(fields) == 6:
                    hint = "; it looks like a line of a TREC run, give the judgements (qrels)"
                raise UserError(
                    f"{path}:{number}: the line is not a judgement (query, document, relevance){hint}"
                )

            yield f"{path}:{number}", fields[0], fields[1], fields[2]
    else:
        for where, row in rows_of_file(path, files):
            with row_at(where):
                query = str(pick(row, JUDGEMENTS["query"]))
                document = str(pick(row, JUDGEMENTS["document"]))
                yield where, query, document, pick(row, JUDGEMENTS["relevance"])


def whole_relevance(value: Any) -> int:
    """Return a judgement's relevance as a number; some files write 1 as `1.0`."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise BadRowError(
            f"the line is not a judgement (query, document, relevance): {value!r:.80} is not a number"
        ) from None
    if not number.is_integer():
        raise BadRowError(
            f"the relevance {value} is not a whole number; write grades such as 0, 1, 2"
        )
    return int(number)


def fields_of(line: str) -> list[str]:
    """Return the columns of a line: what its tabs separate, so that ids may have blanks; without a tab, its blanks."""
    if "\t" not in line:
        return line.split()
    return [field.strip() for field in line.split("\t")]
