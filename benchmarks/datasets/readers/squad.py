"""SQuAD v1.1 and v2.0: the hub's Parquet, or the official JSON. Other sets in either form use the same functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.datasets.local_dataset import Content
from benchmarks.datasets.readers.original_files import Reading, Row, json_of, kind_of, pick_text, records
from benchmarks.datasets.readers.reader import READERS, DatasetReader, Inputs, carved_or_given
from common.errors import UserError

__all__ = ["answers_of", "question_rows"]


def question_rows(
    path: Path, reading: Reading, *, unanswerable: bool, rename: Mapping[str, str] | None = None
) -> list[Row]:
    """Return the questions of a file with the columns of the local form.

    Args:
        path: official JSON (`data`, `paragraphs`, `qas`), or rows with question, context and answers.
        reading: is given the questions without an answer, and answers that are not in their context.
        unanswerable: whether a question may have no answer.
        rename: what columns of other names are.
    """
    found = []
    for number, (where, read) in enumerate(_flat(path, reading)):
        row = {(rename or {}).get(name, name): value for name, value in read.items()}
        question = pick_text(row, ("question", "query"), reading, where)
        context = pick_text(row, ("context", "passage"), reading, where)
        if question is None or context is None:
            continue
        with reading.shape(where):
            answers = answers_of(row.get("answers"), context)
            identity = str(row.get("id", row.get("idx", f"{path.name}-{number}")))
            if answers is None:
                reading.bad(where, "an answer is not in the context")
            elif not answers and not unanswerable:
                reading.bad(where, "the question has no answer, and this dataset has no unanswerable ones")
            elif reading.is_new(identity, str(path), where):
                found.append({"id": identity, "question": question, "context": context, "answers": answers})
    return found


def answers_of(value: Any, context: str) -> list[Row] | None:
    """Return `[{text, start}]` of answers in any of the known forms, or None when one is not in the context.

    Known are `{text: [...], answer_start: [...]}`, `[{text, answer_start or start}]` and a list of strings. An
    answer without a start, or with a wrong one, gets the start of its first occurrence in the context.
    """
    if value is None:
        return []
    if isinstance(value, dict):
        starts = value.get("answer_start", value.get("start")) or [None] * len(value["text"])
        pairs = list(zip(value["text"], starts, strict=True))
    else:
        pairs = [
            (item, None)
            if isinstance(item, str)
            else (item["text"], item.get("answer_start", item.get("start")))
            for item in value
        ]
    answers = []
    for text, start in pairs:
        if start is None or start < 0 or not context.startswith(text, start):
            start = context.find(text)
        if start < 0 or not text:
            return None
        answers.append({"text": text, "start": start})
    return answers


def _flat(path: Path, reading: Reading) -> Iterator[tuple[str, Row]]:
    if not kind_of(path).whole:
        yield from records(path, reading)
        return
    content = json_of(path)
    if not isinstance(content, dict) or not isinstance(content.get("data"), list):
        raise UserError(f"{path} is no SQuAD file: it has no list `data`")
    count = 0
    for number, article in enumerate(content["data"]):
        with reading.shape(f"{path}: article {number}"):
            for paragraph in article["paragraphs"]:
                for question in paragraph["qas"]:
                    count += 1
                    row = {**question, "context": paragraph["context"]}
                    if question.get("is_impossible"):
                        row["answers"] = []
                    yield f"{path}: question {count} ({question.get('id')})", row


def _read(unanswerable: bool, inputs: Inputs) -> Content:
    return carved_or_given(
        inputs, lambda path, role: question_rows(path, inputs.reading, unanswerable=unanswerable)
    )


READERS.register(
    DatasetReader(
        name="squad",
        read=partial(_read, False),
        licence="CC BY-SA 4.0",
        citation="Rajpurkar et al. 2016, SQuAD: 100,000+ Questions for Machine Comprehension of Text (EMNLP)",
        files="train-v1.1.json and dev-v1.1.json of SQuAD",
        counts={"train": 83_219, "validation": 4_380, "test": 10_570},
    )
)
READERS.register(
    DatasetReader(
        name="squad_v2",
        read=partial(_read, True),
        licence="CC BY-SA 4.0",
        citation="Rajpurkar et al. 2018, Know What You Don't Know: Unanswerable Questions for SQuAD (ACL)",
        files="train-v2.0.json and dev-v2.0.json of SQuAD",
        counts={"train": 123_803, "validation": 6_516, "test": 11_873},
    )
)
