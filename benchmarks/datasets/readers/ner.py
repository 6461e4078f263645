"""CoNLL-2003, OntoNotes 5 and UNER English: the hub's rows, or files with one word a line.

Read are UNER's `.iob2` (index, word, tag, ...), CoNLL's columns (word first, tag last; IOB1 becomes IOB2) and
CoNLL-2012's `*_gold_conll` (word in column 4, entities as brackets in column 11), with the documents that they name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.datasets.local_dataset import Content
from benchmarks.datasets.readers.original_files import (
    BadRowError,
    Reading,
    Row,
    class_names,
    document_of,
    is_text,
    lines,
    pick,
    records,
)
from benchmarks.datasets.readers.reader import Inputs, with_splits
from benchmarks.datasets.schema import DOCUMENT
from common.errors import UserError, nearest

__all__ = ["Sentence", "iob1_to_iob2", "read", "sentences", "tag_rows"]

_COLUMNS = {
    "words": ("words", "tokens"),
    "tags": ("tags", "ner", "ner_tags"),
    "document": ("document_id", "doc_id", "document"),
}
"""Names of the columns, the first that is there, of files of which a definition says nothing."""
_DIRECTIVE = re.compile(r"#\s*(begin|end) document\b")
_DOCUMENT = re.compile(
    r"-DOCSTART-|#\s*newdoc\b(?:\s+id\s*=\s*(?P<uner>.+))?|#\s*begin document\s*\((?P<conll>[^()]*)\)"
)
"""A line that starts a document, and its name where it has one; the parts of CoNLL-2012's are one document."""

Layout = Callable[[str], tuple[str, str] | None]
"""Returns (word, tag) of a line, empty when they are missing, or None for a line that holds no word."""


class Sentence(NamedTuple):
    """A sentence of a file with one word a line."""

    where: str
    """Where it starts."""
    words: list[str]
    tags: list[str]
    """As they are written."""
    document: str | None
    """The name of its document, or where that starts; None where the file names none."""


def sentences(path: Path, reading: Reading) -> Iterator[Sentence]:
    """Yield the sentences of a file with one word a line.

    Comments and the ranges of multi-word tokens are passed over.
    """
    words: list[str] = []
    tags: list[str] = []
    start, good = 0, True
    document: str | None = None
    own: str | None = None
    layout: Layout | None = None
    for number, line in chain(lines(path), [(0, "")]):
        if not line.strip():
            if words and good:
                written = _from_brackets(tags) if layout is _conll_2012 else tags
                yield Sentence(f"{path}:{start}", words, written, own)
            words, tags, good = [], [], True
            continue
        layout = layout or _layout(line)
        found = layout(line) if layout else None
        if found is None:
            if marked := _DOCUMENT.match(line):
                document = marked["uner"] or marked["conll"] or f"{path.name}:{number}"
            continue
        start, own = (start, own) if words else (number, document)
        if not all(found):
            reading.bad(f"{path}:{number}", "the line does not have a word and a tag")
            good = False
            continue
        words.append(found[0])
        tags.append(found[1])


def _columns(line: str) -> tuple[str, str] | None:
    """Read a word first and a tag last, separated by blanks or tabs."""
    parts = line.split("\t") if "\t" in line else line.split()
    if parts[0].startswith("-DOCSTART-"):
        return None
    return parts[0], parts[-1].strip() if len(parts) > 1 else ""


def _uner(line: str) -> tuple[str, str] | None:
    """Read index, word, tag, and columns about the annotation, separated by tabs; `#` starts a comment."""
    parts = line.split("\t")
    if line.startswith("#") or re.fullmatch(r"\d+[-.]\d+", parts[0]):
        return None
    return (parts[1].strip(), parts[2].strip()) if len(parts) > 2 and parts[0].isdecimal() else ("", "")


def _conll_2012(line: str) -> tuple[str, str] | None:
    """Read a word in column 4 and named entities as brackets in column 11."""
    parts = line.split()
    if _DIRECTIVE.match(line):
        return None
    return (parts[3], parts[10]) if len(parts) >= 12 else ("", "")


def _from_brackets(brackets: Sequence[str]) -> list[str]:
    """Return tags for `(ORG`, `*` and `*)`."""
    tags, inside = [], ""
    for bracket in brackets:
        opened = re.match(r"\(([^()*]+)", bracket)
        inside = opened[1] if opened else inside
        tags.append((f"B-{inside}" if opened else f"I-{inside}") if inside else "O")
        if bracket.endswith(")"):
            inside = ""
    return tags


def _layout(line: str) -> Layout | None:
    """Return how a file's lines are read, by its first line that is no comment."""
    if _DIRECTIVE.match(line):
        return _conll_2012
    parts = line.split("\t")
    if len(parts) > 2 and re.fullmatch(r"\d+([-.]\d+)?", parts[0]):
        return _uner
    return None if line.startswith("# ") else _columns


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


def read(inputs: Inputs) -> Content:
    """Read sentences with a tag for each word."""
    given = inputs.dataset.label_names, inputs.reading, inputs.dataset.columns
    return with_splits(inputs, lambda path: [row for part in _parts(path) for row in tag_rows(part, *given)])


def _parts(path: Path) -> list[Path]:
    """Return the files of a folder (CoNLL-2012 has thousands), or the file or saved dataset itself."""
    if not path.is_dir() or any(path.glob("dataset_*.json")):
        return [path]
    parts = sorted(path.rglob("*_gold_conll"))
    if not parts:
        raise UserError(f"{path} contains no *_gold_conll files")
    return parts


def tag_rows(
    path: Path,
    labels: tuple[str, ...],
    reading: Reading,
    columns: Mapping[str, Sequence[str]] | None = None,
) -> list[Row]:
    """Return the sentences of a file with the columns of the local form.

    Args:
        path: one word a line, or rows of words and tags.
        labels: the tags' names by id.
        reading: is given the bad rows.
        columns: names of the columns of `words`, `tags`, and `document`, which may be absent.
    """
    if is_text(path):
        return _line_rows(path, labels, reading)
    return _hub_rows(path, labels, reading, {**_COLUMNS, **(columns or {})})


def _line_rows(path: Path, labels: tuple[str, ...], reading: Reading) -> list[Row]:
    found = list(sentences(path, reading))
    if _is_iob1(one.tags for one in found):
        reading.note("IOB1 tags were turned into IOB2")
        found = [one._replace(tags=iob1_to_iob2(one.tags)) for one in found]
    rows = []
    for one in found:
        with reading.row(one.where):
            row: Row = {"words": one.words, "tags": _ids(one.tags, labels, labels)}
            rows.append(row if one.document is None else {**row, DOCUMENT: one.document})
    return rows


def _hub_rows(
    path: Path, labels: tuple[str, ...], reading: Reading, columns: Mapping[str, Sequence[str]]
) -> list[Row]:
    declared: tuple[str, ...] | None = None
    rows = []
    for where, row in records(path, reading):
        with reading.row(where):
            found, marked = pick(row, columns["words"]), pick(row, columns["tags"])
            if not found or len(found) != len(marked):
                raise BadRowError(f"there are {len(found)} words and {len(marked)} tags")
            if not all(isinstance(word, str) for word in found):
                raise BadRowError("a word is not text")
            if declared is None:
                declared = class_names(
                    path, next(name for name in columns["tags"] if row.get(name) is not None)
                )
            ids = _ids(marked, declared or labels, labels)
            rows.append({"words": list(found), "tags": ids, **document_of(row, columns["document"])})
    if not declared and rows and not _plausible(rows, labels):
        raise UserError(
            f"{path} numbers its tags without naming them; read as {', '.join(labels)}, they are not valid IOB2; "
            "import a file with tag names"
        )
    return rows


def _ids(tags: Sequence[Any], names: tuple[str, ...], labels: tuple[str, ...]) -> list[int]:
    """Return ids in `labels` of tags that are names, or ids in `names`; `BadRowError` for another one."""
    ids = []
    for tag in tags:
        name = names[tag] if isinstance(tag, int) and 0 <= tag < len(names) else str(tag)
        if name not in labels:
            known = ", ".join(labels)
            raise BadRowError(f"the tag {name!r} is not in the tag set {known}{nearest(name, labels)}")
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
