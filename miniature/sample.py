"""A dataset's rows for a miniature, taken of its local form."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.datasets.local_dataset import Content, LocalDataset, load, table, write
from miniature.forms import Form
from miniature.sampling import answer_sentence, spread

__all__ = ["write_sample"]


def write_sample(form: Form, name: str, data: Path, out: Path) -> None:
    """Write as many rows of a dataset as a form takes, at even distances, as a dataset of the same name.

    Args:
        form: it says how many.
        name: the dataset.
        data: folder with the whole dataset in the local form.
        out: folder of the samples.

    Raises:
        UserError: the dataset is not in `data` or damaged, or another sample of it is in `out`.
    """
    found = load(data, name)
    task = found.dataset.task
    train, rest = form.examples[task]
    tables = _retrieval(found, train, rest) if task == "IR" else _splits(found, train, rest)
    content = Content(
        tables=tables,
        labels=found.labels,
        splits=f"at most {train:,} rows of train and {rest:,} of the others, at even distances, of: "
        f"{found.manifest.splits}",
        notes=found.manifest.notes,
    )
    source = {"kind": "sample", "files": [], "content": found.content_hash, "of": dict(found.manifest.source)}
    write(
        out, found.dataset, content, source=source, licence=found.manifest.licence,
        citation=found.manifest.citation,
    )  # fmt: skip


def _splits(found: LocalDataset, train: int, rest: int) -> dict[str, pa.Table]:
    sizes = {"train": train, "validation": rest, "test": rest}
    if found.dataset.task == "QA":
        shortened = {name: _shortened(found.tables[name]) for name in sizes}
        return {name: table("QA", name, spread(rows, sizes[name])) for name, rows in shortened.items()}
    return {name: _rows(found.tables[name], size) for name, size in sizes.items()}


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


def _retrieval(found: LocalDataset, train: int, rest: int) -> dict[str, pa.Table]:
    asked, judged = [], []
    for split in ("validation", "test"):
        queries, qrels = (
            found.tables[name].filter(pc.field("split") == split) for name in ("queries", "qrels")
        )
        asked.append(_rows(queries, rest))
        judged.append(qrels.filter(pc.field("query_id").isin(asked[-1]["id"])))
    tables = {"queries": pa.concat_tables(asked), "qrels": pa.concat_tables(judged)}
    tables["corpus"] = found.corpus.filter(pc.field("id").isin(tables["qrels"]["doc_id"]))
    if "pairs" in found.tables:
        tables["pairs"] = _rows(found.tables["pairs"], train)
    return tables
