"""The text and tasks of a miniature: made up, or some rows of what a folder holds, at even distances.

Made-up text has sentences that agree in number, and references over a distance. A document has a small cast. Verbs
agree with subjects across a relative clause, a character's home is stated once and asked for later, and between such
sentences stand unlabelled inputs of the made-up tasks, so that pretraining sees the words that the tasks use. The
tasks' own examples come from other draws.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.datasets.local_dataset import DatasetContent, LocalDataset, load, table, write
from benchmarks.datasets.synthetic import pick_word, synthetic
from benchmarks.protocol import get_dataset
from common.errors import UserError
from common.files import write_text
from miniature.forms import FAMILIES, WHOLE_CONTEXTS, Form
from workflow.jobs import Command

DATA = "data"
"""Folder of the datasets, below that of a miniature: jobs work there."""

Item = TypeVar("Item")

_TEXT_FILE = "raw/text.jsonl"
_DOCUMENT_TOKENS = 150
_MADE_UP_VOCAB = 512
"""The few words of made-up text allow no more. The networks' further rows stay unused."""
_SHORT = 200
"""Characters of the SQuAD sentences that are taken: longer ones do not fit into the inputs with their questions."""
_SENTENCE_END = re.compile(r"[.!?] (?=[A-Z\"'])")

_PEOPLE = ("teacher", "farmer", "painter", "sailor", "doctor", "singer")
_THINGS = ("bridge", "engine", "garden", "letter", "mirror", "tower")
_VERBS = (
    ("watches", "watch"),
    ("carries", "carry"),
    ("repairs", "repair"),
    ("hides", "hide"),
    ("paints", "paint"),
)
_TOWNS = ("Lyon", "Porto", "Riga", "Turin", "Ghent", "Basel")


@dataclass(frozen=True, kw_only=True)
class DataSource:
    """Where text and tasks come from."""

    place: Path | None = None
    """Folder of whole datasets in the local form, and of documents in `text`; None: they are made up."""

    @property
    def folder(self) -> str:
        """Its part of a miniature's folder."""
        return "made-up" if self.place is None else "real"

    @property
    def kind(self) -> str:
        """What captions call it."""
        return "made-up text and tasks" if self.place is None else "samples of real text and tasks"

    def vocab(self, wanted: int) -> int:
        """Return the ids of a tokenizer trained on the text."""
        return min(wanted, _MADE_UP_VOCAB) if self.place is None else wanted

    def text(self, form: Form, root: Path) -> str:
        """Return the text's place, as jobs in `root` call it; what is made up is written first."""
        if self.place is not None:
            return str(self.place / "text")
        if not (root / _TEXT_FILE).is_file():
            write_text(root / _TEXT_FILE, jsonl(form.tokens // _DOCUMENT_TOKENS))
        return _TEXT_FILE

    def commands(self, form: Form) -> list[Command]:
        """Return the commands that write the datasets."""
        if self.place is not None:
            words = ("miniature", "sample", "--form", form.name, "--data", str(self.place), "--out", DATA)
            return [(*words, "--divide", str(form.divide)) if form.divide > 1 else words]
        return [
            ("synthetic", name, "--train", str(train), "--evaluation", str(rest), "--out", DATA)
            for name in form.datasets
            for task in (get_dataset(name).task,)
            for train, rest in (form.examples[task],)
        ]


MADE_UP = DataSource()
"""Made-up text from a small grammar, and made-up tasks."""


def get_data_source(data: str | None, form: Form) -> DataSource:
    """Return the data source of a form that DATA names: a folder, or nothing for made-up text and tasks.

    Raises:
        UserError: the folder lacks its `text` or a dataset.
    """
    if not data:
        return MADE_UP
    place = Path(data).resolve()  # jobs work in another folder
    for part in ("text", *form.datasets):
        if not (place / part).is_dir():
            raise UserError(f"--data {data} has no folder {part} (docs/miniature.md)")
    return DataSource(place=place)


def write_samples(form: Form, data: Path, out: Path) -> None:
    """Write as many rows of each dataset as a form takes, as datasets of the same names.

    Args:
        form: it says how many.
        data: folder with the whole datasets in the local form.
        out: folder of the samples.

    Raises:
        UserError: a dataset is not in `data` or damaged, or another sample of it is in `out`.
    """
    for name in form.datasets:
        _write_sample(form, load(data, name), out)


def _write_sample(form: Form, whole: LocalDataset, out: Path) -> None:
    """Write as many rows of a whole dataset as a form takes."""
    train, rest = form.examples[whole.dataset.task]
    sizes = {"train": train, "validation": rest, "test": rest}
    if whole.dataset.task == "IR":
        tables = _retrieval(whole, sizes)
    elif whole.dataset.task == "QA" and form.tuning_length < WHOLE_CONTEXTS:
        short = {split: _shortened(whole.tables[split]) for split in sizes}
        tables = {split: table("QA", split, spread(rows, sizes[split])) for split, rows in short.items()}
    else:
        tables = {split: _rows(whole.tables[split], size) for split, size in sizes.items()}
    write_sample(
        whole, tables, f"at most {train:,} rows of train and {rest:,} of the others, at even distances", out
    )


def write_sample(whole: LocalDataset, tables: Mapping[str, pa.Table], choice: str, out: Path) -> None:
    """Write some rows of a dataset as one of the same name; `choice` says in words which they are."""
    manifest = whole.manifest
    files = replace(whole.dataset.files, licence=manifest.licence, citation=manifest.citation)
    write(
        out,
        replace(whole.dataset, files=files),
        DatasetContent(tables=tables, splits=f"{choice}, of: {manifest.splits}", notes=manifest.notes),
        source={"kind": "sample", "files": [], "content": manifest.content, "of": dict(manifest.source)},
    )


def _rows(whole: pa.Table, size: int) -> pa.Table:
    return whole.take(spread(range(whole.num_rows), size))


def _shortened(rows: pa.Table) -> list[Mapping[str, Any]]:
    """Return the questions whose answers are in one short sentence, with that sentence as context."""
    short: list[Mapping[str, Any]] = []
    for row in rows.to_pylist():
        spans = [(answer["start"], len(answer["text"])) for answer in row["answers"]]
        if spans and (sentence := answer_sentence(row["context"], spans)):
            start, end = sentence
            answers = [{**answer, "start": answer["start"] - start} for answer in row["answers"]]
            short.append({**row, "context": row["context"][start:end], "answers": answers})
    return short


def _retrieval(whole: LocalDataset, sizes: Mapping[str, int]) -> dict[str, pa.Table]:
    """Return some questions of each split, what is judged for them, and the corpus of that alone."""
    queries, judged = [], []
    for split in ("validation", "test"):
        of_split = pc.field("split") == split
        queries.append(_rows(whole.tables["queries"].filter(of_split), sizes[split]))
        judged.append(whole.tables["qrels"].filter(of_split & pc.field("query_id").isin(queries[-1]["id"])))
    qrels = pa.concat_tables(judged)
    corpus = whole.corpus.filter(pc.field("id").isin(qrels["doc_id"]))
    tables = {"queries": pa.concat_tables(queries), "qrels": qrels, "corpus": corpus}
    if "pairs" in whole.tables:
        tables["pairs"] = _rows(whole.tables["pairs"], sizes["train"])
    return tables


def spread(rows: Sequence[Item], count: int) -> list[Item]:
    """Return rows at even distances, at most `count`: such files go from source to source and topic to topic."""
    return [rows[number * len(rows) // count] for number in range(count)] if count < len(rows) else list(rows)


def answer_sentence(context: str, answers: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """Return start and end of the sentence that holds a question's answers; None if it is long or lacks one.

    Args:
        context: the paragraph.
        answers: start and length of each answer, in characters; at least one.
    """
    begin, length = answers[0]
    start = max((match.end() for match in _SENTENCE_END.finditer(context, 0, begin + 1)), default=0)
    next_end = _SENTENCE_END.search(context, max(start, begin + length - 1))
    end = next_end.start() + 1 if next_end else len(context)
    holds_all = all(start <= first and first + size <= end for first, size in answers)
    return (start, end) if holds_all and end - start <= _SHORT else None


def documents(count: int, seed: int = 0) -> Iterator[str]:
    """Yield made-up documents; the same arguments give the same text."""
    rng = np.random.default_rng([seed, 7])
    # Another seed than the tasks' own examples have.
    texts = _task_texts(count, seed + 1)
    for _ in range(count):
        cast = [(pick_word(rng, _PEOPLE), pick_word(rng, _TOWNS)) for _ in range(3)]
        sentences = [f"The {person} lives in {town}." for person, town in cast]
        for _ in range(int(rng.integers(3, 7))):
            sentences.append(_agreeing(rng, [person for person, _ in cast]))
            sentences.append(texts[int(rng.integers(len(texts)))])
        person, town = cast[int(rng.integers(3))]
        sentences.append(f"The {person} goes home to {town}.")
        yield " ".join(sentences)


def jsonl(count: int, seed: int = 0) -> str:
    """Return the documents as JSON lines with the key `text`."""
    return "".join(json.dumps({"text": text}) + "\n" for text in documents(count, seed))


def _agreeing(rng: np.random.Generator, cast: Sequence[str]) -> str:
    """Return a sentence about somebody of the cast whose verb agrees with its subject in number."""
    plural = int(rng.integers(2))
    subject = pick_word(rng, cast) + "s" * plural
    # The noun in between has the other number: agreement needs the subject, not the nearest noun.
    between = f"near the {pick_word(rng, _THINGS)}{'' if plural else 's'} "
    verb = _VERBS[int(rng.integers(len(_VERBS)))][plural]
    return f"The {subject} {between}{verb} the {pick_word(rng, _THINGS)}."


def _task_texts(count: int, seed: int) -> list[str]:
    """Return the texts of made-up tasks, so that pretraining sees their words."""
    texts = []
    size = min(max(count, 16), 2_000)
    for name in FAMILIES.values():
        content = synthetic(get_dataset(name), train=size, evaluation=size // 4 + 2, seed=seed)
        for rows in content.tables.values():
            for column in ("first", "context", "text", "words"):
                if column in rows.column_names:
                    values = rows[column].to_pylist()
                    texts += [" ".join(value) if isinstance(value, list) else value for value in values]
    return texts
