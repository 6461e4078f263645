"""What datasets are in a folder, and what a model sees of them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.datasets.local_dataset import LocalDataset, load, read_manifest
from benchmarks.datasets.schema import FORMS, SPLIT_TABLES, Manifest
from benchmarks.finetuning.tokenization import texts_of
from benchmarks.protocol import DATASETS, Dataset
from benchmarks.tag_schemes import OUTSIDE
from common.errors import UserError
from common.manifest import MANIFEST
from common.tables import Grid

_WIDTH = 1_000
"""Longest text shown, in characters."""


def dataset_table(data: Path, datasets: Mapping[str, Dataset] = DATASETS) -> Grid:
    """Return a table of datasets: family, counts of what is in `data`, licence."""
    rows: list[tuple[str, ...]] = [("dataset", "task", *SPLIT_TABLES, "from", "licence")]
    for name, dataset in datasets.items():
        counts: Mapping[str, int] = {}
        source, licence = "absent", dataset.files.licence
        if (data / name / MANIFEST).is_file():
            manifest = read_manifest(data, dataset)
            counts, source, licence = manifest.counts, str(manifest.source["kind"]), manifest.licence
        shown = (f"{counts[split]:,}" if split in counts else "-" for split in SPLIT_TABLES)
        rows.append((name, dataset.task, *shown, source, licence))
    return Grid(rows, range(2, 2 + len(SPLIT_TABLES)))


def show_text(data: Path, dataset: Dataset | str, *, split: str = "validation", count: int = 3) -> str:
    """Return what is known about a dataset, and its first examples as a model sees them.

    Args:
        data: the folder of the datasets.
        dataset: the dataset, or the name of one of the twelve.
        split: where the examples are taken from.
        count: how many.

    Raises:
        UserError: the dataset is not in `data`, is damaged, or has no such split.
    """
    found = load(data, dataset)
    parts = [_facts(found, data)]
    for number, (text, target) in enumerate(examples_of(found, split, count), 1):
        more = f" [... {len(text) - _WIDTH:,} more characters]" if len(text) > _WIDTH else ""
        shown = f"{text[:_WIDTH]}{more}"
        parts.append(f"{split} example {number}:\n{textwrap.indent(shown, '  | ')}\n  -> {target}")
    return "\n\n".join(parts)


def _facts(found: LocalDataset, data: Path) -> str:
    dataset, manifest = found.dataset, found.manifest
    facts = [("task", f"{manifest.task}, {dataset.title}"), ("folder", str(data / dataset.name))]
    facts += [(f"rows of {name}", f"{info.rows:,}") for name, info in manifest.tables.items()]
    facts += [("counts", ", ".join(f"{count:,} {split}" for split, count in manifest.counts.items()))]
    if manifest.labels:
        facts.append(("labels", ", ".join(f"{i} {label}" for i, label in enumerate(manifest.labels))))
    facts += [("splits", manifest.splits), ("licence", manifest.licence), ("citation", manifest.citation)]
    facts += [("source", _source(manifest))]
    facts += [("note", note) for note in manifest.notes]
    facts += [("content hash", manifest.content)]
    return f"{manifest.dataset}\n" + "\n".join(f"  {key}: {value}" for key, value in facts)


def _source(manifest: Manifest) -> str:
    """Return where a dataset is from: repositories with their commits, or the names of some files."""
    files = [
        f"{file['repo']}@{file['revision'][:12]}" if "repo" in file else f"{file['name']} ({file['role']})"
        for file in manifest.source["files"]
    ]
    return ", ".join(
        [manifest.source["kind"], *list(dict.fromkeys(files))[:8], *(["..."] if len(files) > 8 else [])]
    )


def _target(found: LocalDataset, row: Mapping[str, Any]) -> str:
    """Return what is expected of an example."""
    names = found.labels
    match found.dataset.form:
        case "TC":
            tagged = zip(row["words"], row["tags"], strict=True)
            return (
                " ".join(f"{word}/{names[tag]}" for word, tag in tagged if names[tag] != OUTSIDE)
                or "no entity"
            )
        case "QA":
            answers = (f"{answer['text']!r} at {answer['start']}" for answer in row["answers"])
            return ", ".join(dict.fromkeys(answers)) or "no answer"
        case "SC-labels":
            return f"labels {', '.join(names[label] for label in row['labels']) or 'none'}"
        case "SC-value":
            return f"value {row['value']:g}"
        case "IR":
            return "a pair"
        case _:
            return f"label {names[row['label']]}"


def examples_of(found: LocalDataset, split: str, count: int) -> Iterator[tuple[str, str]]:
    """Yield (text, target) of a split's first examples; every text is followed by the tokenizer's end of text.

    Raises:
        UserError: the dataset has no such split.
    """
    if found.dataset.form == "IR" and split != "train":
        yield from _judged_queries(found, split, count)
        return
    name = FORMS[found.dataset.form].train if split == "train" else split
    if name not in found.tables:
        raise UserError(f"{found.name} has no training split; its models train on {found.dataset.trained_on}")
    for row in found.tables[name].slice(0, count).to_pylist():
        yield "\n".join(texts_of(found.dataset, row)), _target(found, row)


def _judged_queries(found: LocalDataset, split: str, count: int) -> Iterator[tuple[str, str]]:
    """Yield the texts of the first queries, each with the best of its documents, and what is judged of it."""
    docs = {row["id"]: row for row in found.corpus.to_pylist()}
    qrels = found.qrels(split).to_pylist()
    for query in found.queries(split).slice(0, count).to_pylist():
        judged = [row for row in qrels if row["query_id"] == query["id"]]
        best = max(judged, key=lambda row: row["relevance"])
        positives = sum(row["relevance"] >= 1 for row in judged)
        texts = (text for row in (query, docs[best["doc_id"]]) for text in texts_of(found.dataset, row))
        yield (
            "\n".join(texts),
            f"relevance {best['relevance']}; {positives} relevant of {len(judged)} judged, {len(docs):,} documents",
        )
