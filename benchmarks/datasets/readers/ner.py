"""CoNLL-2003, OntoNotes 5 and UNER English: the hub's rows, or files with one word a line.

Read are UNER's `.iob2` (index, word, tag, ...), CoNLL's columns (word first, tag last) and CoNLL-2012's `*_gold_conll`
(word in column 4, entities as brackets in column 11), with the documents that they name.

Tags say which words are entities, such as B-PER, and O means none. Schemes differ in how: IOB2 has `B-` on the first
word of every entity and `I-` on the others; IOB1 has `I-` on both, and `B-` only where two entities of one type touch.
Tags of other schemes become IOB2.
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
"""A line of CoNLL-2012 before or behind a document: `#begin document (nw/wsj_1); part 000`, `#end document`."""
_DOCUMENT = re.compile(
    r"-DOCSTART-|#\s*newdoc\b(?:\s+id\s*=\s*(?P<uner>.+))?|#\s*begin document\s*\((?P<conll>[^()]*)\)"
)
"""A line that starts a document, with the document's name if the line has one.

Examples are `-DOCSTART- -X- O O`, UNER's `# newdoc id = weblog-1`, and CoNLL-2012's `#begin document (nw/wsj_1); part
000`, whose parts are one document, so that the number of the part is not of the name.
"""
_COMMENT = re.compile(r"#(?!\s*begin document\b)")
"""A line that begins with `#`, except CoNLL-2012's `#begin document`."""
_TAGGED = re.compile(r"O|[BIELMSUW]-.+")
"""A tag of any scheme: `O`, `B-PER`, `S-LOC`."""
_BLANKS = re.compile(" +")

ColumnLayout = Callable[[str], tuple[str, str] | None]
"""Returns the word and the tag of a line. Both are empty if the line lacks one; None: the line is not about a word."""


def sentences(
    path: Path, labels: Sequence[str] = (), own: DatasetFiles | None = None
) -> Iterator[tuple[str, Row]]:
    """Yield the sentences of a file with one word a line, each as (place of its first word, row).

    A row has words, tags as they are written (CoNLL-2012's brackets as IOB2), and the name of the sentence's document.
    A document without a name is named by the place where it starts. The name is None for sentences before the first
    document, and so for all of a file without documents. Comments are passed over, and so are UNER's
    ranges of words that are written as one.

    Args:
        path: the file.
        labels: the dataset's tags.
        own: how the dataset's files are read; it counts only for a dataset of one's own. Such files have two
            columns, unless the definition says by number which columns are read.

    Raises:
        UserError: a line lacks a word or a tag.
    """
    words: list[str] = []
    tags: list[str] = []
    # The number of the line on which the sentence began, and the document in which it did.
    start = 0
    sentence_document: str | None = None
    document: str | None = None

    # How lines are read: the first that is neither empty nor a comment shows how the columns are laid out.
    first = ""
    for _, line in lines(path):
        if line.strip() and not _COMMENT.match(line):
            first = line
            break

    layout = _layout(first)
    # Only definitions of one's own have `content`. CoNLL-2012's brackets need their layout in any dataset.
    if own and own.content and layout is not _conll_2012:
        layout = _own_layout(own)

    # An empty line ends a sentence. One is added, since the last sentence of a file may lack it.
    for number, line in chain(lines(path), [(0, "")]):
        if not line.strip():
            if words:
                written_tags = _from_brackets(tags) if layout is _conll_2012 else tags
                yield (
                    f"{path}:{start}",
                    {"words": words, "tags": written_tags, DOCUMENT: sentence_document},
                )

            words, tags = [], []
            continue

        # A line about a word, or one that is not: a comment, or the start of a document.
        word_and_tag = layout(line)
        # Comments stand before the first word of a sentence. UNER's and CoNLL-2012's layouts tell them from words.
        may_be_comment = not words and line.startswith("#")
        if word_and_tag and may_be_comment and layout not in (_uner, _conll_2012):
            # A sentence may also begin with the word #.
            tag = word_and_tag[1]
            if not _begins_with_hash(line, tag, labels, first):
                word_and_tag = None

        if word_and_tag is None:
            # The start of a document is such a line: `-DOCSTART-`, or what looks like a comment.
            start_of_document = _DOCUMENT.match(line)
            if start_of_document is not None:
                name = start_of_document["uner"] or start_of_document["conll"]
                document = name or f"{path.name}:{number}"
            continue

        # A word of a sentence, with its tag.
        if not all(word_and_tag):
            size = len(_cut(line))
            hint = ""
            if size > 2:
                hint = f", but {size} columns; set columns = {{words = ..., tags = ...}} to their numbers"
            raise UserError(
                f"{path}:{number}: the line does not have a word and a tag{hint}"
            )

        if not words:
            start, sentence_document = number, document
        words.append(word_and_tag[0])
        tags.append(word_and_tag[1])


def _begins_with_hash(line: str, tag: str, labels: Sequence[str], first: str) -> bool:
    """Return whether a line before the first word of a sentence has the word #, and is not a comment.

    Then the line has a tag, and as many columns as others.

    Args:
        line: a line that begins with `#`.
        tag: what stands in the line's column of tags.
        labels: the dataset's tags.
        first: another line of the file, which is about a word.
    """
    has_tag = tag in labels or _TAGGED.fullmatch(tag) is not None
    return has_tag and len(_cut(line)) == len(_cut(first))


def _columns(
    line: str, word: int = 0, tag: int = -1, count: int = 0
) -> tuple[str, str] | None:
    """Return the word and the tag of a line of columns, as a `ColumnLayout` does.

    Args:
        line: the line.
        word: the number of the word's column, from 0.
        tag: the number of the tag's column, from 0; -1 is the last column.
        count: how many columns the line must have; 0 for any number from two on.
    """
    parts = _cut(line)
    if parts[0].startswith("-DOCSTART-"):
        return None
    has_both = len(parts) >= 2 and max(word, tag) < len(parts)
    if not has_both or count not in (0, len(parts)):
        return "", ""
    # Only the usual blank is taken off a word: another space belongs to the word (see `_cut`).
    return parts[word].strip(" "), parts[tag].strip()


def _own_layout(files: DatasetFiles) -> ColumnLayout:
    """Return how lines of one's own files are read: two columns, or those whose numbers the definition gives."""
    numbers = [files.columns[field][0] for field in ("words", "tags")]
    # Names of columns are for files of rows. "0" is such a name as well, since numbers count from 1.
    if "0" in numbers or not all(map(str.isdecimal, numbers)):
        return partial(_columns, count=2)
    # The definition counts columns from 1.
    word, tag = (int(number) - 1 for number in numbers)
    return partial(_columns, word=word, tag=tag)


def _cut(line: str) -> list[str]:
    """Return the columns of a line, between its tabs, or, without a tab, between its blanks.

    Only the usual blank counts: another space, such as the no-break space in 10 000, belongs to its word.
    """
    return line.split("\t") if "\t" in line else _BLANKS.split(line.strip(" "))


def _uner(line: str) -> tuple[str, str] | None:
    """Return the word and the tag of a line of UNER's form, as a `ColumnLayout` does.

    Its columns, between tabs, are index, word, tag, and some about the annotation; `#` starts a comment.
    """
    parts = line.split("\t")
    # 1-2 is a range of words that are written as one, 1.1 a word that is not written: neither has a tag.
    if line.startswith("#") or re.fullmatch(r"\d+[-.]\d+", parts[0]):
        return None
    if len(parts) < 3 or not parts[0].isdecimal():
        return "", ""
    return parts[1].strip(" "), parts[2].strip()


def _conll_2012(line: str) -> tuple[str, str] | None:
    """Return the word, in column 4, and the entities' brackets, in column 11, of a line, as a `ColumnLayout` does."""
    parts = re.split(r"[ \t]+", line.strip(" \t"))
    if _DIRECTIVE.match(line):
        return None
    # Behind the entities come the arguments of verbs, if any, and coreference: at least 12 columns in all.
    return (parts[3], parts[10]) if len(parts) >= 12 else ("", "")


def _from_brackets(brackets: Sequence[str]) -> list[str]:
    """Return the IOB2 tags of a sentence for CoNLL-2012's brackets, one a word.

    `(ORG*` begins an entity, `*` continues it, `*)` ends it; `(ORG)` is an entity of one word.
    """
    tags = []
    # The type of the entity that is open; empty outside of entities.
    kind = ""
    for bracket in brackets:
        opening = re.match(r"\(([^()*]+)", bracket)
        if opening:
            kind = opening[1]
            tags.append(f"B-{kind}")
        elif kind:
            tags.append(f"I-{kind}")
        else:
            tags.append(OUTSIDE)

        if bracket.endswith(")"):
            kind = ""

    return tags


def _layout(line: str) -> ColumnLayout:
    """Return how a file's lines are read, by its first line that is no comment."""
    if _DIRECTIVE.match(line):
        return _conll_2012
    parts = line.split("\t")
    # UNER's first column is an index: 1, the range 1-2, or 1.1 for a word that is not written.
    if len(parts) > 2 and re.fullmatch(r"\d+([-.]\d+)?", parts[0]):
        return _uner
    return _columns


def _is_iob1(tagged: Iterable[Sequence[str]]) -> bool:
    """Return whether a file's tags, by sentence, are IOB1: some are `I-`, and `B-` only parts two entities of one type.

    In IOB2, a `B-` also stands behind O or another type.
    """
    has_inside_tag = False
    for tags in tagged:
        # Each tag with the one before it; a sentence begins outside of entities.
        for before, tag in pairwise((OUTSIDE, *tags)):
            has_inside_tag |= tag.startswith("I-")
            # `[2:]` is the type of a tag: PER of B-PER, and nothing of O.
            if tag.startswith("B-") and before[2:] != tag[2:]:
                return False
    return has_inside_tag


def read(inputs: ReaderInputs) -> DatasetContent:
    """Read sentences with a tag for each word."""
    return with_splits(inputs, lambda path: tag_rows(path, inputs))


def tag_rows(path: Path, inputs: ReaderInputs) -> list[Row]:
    """Return the sentences of a file as rows of the local form: `words`, `tags` as ids, and perhaps `document`.

    Args:
        path: a file with one word a line, or with rows of words and tags.
        inputs: has the dataset, with its tags and the names of its columns.

    Raises:
        UserError: a tag is unknown, or tags are numbers whose names are unknown and do not fit.
    """
    # How rows are read. Those of `sentences` have the usual names of columns, not the definition's.
    labels, columns = inputs.dataset.label_names, _COLUMNS
    if is_text(path):
        read_rows = sentences(path, labels, inputs.dataset.files)
    else:
        columns = {**_COLUMNS, **inputs.dataset.files.columns}
        read_rows = rows_of_file(path, inputs.dataset.files, inputs.note)

    # Names that the file itself gives to numbered tags: None until the first row, then empty if it gives none.
    declared: tuple[str, ...] | None = None

    # Whether tags are numbers that the file does not name.
    numbered = False

    # Each sentence's words, and its tags by name; and, for messages, its place in the file.
    places = []
    rows: list[Row] = []
    for where, row in read_rows:
        with row_at(where):
            words = _listed(pick(row, columns["words"]))
            written_tags = _listed(pick(row, columns["tags"]))
            if not words or len(words) != len(written_tags):
                raise BadRowError(
                    f"there are {len(words)} words and {len(written_tags)} tags"
                )

            if not all(isinstance(word, str) for word in words):
                raise BadRowError("a word is not text")
            if declared is None:
                # The first of these columns is the one in which `pick` found the tags.
                filled = [name for name in columns["tags"] if row.get(name) is not None]
                declared = inputs.declared_names(path, filled[0])

            if None in written_tags:
                raise BadRowError("a tag is missing")
            numbered |= not declared and any(
                isinstance(tag, int) for tag in written_tags
            )

            # Numbers count in the names that the file itself gives. If it gives none, they count in the
            # dataset's labels.
            tags = _named(written_tags, declared or labels)
            document_column = document_of(row, columns[DOCUMENT])
            places.append(where)
            rows.append({"words": words, "tags": tags, **document_column})

    # The scheme of the tags, by sentence.
    tagged = [row["tags"] for row in rows]
    if not numbered:
        # The scheme follows from the tags of the whole file: one sentence may fit several schemes.
        tagged = _in_iob2(tagged, labels, inputs) or tagged
    else:
        # Kept until all files are read: `check_numbers` then refuses this file if another file names its
        # numbers in another order than the dataset's.
        inputs.numbered.append(path)
        # A file that counts its tags in another order would be misread without a sign: its tags make no sense then.
        if not _plausible(tagged):
            raise UserError(
                f"{path} numbers its tags without naming them; read as {', '.join(labels)}, they are not valid IOB2; "
                "import a file with tag names"
            )

    # From names to ids, which a table has.
    for where, row, tags in zip(places, rows, tagged, strict=True):
        with row_at(where):
            row["tags"] = _ids(tags, labels)

    return rows


def _named(written_tags: Sequence[Any], names: Sequence[str]) -> list[str]:
    """Return tags by name: a number is a place among the names, from 0, and another value is a name already.

    A number that is no such place becomes a name as well, which `_ids` refuses unless the dataset has it.
    """
    tags = []
    for tag in written_tags:
        is_id = isinstance(tag, int) and 0 <= tag < len(names)
        tags.append(names[tag] if is_id else str(tag))
    return tags


def _listed(value: Any) -> list[Any]:
    """Return the words or tags of a row's value, which is a list, or a text with blanks between them."""
    if not isinstance(value, str):
        return list(value)
    # Python's spelling of a list, as pandas writes it into CSV.
    if value.startswith("["):
        raise BadRowError("lists of words and tags need JSON lines or Parquet")
    return [part for part in _BLANKS.split(value) if part]


def _in_iob2(
    tagged: Sequence[Sequence[str]], labels: Sequence[str], inputs: ReaderInputs
) -> list[list[str]]:
    """Return a file's tags, by sentence, in IOB2; an empty list if they are to stay as they are.

    Args:
        tagged: the tags of each sentence.
        labels: the dataset's tags.
        inputs: takes the note that tags were changed.
    """
    used_tags = {tag for tags in tagged for tag in tags}
    try:
        # Letter and type by tag: `("B", "PER")` for B-PER.
        parts = tag_parts(used_tags)
    except ValueError:
        # The tags are of no one scheme. Those that are not among the labels are refused later.
        return []

    # IOB1 and IOB2 have the same tags and mean something else by them, so labels do not tell the two apart.
    is_iob1 = is_iob(parts) and _is_iob1(tagged)
    are_labels = used_tags - {OUTSIDE} <= set(labels)
    if are_labels and not is_iob1:
        return []
    in_iob2 = [to_iob2(tags, parts) for tags in tagged]

    # The labels are not those of IOB2: then the dataset wants its tags in another scheme.
    if not {tag for tags in in_iob2 for tag in tags} <= set(labels):
        return []

    # Tags with the letters of IOB that have changed were IOB1: some entity begins with `I-`.
    scheme = "IOB1 tags" if is_iob(parts) else "tags of another scheme"
    inputs.note(f"{scheme} were turned into IOB2")
    return in_iob2


def _ids(tags: Sequence[str], labels: tuple[str, ...]) -> list[int]:
    """Return the ids of tags: their places among the labels; `BadRowError` for an unknown tag."""
    for name in tags:
        if name not in labels:
            known = ", ".join(labels)
            raise BadRowError(
                f"the tag {name!r:.40} is not in the tag set {known:.120}{nearest(name, labels)}"
            )
    return [labels.index(name) for name in tags]


def _plausible(tagged: Sequence[Sequence[str]]) -> bool:
    """Return whether nearly all `I-` tags follow a tag of their type, as IOB2 has it.

    Tags whose ids were read in a wrong order do not. One stray tag in fifty is allowed: files have mistakes.
    """
    inside = 0
    strays = 0
    for tags in tagged:
        for before, tag in pairwise((OUTSIDE, *tags)):
            if tag.startswith("I-"):
                inside += 1
                # `[2:]` is the type of a tag: PER of B-PER, and nothing of O.
                if before[2:] != tag[2:]:
                    strays += 1
    return strays <= 0.02 * inside
