"""What is taken of a dataset that is too large for a miniature: rows of its local form, at even distances."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.datasets.local_dataset import Content, LocalDataset, load, table, write
from miniature.forms import Form

__all__ = ["answer_sentence", "spread", "write_sample"]

Row = TypeVar("Row")

_SHORT = 200
"""Characters of the SQuAD sentences that are taken: longer ones do not fit into the inputs with their questions."""
_SENTENCE_END = re.compile(r"[.!?] (?=[A-Z\"'])")


def write_sample(form: Form, name: str, data: Path, out: Path) -> None:
    """Write as many rows of a dataset as a form takes, as a dataset of the same name.

    Args:
        form: it says how many.
        name: the dataset.
        data: folder with the whole dataset in the local form.
        out: folder of the samples.

    Raises:
        UserError: the dataset is not in `data` or damaged, or another sample of it is in `out`.
    """
    found = load(data, name)
    train, rest = form.examples[found.dataset.task]
    sizes = {"train": train, "validation": rest, "test": rest}
    if found.dataset.task == "IR":
        tables = _retrieval(found, sizes)
    elif found.dataset.task == "QA":
        short = {split: _shortened(found.tables[split]) for split in sizes}
        tables = {split: table("QA", split, spread(rows, sizes[split])) for split, rows in short.items()}
    else:
        tables = {split: _rows(found.tables[split], size) for split, size in sizes.items()}
    manifest = found.manifest
    splits = f"at most {train:,} rows of train and {rest:,} of the others, at even distances, of: {manifest.splits}"
    write(
        out,
        replace(found.dataset, licence=manifest.licence, citation=manifest.citation),
        Content(tables=tables, splits=splits, notes=manifest.notes),
        source={"kind": "sample", "files": [], "content": found.content_hash, "of": dict(manifest.source)},
    )


def _rows(rows: pa.Table, size: int) -> pa.Table:
    return rows.take(spread(range(rows.num_rows), size))


def _shortened(rows: pa.Table) -> list[Mapping[str, Any]]:
    """Return the questions whose answers are in one short sentence, with that sentence as context."""
    found: list[Mapping[str, Any]] = []
    for row in rows.to_pylist():
        spans = [(answer["start"], len(answer["text"])) for answer in row["answers"]]
        if spans and (sentence := answer_sentence(row["context"], spans)):
            start, end = sentence
            answers = [{**answer, "start": answer["start"] - start} for answer in row["answers"]]
            found.append({**row, "context": row["context"][start:end], "answers": answers})
    return found


def _retrieval(found: LocalDataset, sizes: Mapping[str, int]) -> dict[str, pa.Table]:
    """Return some questions of each split, what is judged for them, and the corpus of that alone."""
    asked, judged = [], []
    for split in ("validation", "test"):
        of_split = pc.field("split") == split
        asked.append(_rows(found.tables["queries"].filter(of_split), sizes[split]))
        judged.append(found.tables["qrels"].filter(of_split & pc.field("query_id").isin(asked[-1]["id"])))
    qrels = pa.concat_tables(judged)
    corpus = found.corpus.filter(pc.field("id").isin(qrels["doc_id"]))
    tables = {"queries": pa.concat_tables(asked), "qrels": qrels, "corpus": corpus}
    if "pairs" in found.tables:
        tables["pairs"] = _rows(found.tables["pairs"], sizes["train"])
    return tables


def spread(rows: Sequence[Row], count: int) -> list[Row]:
    """Return rows at even distances, at most `count`: such files go from source to source and topic to topic."""
    return [rows[number * len(rows) // count] for number in range(count)] if count < len(rows) else list(rows)


def answer_sentence(context: str, answers: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """Return start and end of the sentence that holds a question's answers; None if it is long or lacks one.

    Args:
        context: the paragraph.
        answers: start and length of each answer, in characters; at least one.
    """
    begin, length = answers[0]
    start = max((found.end() for found in _SENTENCE_END.finditer(context, 0, begin + 1)), default=0)
    found = _SENTENCE_END.search(context, max(start, begin + length - 1))
    end = found.start() + 1 if found else len(context)
    holds_all = all(start <= first and first + size <= end for first, size in answers)
    return (start, end) if holds_all and end - start <= _SHORT else None
