"""What a miniature is made from: samples of original files in a folder, or made-up text and tasks.

The folder has the layout of the table in docs/miniature.md. Samples are rows of each file, written in the file's own
format, so that `python -m pretraining shards` and `python -m benchmarks import` read them as they read
the whole.
"""

from __future__ import annotations

import io
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from common.errors import UserError
from common.files import write_text
from miniature.grammar import jsonl
from miniature.recipe import FAMILIES, Form
from pretraining.sources import decompressed

__all__ = ["FILES", "Command", "answer_sentence", "dataset_commands", "describe", "spread", "text_sources"]

Row = TypeVar("Row")

Command = tuple[str, ...]
"""A room and the words after it: `("benchmarks", "run", "--model", ...)`."""

FILES = {
    "text": ("pretrain/eltec-eng.chapters.jsonl", "pretrain/100_english_novels.jsonl"),
    "sst2": ("sst2/train.tsv", "sst2/dev.tsv", "sst2/test.tsv"),
    "uner_en": tuple(f"uner_english_ewt/en_ewt-ud-{split}.iob2" for split in ("train", "dev", "test")),
    "squad": ("squad_v1.1/train-v1.1.prefix.json", "squad_v1.1/dev-v1.1.from-dev-v2.0-answerable.json"),
    "nq": ("natural_questions/nq-open-oracle.jsonl",),
    "msmarco": (
        "msmarco_passage/triplets/raw.tsv",
        "msmarco_passage/full_collection/raw.tsv",
        "msmarco_passage/dev_queries/raw.tsv",
        "msmarco_passage/qrel/qrel.json",
    ),
}
"""Files below DATA, each also with `.zst` or `.gz`."""

_MADE_UP_DOCUMENT_TOKENS = 150
_SHORT = 200
"""Characters of the SQuAD sentences that are taken: longer ones do not fit into the inputs with their questions."""
_SENTENCE_END = re.compile(r"[.!?] (?=[A-Z\"'])")


def describe(data: Path | None) -> str:
    """Return what the miniature is made from, in words."""
    if data is None:
        return "made-up text from a small grammar and made-up tasks, for no DATA was given"
    return (
        "real text and tasks: English novels; SST-2, UNER (EWT), sentences of SQuAD and NQ, some rows of each"
    )


def text_sources(form: Form, data: Path | None, raw: Path) -> list[str]:
    """Return the files of the pretraining text; made-up text is written first.

    Raises:
        UserError: `data` has none.
    """
    if data is not None:
        return [str(_find(data, name)) for name in FILES["text"]]
    path = raw / "text.jsonl"
    if not path.is_file():
        write_text(path, jsonl(form.tokens // _MADE_UP_DOCUMENT_TOKENS))
    return [str(path)]


def dataset_commands(form: Form, data: Path | None, raw: Path, out: Path) -> list[Command]:
    """Return the commands that make the datasets in `out`; samples of real files are written to `raw` first.

    Raises:
        UserError: a file is missing below `data`.
    """
    if data is None:
        return [
            ("benchmarks", "synthetic", name, "--train", str(train), "--evaluation", str(rest), "--out", str(out))
            for task, name in {**FAMILIES, "pairs": "msmarco"}.items()
            for train, rest in [form.examples["IR" if task == "pairs" else task]]
        ]  # fmt: skip
    commands: list[Command] = []
    for name, sample in _SAMPLES.items():
        words = [word for role, path in sample(form, data, raw).items() for word in (f"--{role}", str(path))]
        more = ("--skip-bad-lines",) if name == "msmarco" else ()
        commands.append(("benchmarks", "import", name, *words, *more, "--out", str(out)))
    return commands


def _sst2(form: Form, data: Path, raw: Path) -> dict[str, Path]:
    train, rest = form.examples["SC"]
    parts = zip(("train", "validation", "test"), FILES["sst2"], (train, rest, rest), strict=True)
    return {
        role: _written(raw / f"sst2-{role}.tsv", itertools.islice(_lines(data, name), size + 1))
        for role, name, size in parts
    }


def _uner(form: Form, data: Path, raw: Path) -> dict[str, Path]:
    train, rest = form.examples["TC"]
    parts = zip(("train", "validation", "test"), FILES["uner_en"], (train, rest, rest), strict=True)
    return {
        role: _written(raw / f"uner_en-{role}.iob2", spread(list(_sentences(_lines(data, name))), size))
        for role, name, size in parts
    }


def _sentences(lines: Iterable[str]) -> Iterator[str]:
    """Yield the sentences, each with the blank line after it."""
    sentence: list[str] = []
    for line in lines:
        sentence.append(line)
        if not line.strip():
            yield "".join(sentence)
            sentence = []


def spread(rows: Sequence[Row], count: int) -> list[Row]:
    """Return rows at even distances, at most `count`: these files go from source to source and topic to topic."""
    return [rows[number * len(rows) // count] for number in range(count)] if count < len(rows) else list(rows)


def _squad(form: Form, data: Path, raw: Path) -> dict[str, Path]:
    train, rest = form.examples["QA"]
    first, second = (
        [short for paragraph in _paragraphs(data, name) for short in _shortened(paragraph)]
        for name in FILES["squad"]
    )
    half = len(second) // 2
    parts = {
        "train": spread(first, train),
        "validation": spread(second[:half], rest),
        "test": spread(second[half:], rest),
    }
    return {
        role: _written(raw / f"squad-{role}.json", [json.dumps(_squad_file(rows))])
        for role, rows in parts.items()
    }


def _paragraphs(data: Path, name: str) -> Iterator[dict[str, Any]]:
    for article in json.loads("".join(_lines(data, name)))["data"]:
        yield from article["paragraphs"]


def _squad_file(paragraphs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {"version": "1.1", "data": [{"title": "", "paragraphs": list(paragraphs)}]}


def _shortened(paragraph: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a paragraph for each question: the sentence that holds all its answers, where it is short enough."""
    for question in paragraph["qas"]:
        if (short := answer_sentence(paragraph["context"], question)) is not None:
            yield short


def answer_sentence(context: str, question: dict[str, Any]) -> dict[str, Any] | None:
    """Return a paragraph of the sentence that holds a question's answers alone.

    Args:
        context: SQuAD's paragraph.
        question: one of its `qas`.

    Returns:
        A paragraph in SQuAD's form, the answers' offsets counted in the sentence; None when the sentence is long or
        holds not all answers.
    """
    answer = question["answers"][0]
    begin, last = answer["answer_start"], answer["answer_start"] + len(answer["text"])
    start = max((found.end() for found in _SENTENCE_END.finditer(context, 0, begin + 1)), default=0)
    found = _SENTENCE_END.search(context, max(start, last - 1))
    end = found.start() + 1 if found else len(context)
    inside = [
        {**item, "answer_start": item["answer_start"] - start}
        for item in question["answers"]
        if start <= item["answer_start"] and item["answer_start"] + len(item["text"]) <= end
    ]
    if end - start > _SHORT or len(inside) < len(question["answers"]):
        return None
    return {"context": context[start:end], "qas": [{**question, "answers": inside}]}


def _nq(form: Form, data: Path, raw: Path) -> dict[str, Path]:
    rest = form.examples["IR"][1]
    lines = itertools.islice(_lines(data, FILES["nq"][0]), 2 * rest)
    return {"test": _written(raw / "nq-test.jsonl", lines)}


def _pairs(form: Form, data: Path, raw: Path) -> dict[str, Path]:
    """Return MS MARCO's files, its few pairs joined by the NQ questions that the evaluation does not hold."""
    train, rest = form.examples["IR"]
    triples, *others = FILES["msmarco"]
    corpus, queries, judged = (_find(data, name) for name in others)
    pairs = []
    used = itertools.islice(_lines(data, FILES["nq"][0]), 2 * rest, 2 * rest + train)
    for row in map(json.loads, used):
        gold = next(passage for passage in row["ctxs"] if passage["isgold"])
        pairs.append((row["question"], gold["text"]))
    for line in _lines(data, triples):
        query, positive, *_ = line.rstrip("\n").split("\t")
        pairs.append((query, positive))
    return {
        "train": _written(
            raw / "msmarco-train.tsv", (f"{_flat(query)}\t{_flat(positive)}\n" for query, positive in pairs)
        ),
        "corpus": corpus,
        "queries": queries,
        "validation": judged,
        "test": judged,
    }


_SAMPLES: dict[str, Callable[[Form, Path, Path], dict[str, Path]]] = {
    "sst2": _sst2,
    "uner_en": _uner,
    "squad": _squad,
    "nq": _nq,
    "msmarco": _pairs,
}


def _flat(text: str) -> str:
    return " ".join(text.split())


def _find(data: Path, name: str) -> Path:
    for ending in ("", ".zst", ".gz"):
        if (path := data / f"{name}{ending}").is_file():
            return path
    raise UserError(
        f"{data / name}: no such file, nor with .zst or .gz; docs/miniature.md lists DATA's files"
    )


def _lines(data: Path, name: str) -> Iterator[str]:
    path = _find(data, name)
    with path.open("rb") as raw, io.TextIOWrapper(decompressed(str(path), raw), encoding="utf-8") as lines:
        yield from lines


def _written(path: Path, lines: Iterable[str]) -> Path:
    write_text(path, "".join(lines))
    return path
