"""`python -m benchmarks datasets list|show|verify`: what is in data/, what a model sees of it, whether it is whole."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.datasets.local_dataset import LocalDataset, load, read_manifest, verify
from benchmarks.datasets.readers import source_of
from benchmarks.datasets.schema import MANIFEST, Manifest, schema_of
from benchmarks.finetuning.tokenization import classification_text, document_text, query_text, question_text
from benchmarks.protocol import DATASETS, get_dataset
from common.errors import UserError
from common.old_parser import Parser
from common.progress import progress

__all__ = ["examples", "list_text", "main", "show_text"]

_SPLITS = ("train", "validation", "test")


def list_text(data: Path) -> str:
    """Return a table of the twelve datasets: family, counts of what is in `data`, licence."""
    rows: list[tuple[str, ...]] = [("dataset", "task", *_SPLITS, "from", "licence")]
    for name, dataset in DATASETS.items():
        if (data / name / MANIFEST).is_file():
            manifest = read_manifest(data, name)
            counts = [f"{manifest.counts[split]:,}" if split in manifest.counts else "-" for split in _SPLITS]
            rows.append((name, dataset.task, *counts, str(manifest.source["kind"]), manifest.licence))
        else:
            rows.append((name, dataset.task, "-", "-", "-", "absent", source_of(dataset).licence))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(_aligned(row, widths)).rstrip() for row in rows)


def _aligned(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    numbers = range(2, 2 + len(_SPLITS))
    return [
        cell.rjust(width) if column in numbers else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]


def show_text(data: Path, name: str, *, split: str = "validation", count: int = 3, width: int = 1_000) -> str:
    """Return what is known about a dataset, and its first examples as a model sees them.

    Args:
        data: the folder of the datasets.
        name: the dataset.
        split: where the examples are taken from.
        count: how many.
        width: longest text shown, in characters.

    Raises:
        UserError: the dataset is not in `data`, is damaged, or has no such split; or `count` is negative.
    """
    if count < 0:
        raise UserError(f"{count} examples cannot be shown; give --examples 0 or more")
    found = load(data, name)
    parts = [_facts(found.manifest, data / name)]
    for number, (text, target) in enumerate(examples(found, split, count), 1):
        shown = text if len(text) <= width else f"{text[:width]} [... {len(text) - width:,} more characters]"
        parts.append(f"{split} example {number}:\n{textwrap.indent(shown, '  | ')}\n  -> {target}")
    return "\n\n".join(parts)


def _facts(manifest: Manifest, folder: Path) -> str:
    dataset = get_dataset(manifest.dataset)
    facts = [("task", f"{manifest.task}, {dataset.title}"), ("folder", str(folder))]
    facts += [(f"rows of {name}", f"{info.rows:,}") for name, info in manifest.tables.items()]
    facts += [
        (
            f"columns of {name}",
            ", ".join(f"{column.name}: {column.type}" for column in schema_of(manifest.task, name)),
        )
        for name in manifest.tables
        if manifest.task == "IR" or name == "train"
    ]
    facts += [("counts", ", ".join(f"{count:,} {split}" for split, count in manifest.counts.items()))]
    if manifest.labels:
        facts.append(("labels", ", ".join(f"{i} {label}" for i, label in enumerate(manifest.labels))))
    facts += [("splits", manifest.splits), ("licence", manifest.licence), ("citation", manifest.citation)]
    facts += [("source", _source(manifest))]
    facts += [("note", note) for note in manifest.notes]
    facts += [("content hash", manifest.content)]
    return f"{manifest.dataset}\n" + "\n".join(f"  {key}: {value}" for key, value in facts)


def _source(manifest: Manifest) -> str:
    files = manifest.source["files"]
    if manifest.source["kind"] == "hub":
        repos = dict.fromkeys(f"{file['repo']}@{file['revision'][:12]}" for file in files)
        return f"hub, {', '.join(repos)}"
    names = ", ".join(f"{file['name']} ({file['role']})" for file in files[:8])
    more = f" and {len(files) - 8} more" if len(files) > 8 else ""
    return f"{manifest.source['kind']}{', ' if names else ''}{names}{more}"


def examples(found: LocalDataset, split: str, count: int) -> Iterator[tuple[str, str]]:
    """Yield (text, target) of a split's first examples; every text is followed by the tokenizer's end of text.

    Raises:
        UserError: the dataset has no such split.
    """
    if found.dataset.task == "IR":
        yield from _retrieval_examples(found, split, count)
        return
    for row in found.tables[split].slice(0, count).to_pylist():
        yield _EXAMPLES[found.dataset.task](found, row)


def _classification_example(found: LocalDataset, row: dict[str, Any]) -> tuple[str, str]:
    return classification_text(found.name, row["first"], row["second"]), f"label {found.labels[row['label']]}"


def _tagging_example(found: LocalDataset, row: dict[str, Any]) -> tuple[str, str]:
    tags = (f"{word}/{found.labels[tag]}" for word, tag in zip(row["words"], row["tags"], strict=True) if tag)
    return " ".join(row["words"]), " ".join(tags) or "no entity"


def _answering_example(found: LocalDataset, row: dict[str, Any]) -> tuple[str, str]:
    answers = ", ".join(
        dict.fromkeys(f"{answer['text']!r} at {answer['start']}" for answer in row["answers"])
    )
    return question_text(row["question"]) + row["context"], answers or "no answer"


_EXAMPLES = {"SC": _classification_example, "TC": _tagging_example, "QA": _answering_example}


def _retrieval_examples(found: LocalDataset, split: str, count: int) -> Iterator[tuple[str, str]]:
    if split == "train":
        if "pairs" not in found.tables:
            raise UserError(
                f"{found.name} has no training split, it is trained on {found.dataset.trained_on}"
            )
        for row in found.train.slice(0, count).to_pylist():
            yield f"{query_text(row['query'])}\n{document_text(row['positive'])}", "a pair"
        return
    docs = {row["id"]: row for row in found.corpus.to_pylist()}
    qrels = found.qrels(split).to_pylist()
    for query in found.queries(split).slice(0, count).to_pylist():
        judged = [row for row in qrels if row["query_id"] == query["id"]]
        best = max(judged, key=lambda row: row["relevance"])
        document = docs[best["doc_id"]]
        positives = sum(row["relevance"] >= 1 for row in judged)
        yield (
            f"{query_text(query['text'])}\n{document_text(document['text'], document['title'])}",
            f"relevance {best['relevance']}; {positives} relevant of {len(judged)} judged, {len(docs):,} documents",
        )


def _verify(data: Path, names: Sequence[str]) -> int:
    faulty = 0
    for name in progress(names, "verifying", unit="dataset"):
        faults = verify(data, name)
        faulty += bool(faults)
        print(f"{name}: {'; '.join(faults)}" if faults else f"{name}: whole")
    return 1 if faulty else 0


def main(argv: Sequence[str]) -> int:
    """Run `python -m benchmarks datasets`; `verify` gives 1 when something is damaged."""
    parser = Parser(prog="python -m benchmarks datasets", description="Look at the datasets in data/.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for action, text in (
        ("list", "the twelve datasets, their counts and licences"),
        ("show", "schema, counts, source and three examples as the model sees them"),
        ("verify", "check every file and every row against the manifest's hashes"),
    ):
        sub = actions.add_parser(action, help=text, description=text)
        sub.add_argument(
            "--data", type=Path, default=Path("data"), help="folder of the datasets (default: data)"
        )
        if action == "show":
            sub.add_argument("dataset", metavar="DATASET")
            sub.add_argument("--split", choices=_SPLITS, default="validation", help="default: validation")
            sub.add_argument("--examples", type=int, default=3, help="how many examples (default: 3)")
        if action == "verify":
            sub.add_argument("datasets", nargs="*", metavar="DATASET", help="default: all that are there")
    args = parser.parse_args(argv)
    if args.action == "list":
        print(list_text(args.data))
        return 0
    if args.action == "show":
        print(show_text(args.data, args.dataset, split=args.split, count=args.examples))
        return 0
    names = args.datasets or [name for name in DATASETS if (args.data / name / MANIFEST).is_file()]
    if not names:
        raise UserError(
            f"{args.data} holds no datasets; fetch, import or make some first (python -m benchmarks)"
        )
    return _verify(args.data, names)
