"""A miniature from original files in a folder, which has the layout of the table in docs/miniature.md.

Samples are rows of each file, written in the file's own format, so that `python -m pretraining shards` and
`python -m benchmarks import` read them as they read the whole.
"""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.errors import UserError
from common.files import write_text
from miniature.folders import Folders, dataset_job
from miniature.forms import Form
from miniature.sample import answer_sentence, spread
from pretraining.data.corpus import decompressed
from workflow.jobs import Job

__all__ = ["FILES", "LocalFiles"]

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

_SAMPLED = (
    "Samples are rows of each file: the first of SST-2 and NQ; of UNER and SQuAD, which go from source to source and",
    "topic to topic, rows at even distances. A SQuAD context is the sentence that holds the answer, if it has at most",
    "200 characters, for inputs to be short. Retrieval is trained on MS MARCO's pairs, of which DATA may hold few, and",
    "on NQ questions that the evaluation does not hold.",
)


@dataclass(frozen=True)
class LocalFiles:
    """Text and tasks from a folder."""

    data: Path
    """The folder."""
    folder = "real"
    about = (
        "real text and tasks: English novels; SST-2, UNER (EWT), sentences of SQuAD and NQ, some rows of each"
    )
    needs_network = False
    kind = "samples of real text and tasks"
    sampled = _SAMPLED
    max_vocab = None

    def text(self, form: Form, folders: Folders) -> list[str]:
        """Return the files of the pretraining text."""
        return [str(_find(self.data, name)) for name in FILES["text"]]

    def datasets(self, form: Form, folders: Folders) -> list[Job]:
        """Write the samples, and return the job that imports them."""
        commands = []
        for name, sample in _SAMPLES.items():
            files = sample(form, self.data, folders.raw)
            words = [word for role, path in files.items() for word in (f"--{role}", str(path))]
            more = ("--skip-bad-lines",) if name == "msmarco" else ()
            commands.append(("benchmarks", "import", name, *words, *more, "--out", folders.data.name))
        return [dataset_job("datasets", commands, _SAMPLES, folders)]


def _sst2(form: Form, data: Path, raw: Path) -> dict[str, Path]:
    # The first line names the columns.
    return _splits(form, data, raw, "SC", "sst2", lambda lines, size: itertools.islice(lines, size + 1))


def _uner(form: Form, data: Path, raw: Path) -> dict[str, Path]:
    return _splits(
        form, data, raw, "TC", "uner_en", lambda lines, size: spread(list(_sentences(lines)), size)
    )


def _splits(
    form: Form,
    data: Path,
    raw: Path,
    task: str,
    name: str,
    take: Callable[[Iterator[str], int], Iterable[str]],
) -> dict[str, Path]:
    train, rest = form.examples[task]
    parts = zip(("train", "validation", "test"), FILES[name], (train, rest, rest), strict=True)
    return {
        role: _written(raw / f"{name}-{role}{Path(file).suffix}", take(_lines(data, file), size))
        for role, file, size in parts
    }


def _sentences(lines: Iterable[str]) -> Iterator[str]:
    """Yield the sentences, each with the blank line after it."""
    sentence: list[str] = []
    for line in lines:
        sentence.append(line)
        if not line.strip():
            yield "".join(sentence)
            sentence = []


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
    files = {}
    for role, rows in parts.items():
        content = {"version": "1.1", "data": [{"title": "", "paragraphs": rows}]}
        files[role] = _written(raw / f"squad-{role}.json", [json.dumps(content)])
    return files


def _paragraphs(data: Path, name: str) -> Iterator[dict[str, Any]]:
    for article in json.loads("".join(_lines(data, name)))["data"]:
        yield from article["paragraphs"]


def _shortened(paragraph: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a paragraph for each question: the sentence that holds all its answers, where it is short enough."""
    for question in paragraph["qas"]:
        spans = [(item["answer_start"], len(item["text"])) for item in question["answers"]]
        if sentence := answer_sentence(paragraph["context"], spans):
            start, end = sentence
            inside = [{**item, "answer_start": item["answer_start"] - start} for item in question["answers"]]
            yield {"context": paragraph["context"][start:end], "qas": [{**question, "answers": inside}]}


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
    lines = (f"{_flat(query)}\t{_flat(positive)}\n" for query, positive in pairs)
    written = _written(raw / "msmarco-train.tsv", lines)
    return {"train": written, "corpus": corpus, "queries": queries, "validation": judged, "test": judged}


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
