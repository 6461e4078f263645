"""CoNLL-2003, OntoNotes 5 and UNER English: the hub's rows, or files with one word a line.

Read are UNER's `.iob2` (index, word, tag, ...), CoNLL's columns (word first, tag last; IOB1 becomes IOB2) and
CoNLL-2012's `*_gold_conll` (word in column 4, entities as brackets in column 11).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.datasets.local_dataset import Content
from benchmarks.datasets.readers.original_files import (
    Reading,
    Row,
    class_names,
    kind_of,
    lines,
    pick,
    records,
)
from benchmarks.datasets.readers.reader import READERS, DatasetReader, Inputs, given
from common.errors import UserError, nearest

__all__ = ["CONLL_TAGS", "ONTONOTES_TAGS", "UNER_TAGS", "hub_rows", "iob1_to_iob2", "line_rows", "sentences"]

UNER_TAGS = ("O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC")
CONLL_TAGS = (*UNER_TAGS, "B-MISC", "I-MISC")

ONTONOTES_TAGS = (
    "O", "B-CARDINAL", "B-DATE", "I-DATE", "B-PERSON", "I-PERSON", "B-NORP", "B-GPE", "I-GPE", "B-LAW", "I-LAW",
    "B-ORG", "I-ORG", "B-PERCENT", "I-PERCENT", "B-ORDINAL", "B-MONEY", "I-MONEY", "B-WORK_OF_ART",
    "I-WORK_OF_ART", "B-FAC", "B-TIME", "I-CARDINAL", "B-LOC", "B-QUANTITY", "I-QUANTITY", "I-NORP", "I-LOC",
    "B-PRODUCT", "I-TIME", "B-EVENT", "I-EVENT", "I-FAC", "B-LANGUAGE", "I-PRODUCT", "I-ORDINAL", "I-LANGUAGE",
)  # fmt: skip
"""Order of the public copy with the columns and the 37 tags that the paper's code names."""

_WORDS, _TAGS = ("words", "tokens"), ("tags", "ner", "ner_tags")
_DIRECTIVE = re.compile(r"#\s*(begin|end) document\b")


def sentences(path: Path, reading: Reading) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield (where it starts, words, tags) for each sentence of a file with one word a line.

    Comments, `-DOCSTART-` lines and the ranges of multi-word tokens are passed over; the tags are as written.
    """
    words: list[str] = []
    tags: list[str] = []
    start, good = 0, True
    split = None
    for number, line in (*lines(path), (0, "")):
        if not line.strip():
            if words and good:
                yield f"{path}:{start}", words, tags
            words, tags, good, split = [], [], True, split.restart() if split else None
            continue
        if split is None:
            split = _layout(line)
            if split is None:
                continue
        found = split.fields(line)
        if found is None:
            continue
        start = start if words else number
        word, tag = found
        if not word or not tag:
            reading.bad(f"{path}:{number}", "the line has no word and tag")
            good = False
            continue
        words.append(word)
        tags.append(tag)


class _Columns:
    """Word first, tag last, separated by blanks or tabs."""

    def restart(self) -> _Columns:
        return self

    def fields(self, line: str) -> tuple[str, str] | None:
        """Return (word, tag), empty when they are missing, or None for a line that holds no word."""
        parts = line.split("\t") if "\t" in line else line.split()
        if parts[0].startswith("-DOCSTART-"):
            return None
        return parts[0], parts[-1].strip() if len(parts) > 1 else ""


class _Uner(_Columns):
    """Index, word, tag, and columns about the annotation, separated by tabs; `#` starts a comment."""

    def fields(self, line: str) -> tuple[str, str] | None:
        parts = line.split("\t")
        if line.startswith("#") or re.fullmatch(r"\d+[-.]\d+", parts[0]):
            return None
        return (parts[1].strip(), parts[2].strip()) if len(parts) > 2 and parts[0].isdecimal() else ("", "")


class _Conll2012(_Columns):
    """CoNLL-2012: word in column 4, named entities as brackets in column 11."""

    def __init__(self) -> None:
        self._open = ""

    def restart(self) -> _Columns:
        return _Conll2012()

    def fields(self, line: str) -> tuple[str, str] | None:
        if _DIRECTIVE.match(line):
            return None
        parts = line.split()
        if len(parts) < 12:
            return "", ""
        entity = parts[10]
        opened = re.match(r"\(([^()*]+)", entity)
        if opened:
            self._open = opened[1]
        tag = (f"B-{self._open}" if opened else f"I-{self._open}") if self._open else "O"
        if entity.endswith(")"):
            self._open = ""
        return parts[3], tag


def _layout(line: str) -> _Columns | None:
    if _DIRECTIVE.match(line):
        return _Conll2012()
    parts = line.split("\t")
    if len(parts) > 2 and re.fullmatch(r"\d+([-.]\d+)?", parts[0]):
        return _Uner()
    return None if line.startswith("# ") else _Columns()


def iob1_to_iob2(tags: Sequence[str]) -> list[str]:
    """Return the tags with `B-` on the first word of every entity, for tags where only adjacent ones have it."""
    return [
        f"B-{tag[2:]}" if tag.startswith("I-") and before[2:] != tag[2:] else tag
        for before, tag in pairwise(("O", *tags))
    ]


def _is_iob1(tagged: Iterable[Sequence[str]]) -> bool:
    """Whether entities start with `I-`, and `B-` occurs only between two entities of one type."""
    inside = False
    for tags in tagged:
        for before, tag in pairwise(("O", *tags)):
            inside |= tag.startswith("I-")
            if tag.startswith("B-") and before[2:] != tag[2:]:
                return False
    return inside


def _read(labels: tuple[str, ...], inputs: Inputs) -> Content:
    def rows(path: Path, role: str) -> list[Row]:
        read = line_rows if kind_of(path).bare else hub_rows
        return [row for part in _parts(path) for row in read(part, labels, inputs.reading)]

    return given(inputs, rows, labels)


def _parts(path: Path) -> list[Path]:
    """Return the files of a folder (CoNLL-2012 has thousands), or the file itself."""
    if not path.is_dir():
        return [path]
    parts = sorted(path.rglob("*_gold_conll"))
    if not parts:
        raise UserError(f"{path} has no *_gold_conll files in it")
    return parts


def line_rows(path: Path, labels: tuple[str, ...], reading: Reading) -> list[Row]:
    """Read a file with one word a line."""
    found = list(sentences(path, reading))
    if _is_iob1(tags for _, _, tags in found):
        reading.note("IOB1 tags were turned into IOB2")
        found = [(where, words, iob1_to_iob2(tags)) for where, words, tags in found]
    rows = []
    for where, words, tags in found:
        ids = _ids(tags, labels, labels, reading, where)
        if ids is not None:
            rows.append({"words": words, "tags": ids})
    return rows


def hub_rows(
    path: Path,
    labels: tuple[str, ...],
    reading: Reading,
    *,
    words: Sequence[str] = _WORDS,
    tags: Sequence[str] = _TAGS,
) -> list[Row]:
    """Read rows of words and tags; the names of their columns are `words` and `tags`, the first that is there."""
    word_names, tag_names = words, tags
    names: tuple[str, ...] | None = None
    declared = False
    rows = []
    for where, row in records(path, reading):
        found_words = pick(row, word_names, reading, where)
        found_tags = pick(row, tag_names, reading, where)
        if found_words is None or found_tags is None:
            continue
        with reading.shape(where):
            if not found_words or len(found_words) != len(found_tags):
                reading.bad(where, f"there are {len(found_words)} words and {len(found_tags)} tags")
                continue
            if not all(isinstance(word, str) for word in found_words):
                reading.bad(where, "a word is no text")
                continue
            if names is None:
                column = next(name for name in tag_names if row.get(name) is not None)
                found = class_names(path, column)
                names, declared = found or labels, found is not None
            ids = _ids(found_tags, names, labels, reading, where)
            if ids is not None:
                rows.append({"words": list(found_words), "tags": ids})
    if not declared and rows and not _plausible(rows, labels):
        raise UserError(
            f"{path} numbers its tags without naming them, and read as {', '.join(labels)} they are no valid "
            f"IOB2; import a file with the tags' names"
        )
    return rows


def _ids(tags: Sequence[Any], names: tuple[str, ...], labels: tuple[str, ...], reading: Reading, where: str
         ) -> list[int] | None:  # fmt: skip
    """Return ids in `labels` of tags that are names, or ids in `names`; None after a bad one."""
    ids = []
    for tag in tags:
        name = names[tag] if isinstance(tag, int) and 0 <= tag < len(names) else str(tag)
        if name not in labels:
            reading.bad(
                where, f"the tag {name!r} is outside the tag set {', '.join(labels)}{nearest(name, labels)}"
            )
            return None
        ids.append(labels.index(name))
    return ids


def _plausible(rows: Sequence[Row], labels: tuple[str, ...]) -> bool:
    """Whether nearly all `I-` tags follow their own entity, as they would not under a wrong order of the ids."""
    inside = strays = 0
    for row in rows:
        for before, tag in pairwise(("O", *(labels[tag] for tag in row["tags"]))):
            inside += tag.startswith("I-")
            strays += tag.startswith("I-") and before[2:] != tag[2:]
    return strays <= 0.02 * inside


READERS.register(
    DatasetReader(
        name="conll2003_en",
        read=partial(_read, CONLL_TAGS),
        licence="Reuters corpus terms, research use; not to be passed on",
        citation="Tjong Kim Sang and De Meulder 2003, Introduction to the CoNLL-2003 Shared Task (CoNLL)",
        files="eng.train, eng.testa and eng.testb of CoNLL-2003",
        counts={"train": 14_041, "validation": 3_250, "test": 3_453},
        labels=CONLL_TAGS,
    )
)
READERS.register(
    DatasetReader(
        name="ontonotes",
        read=partial(_read, ONTONOTES_TAGS),
        licence="LDC User Agreement (LDC2013T19); not to be passed on",
        citation="Hovy et al. 2006, OntoNotes: The 90% Solution (NAACL); Pradhan et al. 2013 (CoNLL)",
        files="train, development and test of OntoNotes 5 in CoNLL form (a file or a folder of *_gold_conll each)",
        counts={"train": 59_924, "validation": 8_528, "test": 8_262},
        labels=ONTONOTES_TAGS,
    )
)
READERS.register(
    DatasetReader(
        name="uner_en",
        read=partial(_read, UNER_TAGS),
        licence="CC BY-SA 4.0",
        citation="Mayhew et al. 2024, Universal NER: A Gold-Standard Multilingual NER Benchmark (NAACL)",
        files="en_ewt-ud-train.iob2, en_ewt-ud-dev.iob2 and en_ewt-ud-test.iob2 of UNER_English-EWT",
        counts={"train": 12_543, "validation": 2_001, "test": 2_077},
        labels=UNER_TAGS,
    )
)
