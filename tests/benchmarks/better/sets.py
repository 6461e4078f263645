"""The three retrieval sets of questions.md, and the texts of its pretrainings, read from the files of their authors.

A folder of data has `natural_questions/nq-open-oracle.jsonl.gz`, `squad_v1.1/dev-v1.1.from-dev-v2.0-answerable.json`,
`qmsum/train.jsonl`, `val.jsonl` and `test.jsonl`, `sst2/train.tsv` and `test.tsv`; all may be packed (`.zst`).
"""

import hashlib
import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from common.packed import unpacked

NQ, SQUAD, QMSUM = "nq", "squad", "qmsum"
_MARKS = re.compile(r"\{[^}]*\}")
"""What a transcript says of noises: `{vocalsound}`."""


@dataclass(frozen=True, kw_only=True)
class RetrievalSet:
    """Queries and the one document that answers each."""

    name: str
    documents: list[str]
    """All texts that are searched, each once."""
    test: list[tuple[str, str]]
    """Queries that are asked, and their document."""
    clusters: list[str]
    """Of each of these queries, what it shares with others: a title, a paragraph, a meeting."""
    train: list[tuple[str, str]]
    """Queries and documents to train on."""

    @cached_property
    def queries(self) -> list[str]:
        return [query for query, _ in self.test]

    @cached_property
    def relevant(self) -> list[int]:
        """The number of each query's document."""
        numbers = {text: number for number, text in enumerate(self.documents)}
        return [numbers[document] for _, document in self.test]


def plain(text: str) -> str:
    """Return a text with one space for each run of white space."""
    return " ".join(text.split())


def content(path: Path) -> str:
    """Return what a file holds, or the same file packed with zstd."""
    found = path if path.exists() else path.with_name(f"{path.name}.zst")
    with found.open("rb") as raw:
        return unpacked(found, raw).read().decode()


def records(path: Path) -> list[Any]:
    """Return the rows of a file of JSON lines."""
    return [json.loads(line) for line in content(path).splitlines()]


def is_held_out(title: str) -> bool:
    """Whether a title of NQ is of the fifth that is tested on."""
    return int(hashlib.sha256(title.encode()).hexdigest(), 16) % 5 == 0


def natural_questions(data: Path) -> RetrievalSet:
    """Questions and their passages of Wikipedia, with titles."""
    train, test, clusters = [], [], []
    for row in records(data / "natural_questions" / "nq-open-oracle.jsonl.gz"):
        (passage,) = row["ctxs"]
        pair = plain(row["question"]), plain(f"{passage['title']}. {passage['text']}")
        if is_held_out(passage["title"]):
            test.append(pair)
            clusters.append(passage["title"])
        else:
            train.append(pair)
    documents = list(dict.fromkeys(document for _, document in [*train, *test]))
    return RetrievalSet(
        name=NQ, documents=documents, test=test, clusters=clusters, train=train
    )


def squad(data: Path) -> RetrievalSet:
    """Questions and their paragraphs; all are tested on."""
    articles = json.loads(
        content(data / "squad_v1.1" / "dev-v1.1.from-dev-v2.0-answerable.json")
    )["data"]
    paragraphs = [
        paragraph for article in articles for paragraph in article["paragraphs"]
    ]
    test = [
        (plain(question["question"]), plain(paragraph["context"]))
        for paragraph in paragraphs
        for question in paragraph["qas"]
    ]
    documents = list(
        dict.fromkeys(plain(paragraph["context"]) for paragraph in paragraphs)
    )
    clusters = [document for _, document in test]
    return RetrievalSet(
        name=SQUAD, documents=documents, test=test, clusters=clusters, train=[]
    )


def words_of(turns: list[dict[str, str]]) -> str:
    """Return what was said in some turns, without who said it."""
    said = " ".join(turn["content"] for turn in turns)
    return plain(_MARKS.sub(" ", said))


def meetings(data: Path, part: str) -> list[dict[str, Any]]:
    """Return the meetings of a part of QMSum."""
    return records(data / "qmsum" / f"{part}.jsonl")


def qmsum(data: Path) -> RetrievalSet:
    """Queries about a meeting and the words of the span that answers each."""
    train, test, clusters = [], [], []
    for part in ("train", "val", "test"):
        for number, meeting in enumerate(meetings(data, part)):
            turns = meeting["meeting_transcripts"]
            for asked in meeting["specific_query_list"]:
                spans = [
                    turns[int(first) : int(last) + 1]
                    for first, last in asked["relevant_text_span"]
                ]
                document = words_of([turn for span in spans for turn in span])
                pair = plain(asked["query"]), document
                if part == "train":
                    train.append(pair)
                else:
                    test.append(pair)
                    clusters.append(f"{part}-{number}")
    documents = list(dict.fromkeys(document for _, document in [*train, *test]))
    return RetrievalSet(
        name=QMSUM, documents=documents, test=test, clusters=clusters, train=train
    )


SETS = {NQ: natural_questions, SQUAD: squad, QMSUM: qmsum}


def training_meetings(data: Path) -> list[str]:
    """Return all words of each of QMSum's training meetings."""
    return [
        words_of(meeting["meeting_transcripts"]) for meeting in meetings(data, "train")
    ]


def sst2(data: Path) -> dict[str, tuple[list[str], list[int]]]:
    """Return 2,000 training sentences of SST-2 and the 872 of its test, each with their labels."""
    parts = {}
    for part, step, most in (("train", 30, 2_000), ("test", 1, 872)):
        lines = content(data / "sst2" / f"{part}.tsv").splitlines()[
            1:
        ]  # without the columns' names
        rows = [line.split("\t") for line in lines[::step][:most]]
        parts[part] = [plain(row[0]) for row in rows], [int(row[1]) for row in rows]
    return parts
