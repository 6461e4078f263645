"""SQuAD v1.1, v2.0 and ReCoRD: the hub's Parquet, or the official JSON. Other sets in either form use the same
functions.

The paper's code asks its copy of ReCoRD for question, context and answers and shows no conversion, so how placeholder
queries became questions is unknown (docs/datasets.md). Here the question is the query with its `@placeholder`,
the context is the passage as it is, and the answers are all mentions of the missing entity.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.datasets.local_dataset import DatasetContent
from benchmarks.datasets.readers.original_files import BadRowError, json_of, pick_text, records, row_at
from benchmarks.datasets.readers.reader import ReaderInputs, with_splits
from benchmarks.datasets.schema import Row
from common.errors import UserError
from common.packed import plain_suffix


def question_rows(path: Path, inputs: ReaderInputs) -> list[Row]:
    """Return the questions of a file with the columns of the local form.

    Args:
        path: SQuAD's JSON (`data`, `paragraphs`, `qas`), SuperGLUE's JSON lines (`passage`, `qas`), or rows with
            question, context and answers.
        inputs: the dataset says whether a question may have no answer, how columns are called, and whether the file's
            own ids are kept or questions are numbered.

    Raises:
        UserError: a question has no answer where each needs one, or an answer that is not in its context.
    """
    dataset = inputs.dataset
    rename = {name: field for field, names in dataset.files.columns.items() for name in names}
    found = []
    for number, (where, read) in enumerate(_flat(path, inputs)):
        with row_at(where):
            row = {rename.get(name, name): value for name, value in read.items()}
            question = pick_text(row, ("question", "query"))
            context = pick_text(row, ("context", "passage"))
            answers = answers_of(row.get("answers"), context)
            if not answers and not dataset.may_abstain:
                raise BadRowError("the question has no answer, but every question of this dataset needs one")
            identity = f"{path.name}-{number}"
            if dataset.files.ids != "none":
                identity = str(row.get("id", row.get("idx", identity)))
            found.append({"id": identity, "question": question, "context": context, "answers": answers})
    return found


def answers_of(value: Any, context: str) -> list[Row]:
    """Return `[{text, start}]` of answers in any of the known forms.

    Known are `{text: [...], answer_start: [...]}`, `[{text, answer_start or start}]` and a list of strings. An
    answer without a start, or with a wrong one, gets the start of its first occurrence in the context.

    Raises:
        BadRowError: an answer is not in the context.
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
            raise BadRowError("an answer is not in the context")
        answers.append({"text": text, "start": start})
    return answers


def _flat(path: Path, inputs: ReaderInputs) -> Iterator[tuple[str, Row]]:
    if plain_suffix(path) != ".json":
        for where, row in records(path, inputs.dataset.files):
            if "qas" not in row:
                yield where, row
                continue
            inputs.note(
                "queries, with @placeholder, serve as questions; passages, with @highlight, as contexts"
            )
            with row_at(where):
                for query in row["qas"]:
                    yield where, {**query, "context": row["passage"]["text"]}
        return
    content = json_of(path)
    if not isinstance(content, dict) or not isinstance(content.get("data"), list):
        raise UserError(f"{path} is not a SQuAD file: it has no list `data`")
    count = 0
    for number, article in enumerate(content["data"]):
        with row_at(f"{path}: article {number}"):
            for paragraph in article["paragraphs"]:
                for question in paragraph["qas"]:
                    count += 1
                    row = {**question, "context": paragraph["context"]}
                    if question.get("is_impossible"):
                        row["answers"] = []
                    yield f"{path}: question {count} ({question.get('id')})", row


def read(inputs: ReaderInputs) -> DatasetContent:
    """Read questions with their contexts and answers."""
    return with_splits(inputs, lambda path: question_rows(path, inputs))
