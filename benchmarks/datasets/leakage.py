"""The same example in two splits of a dataset: how many, and one of them. A score on such a test set says less."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import pyarrow as pa

from benchmarks.datasets.schema import SPLIT_TABLES
from common.registry import Registry

__all__ = ["TEXTS", "SharedTexts", "overlaps"]

Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class SharedTexts:
    """What is compared between the splits of a local form."""

    name: str
    """The form: a name in `benchmarks.datasets.schema.FORMS`."""
    what: str
    """What is the same when it is, in the plural."""
    splits: Callable[[Mapping[str, pa.Table]], dict[str, list[str]]]
    """Returns by split the texts to compare."""


def _rows_of(text: Callable[[Row], str], tables: Mapping[str, pa.Table]) -> dict[str, list[str]]:
    return {name: [text(row) for row in tables[name].to_pylist()] for name in SPLIT_TABLES if name in tables}


def of_rows(text: Callable[[Row], str]) -> Callable[[Mapping[str, pa.Table]], dict[str, list[str]]]:
    """Return how to get a text of each row by split."""
    return lambda tables: _rows_of(text, tables)


def pair_text(row: Row) -> str:
    """Return what a text or a pair of texts is known by."""
    return row["first"] if row["second"] is None else f"{row['first']} | {row['second']}"


def _queries(tables: Mapping[str, pa.Table]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {"train": tables["pairs"]["query"].to_pylist()} if "pairs" in tables else {}
    for row in tables["queries"].to_pylist():
        found.setdefault(row["split"], []).append(row["text"])
    return found


TEXTS: Registry[SharedTexts] = Registry(
    "task",
    [
        SharedTexts(name="SC", what="texts", splits=of_rows(pair_text)),
        SharedTexts(name="SC-labels", what="texts", splits=of_rows(pair_text)),
        SharedTexts(name="SC-value", what="texts", splits=of_rows(pair_text)),
        SharedTexts(name="TC", what="sentences", splits=of_rows(lambda row: " ".join(row["words"]))),
        SharedTexts(
            name="QA",
            what="questions with their contexts",
            splits=of_rows(lambda row: f"{row['question']} | {row['context']}"),
        ),
        SharedTexts(name="IR", what="queries", splits=_queries),
    ],
)
"""What is compared for each form."""


def overlaps(form: str, tables: Mapping[str, pa.Table]) -> Iterator[str]:
    """Yield a sentence for each two splits that share texts: how many of the second's, and the first of them.

    Args:
        form: a name in `TEXTS`.
        tables: the dataset's tables.
    """
    compared = TEXTS[form]
    texts = compared.splits(tables)
    for one, other in combinations([name for name in SPLIT_TABLES if name in texts], 2):
        known = set(texts[one])
        shared = [text for text in texts[other] if text in known]
        if shared:
            first = shared[0] if len(shared[0]) <= 60 else f"{shared[0][:60]}..."
            yield (
                f"{len(shared):,} of the {len(texts[other]):,} {compared.what} of {other} are in {one} as well, the "
                f"first {first!r}"
            )
