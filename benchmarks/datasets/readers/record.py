"""ReCoRD: SuperGLUE's JSON lines, or a hub's rows with question, context and answers.

The paper's code asks its copy for question, context and answers and shows no conversion, so how placeholder
queries became questions is unknown (docs/datasets.md). Here the question is the query with its `@placeholder`,
the context is the passage as it is, and the answers are all mentions of the missing entity.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.datasets.local_dataset import Content
from benchmarks.datasets.readers.original_files import Reading, Row, kind_of, records
from benchmarks.datasets.readers.reader import READERS, DatasetReader, Inputs, carved_or_given
from benchmarks.datasets.readers.squad import answers_of, question_rows


def _rows(path: Path, reading: Reading) -> list[Row]:
    first = next(iter(records(path, reading)), (str(path), {}))[1] if not kind_of(path).columnar else {}
    if "qas" not in first:
        return question_rows(path, reading, unanswerable=False)
    reading.note("questions are the queries with @placeholder, contexts the passages with @highlight")
    found = []
    for where, passage in records(path, reading):
        with reading.shape(where):
            context = passage["passage"]["text"]
            for number, query in enumerate(passage["qas"], 1):
                name = str(query["idx"])
                answers = answers_of(query.get("answers", []), context)
                if answers and not reading.is_new(name, str(path), f"{where}, query {number} of the passage"):
                    continue
                if answers:
                    row = {"id": name, "question": query["query"], "context": context, "answers": answers}
                    found.append(row)
                else:
                    reading.bad(where, f"query {name} has no answer in its passage; test.jsonl is unlabelled")
    return found


def _read(inputs: Inputs) -> Content:
    return carved_or_given(inputs, lambda path, role: _rows(path, inputs.reading))


READERS.register(
    DatasetReader(
        name="record",
        read=_read,
        licence="not stated; text of CNN and Daily Mail, not to be passed on",
        citation="Zhang et al. 2018, ReCoRD: Bridging the Gap between Human and Machine Commonsense Reading "
        "Comprehension (arXiv 1810.12885)",
        files="train.jsonl and val.jsonl of SuperGLUE's ReCoRD",
        counts={"train": 95_693, "validation": 5_037, "test": 10_000},
    )
)
