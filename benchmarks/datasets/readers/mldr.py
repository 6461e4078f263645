"""MLDR English, long documents; and QMSum's meetings in the same form, a stand-in where MLDR is not at hand."""

from __future__ import annotations

from benchmarks.datasets.local_dataset import Content
from benchmarks.datasets.readers.beir import Judgement, retrieval, wanted_texts
from benchmarks.datasets.readers.original_files import Reading, Row, records
from benchmarks.datasets.readers.reader import Inputs
from common.errors import UserError

__all__ = ["read"]

_STAND_IN = "made from QMSum's meetings and their specific queries, not from MLDR: a stand-in"


def read(inputs: Inputs) -> Content:
    """Read MLDR, or QMSum."""
    splits: dict[str, list[Judgement]] = {}
    queries: dict[str, str] = {}
    docs: dict[str, Row] = {}
    for split in ("validation", "test"):
        paths = inputs.need(split, f"the queries of its {split} split with their positive passages")
        splits[split] = []
        rows = (item for path in paths for item in records(path, inputs.reading))
        for position, (where, row) in enumerate(rows):
            found: _Found = []
            with inputs.reading.row(where):
                meeting = "meeting_transcripts" in row
                found = _meeting(row, f"{split}-{position}", inputs.reading) if meeting else _mldr(row)
            for query, text, doc, content in found:
                queries[query] = text
                splits[split].append((query, doc, 1))
                if content is not None:
                    docs[doc] = {"title": None, "text": content}
    wanted = dict.fromkeys(doc for found in splits.values() for _, doc, _ in found)
    for path in inputs.of("corpus"):
        for _, identity, _, text in wanted_texts(path, wanted, inputs.reading):
            docs[identity] = {"title": None, "text": text}
    missing = [doc for doc in wanted if doc not in docs]
    if missing:
        raise UserError(
            f"{len(missing):,} positive passages, the first {missing[0]!r}, come without text; "
            f"name the corpus with --corpus FILE"
        )
    stand_in = _STAND_IN in inputs.reading.notes()
    return Content(
        tables=retrieval(splits, queries, docs, inputs.reading),
        licence="MIT for the set; AMI and ICSI transcripts CC BY 4.0" if stand_in else "",
        citation="Zhong et al. 2021, QMSum (NAACL)" if stand_in else "",
        splits="validation is dev, test is test; the corpus holds the positive documents of both",
        notes=inputs.reading.notes(),
    )


_Found = list[tuple[str, str, str, str | None]]
"""Query id, query, document id, document or None."""


def _mldr(row: Row) -> _Found:
    return [
        (str(row["query_id"]), row["query"], str(passage["docid"]), passage.get("text"))
        for passage in row["positive_passages"]
    ]


def _meeting(row: Row, meeting: str, reading: Reading) -> _Found:
    """Return the specific queries of a meeting; the general ones ("summarise the meeting") fit any meeting."""
    reading.note(_STAND_IN)
    turns = (f"{turn['speaker']}: {turn['content']}" for turn in row["meeting_transcripts"])
    text = "\n".join(turns)
    return [
        (f"{meeting}-{number}", item["query"], meeting, text)
        for number, item in enumerate(row["specific_query_list"])
    ]
