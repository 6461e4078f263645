"""CoNLL-2003, OntoNotes 5 and UNER English: the hub's rows, or files with one word a line.

Read are UNER's `.iob2` (index, word, tag, ...), CoNLL's columns (word first, tag last; other schemes become IOB2) and
CoNLL-2012's `*_gold_conll` (word in column 4, entities as brackets in column 11), with the documents that they name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from benchmarks.datasets.column_names import DOCUMENT_IDS, FIELD_NAMES
from benchmarks.datasets.local_dataset import DatasetContent
from benchmarks.datasets.readers.original_files import (
    BadRowError,
    document_of,
    is_text,
    lines,
    pick,
    row_at,
    rows_of_file,
)
from benchmarks.datasets.readers.reader import ReaderInputs, with_splits
from benchmarks.datasets.schema import DOCUMENT, Row
from benchmarks.protocol import DatasetFiles
from benchmarks.tag_schemes import OUTSIDE, is_iob, tag_parts, to_iob2
from common.errors import UserError, nearest

_COLUMNS = {**FIELD_NAMES["tags"], DOCUMENT: DOCUMENT_IDS}
_DIRECTIVE = re.compile(r"#\s*(begin|end) document\b")
_DOCUMENT = re.compile(
    r"-DOCSTART-|#\s*newdoc\b(?:\s+id\s*=\s*(?P<uner>.+))?|#\s*begin document\s*\((?P<conll>[^()]*)\)"
)
"""A line that starts a document, and its name where it has one; the parts of CoNLL-2012's are one document."""

_COMMENT = re.compile(r"#(?!\s*begin document\b)")
_TAGGED = re.compile(r"O|[BIELMSUW]-.+")
_BLANKS = re.compile(" +")

ColumnLayout = Callable[[str], tuple[str, str] | None]
"""Returns (word, tag) of a line, empty when they are missing, or None for a line that holds no word."""


def sentences(
    path: Path, labels: Sequence[str] = (), own: DatasetFiles | None = None
) -> Iterator[tuple[str, Row]]:
    """Yield (where it starts, row) of the sentences of a file with one word a line: words, and tags as written.

    A row names its document, or where that starts, if the file names any. Comments and the ranges of multi-word tokens
    are passed over. Where a sentence may begin, a line with `#` is a comment unless it has a tag, one of `labels` or of
    a scheme, and as many columns as the file's first word. Files of one's `own` dataset have two columns, or its
    definition says by number which ones are read.

    Raises:
        UserError: a line lacks a word or a tag.
    """
    words: list[str] = []
    tags: list[str] = []
    start = 0
    document: str | None = None
    # The document in which the sentence began.
    sentence_document: str | None = None
    first = next(
        (line for _, line in lines(path) if line.strip() and not _COMMENT.match(line)),
        "",
    )
    layout = _layout(first)
    if own and own.content and layout is not _conll_2012:
        layout = _own_layout(own)
    # The last sentence of a file may lack its empty line.
    for number, line in chain(lines(path), [(0, "")]):
        if not line.strip():
            if words:
                written = _from_brackets(tags) if layout is _conll_2012 else tags
                yield (
                    f"{path}:{start}",
                    {"words": words, "tags": written, DOCUMENT: sentence_document},
                )
            words, tags = [], []
            continue
        pair = layout(line)
        may_be_comment = not words and line.startswith("#")
        if pair and may_be_comment and layout not in (_uner, _conll_2012):
            # Not a comment if the sentence's first word is #: then the line has a tag and as many columns as others.
            has_tag = pair[1] in labels or _TAGGED.fullmatch(pair[1])
            is_word = len(_cut(line)) == len(_cut(first)) and has_tag
            pair = pair if is_word else None
        if pair is None:
            marked = _DOCUMENT.match(line)
            if marked is not None:
                # -DOCSTART- gives no name: the line's number makes one.
                document = marked["uner"] or marked["conll"] or f"{path.name}:{number}"
            continue
        if not all(pair):
            size = len(_cut(line))
            hint = ""
            if size > 2:
                hint = f", but {size} columns; set columns = {{words = ..., tags = ...}} to their numbers"
            raise UserError(
                f"{path}:{number}: the line does not have a word and a tag{hint}"
            )
        if not words:
            start, sentence_document = number, document
        words.append(pair[0])
        tags.append(pair[1])


def _columns(
    line: str, word: int = 0, tag: int = -1, count: int = 0
) -> tuple[str, str] | None:
    """Read a word and a tag from the columns `word` and `tag` of a line; `count`: columns it must have, 0 for any."""
    parts = _cut(line)
    if parts[0].startswith("-DOCSTART-"):
        return None
    if len(parts) < 2 or max(word, tag) >= len(parts) or count not in (0, len(parts)):
        return "", ""
    return parts[word].strip(" "), parts[tag].strip()


def _own_layout(files: DatasetFiles) -> ColumnLayout:
    """Return how lines of one's own files are read: two columns, or those whose numbers the definition gives."""
    numbers = [files.columns[field][0] for field in ("words", "tags")]
    if "0" in numbers or not all(map(str.isdecimal, numbers)):
        return partial(_columns, count=2)
    word, tag = (int(number) - 1 for number in numbers)
    return partial(_columns, word=word, tag=tag)


def _cut(line: str) -> list[str]:
    """Return the columns of a line; other spaces, such as that in 10 000, are of their word."""
    return line.split("\t") if "\t" in line else _BLANKS.split(line.strip(" "))


def _uner(line: str) -> tuple[str, str] | None:
    """Read index, word, tag, and columns about the annotation, separated by tabs; `#` starts a comment."""
    parts = line.split("\t")
    # 1-2 is a range of words that are written as one, 1.1 a word that is not written: neither has a tag.
    if line.startswith("#") or re.fullmatch(r"\d+[-.]\d+", parts[0]):
        return None
    if len(parts) < 3 or not parts[0].isdecimal():
        return "", ""
    return parts[1].strip(" "), parts[2].strip()


def _conll_2012(line: str) -> tuple[str, str] | None:
    """Read a word in column 4 and named entities as brackets in column 11."""
    parts = re.split(r"[ \t]+", line.strip(" \t"))
    if _DIRECTIVE.match(line):
        return None
    return (parts[3], parts[10]) if len(parts) >= 12 else ("", "")


def _from_brackets(brackets: Sequence[str]) -> list[str]:
    """Return tags for CoNLL-2012's brackets: `(ORG` begins an entity, `*` continues, `*)` ends it."""
    tags, inside = [], ""
    for bracket in brackets:
        opened = re.match(r"\(([^()*]+)", bracket)
        inside = opened[1] if opened else inside
        tags.append((f"B-{inside}" if opened else f"I-{inside}") if inside else "O")
        if bracket.endswith(")"):
            inside = ""
    return tags


def _layout(line: str) -> ColumnLayout:
    """Return how a file's lines are read, by its first line that is no comment."""
    if _DIRECTIVE.match(line):
        return _conll_2012
    parts = line.split("\t")
    if len(parts) > 2 and re.fullmatch(r"\d+([-.]\d+)?", parts[0]):
        return _uner
    return _columns


def _is_iob1(tagged: Iterable[Sequence[str]]) -> bool:
    """Whether entities start with `I-`, and `B-` occurs only between two entities of one type."""
    inside = False
    for tags in tagged:
        for before, tag in pairwise(("O", *tags)):
            inside |= tag.startswith("I-")
            if tag.startswith("B-") and before[2:] != tag[2:]:
                return False
    return inside


def read(inputs: ReaderInputs) -> DatasetContent:
    """Read sentences with a tag for each word."""
    return with_splits(inputs, lambda path: tag_rows(path, inputs))


def tag_rows(path: Path, inputs: ReaderInputs) -> list[Row]:
    """Return the sentences of a file with the columns of the local form.

    Args:
        path: one word a line, or rows of words and tags.
        inputs: the dataset has the tags' names by id, and the names of the columns of rows.

    Raises:
        UserError: a tag is unknown, or tags are numbers whose names are unknown and do not fit.
    """
    labels, columns = inputs.dataset.label_names, _COLUMNS
    if is_text(path):
        read_rows = sentences(path, labels, inputs.dataset.files)
    else:
        columns = {**_COLUMNS, **inputs.dataset.files.columns}
        read_rows = rows_of_file(path, inputs.dataset.files, inputs.note)
    # Names that the file itself gives to numbered tags; empty if it gives none.
    declared: tuple[str, ...] | None = None
    # Whether tags are numbers that the file does not name.
    numbered = False
    found = []
    for where, row in read_rows:
        with row_at(where):
            words = _listed(pick(row, columns["words"]))
            written = _listed(pick(row, columns["tags"]))
            if not words or len(words) != len(written):
                raise BadRowError(
                    f"there are {len(words)} words and {len(written)} tags"
                )
            if not all(isinstance(word, str) for word in words):
                raise BadRowError("a word is not text")
            if declared is None:
                filled = [name for name in columns["tags"] if row.get(name) is not None]
                declared = inputs.declared_names(path, filled[0])
            if None in written:
                raise BadRowError("a tag is missing")
            names = declared or labels
            numbered |= not declared and any(isinstance(tag, int) for tag in written)
            tags = []
            for tag in written:
                is_id = isinstance(tag, int) and 0 <= tag < len(names)
                tags.append(names[tag] if is_id else str(tag))
            document_column = document_of(row, columns[DOCUMENT])
            found.append((where, {"words": words, "tags": tags, **document_column}))
    places = [where for where, _ in found]
    rows = [row for _, row in found]
    tagged = [row["tags"] for row in rows]
    if not numbered:
        # The scheme follows from the tags of the whole file: one sentence may fit several schemes.
        tagged = _in_iob2(tagged, labels, inputs) or tagged
    else:
        inputs.numbered.append(path)
        if not _plausible(tagged):
            raise UserError(
                f"{path} numbers its tags without naming them; read as {', '.join(labels)}, they are not valid IOB2; "
                "import a file with tag names"
            )
    for where, row, tags in zip(places, rows, tagged, strict=True):
        with row_at(where):
            row["tags"] = _ids(tags, labels)
    return rows


def _listed(value: Any) -> list[Any]:
    """Return a list of words or tags, or those of a text between blanks."""
    if not isinstance(value, str):
        return list(value)
    # Python's spelling of a list, as pandas writes it into CSV.
    if value.startswith("["):
        raise BadRowError("lists of words and tags need JSON lines or Parquet")
    return [part for part in _BLANKS.split(value) if part]


def _in_iob2(
    tagged: Sequence[Sequence[str]], labels: Sequence[str], inputs: ReaderInputs
) -> list[list[str]]:
    """Return a file's tags in IOB2 if they are of another scheme and the labels are IOB2's; else an empty list."""
    used = {tag for tags in tagged for tag in tags}
    try:
        parts = tag_parts(used)
    except ValueError:
        return []
    if used - {OUTSIDE} <= set(labels) and not (is_iob(parts) and _is_iob1(tagged)):
        return []
    in_iob2 = [to_iob2(tags, parts) for tags in tagged]
    if not {tag for tags in in_iob2 for tag in tags} <= set(labels):
        return []
    scheme = "IOB1 tags" if is_iob(parts) else "tags of another scheme"
    inputs.note(f"{scheme} were turned into IOB2")
    return in_iob2


def _ids(tags: Sequence[str], labels: tuple[str, ...]) -> list[int]:
    """Return the ids of tags; `BadRowError` for an unknown one."""
    for name in tags:
        if name not in labels:
            known = ", ".join(labels)
            raise BadRowError(
                f"the tag {name!r:.40} is not in the tag set {known:.120}{nearest(name, labels)}"
            )
    return [labels.index(name) for name in tags]


def _plausible(tagged: Sequence[Sequence[str]]) -> bool:
    """Whether nearly all `I-` tags follow their own entity, as they would not under a wrong order of the ids."""
    inside = strays = 0
    for tags in tagged:
        for before, tag in pairwise((OUTSIDE, *tags)):
            inside += tag.startswith("I-")
            strays += tag.startswith("I-") and before[2:] != tag[2:]
    return strays <= 0.02 * inside
