"""SQuAD v1.1, v2.0 and ReCoRD: the hub's Parquet, or the official JSON. Other sets in either form are read as well.

An answer has a start: the offset of its first character in the context.

The paper's code asks its copy of ReCoRD for question, context and answers and shows no conversion, so how placeholder
queries became questions is unknown (docs/add-a-dataset.md). Here the question is the query with its `@placeholder`,
the context is the passage as it is, and the answers are all mentions of the missing entity.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.datasets.local_dataset import DatasetContent
from benchmarks.datasets.readers.original_files import (
    BadRowError,
    is_missing,
    is_whole_json,
    json_of,
    pick_text,
    row_at,
    rows_of_file,
)
from benchmarks.datasets.readers.reader import ReaderInputs, with_splits
from benchmarks.datasets.schema import Row
from common.errors import UserError

_TRUTH = {
    "true": True,
    "1": True,
    "1.0": True,
    "false": False,
    "0": False,
    "0.0": False,
    "": False,
}
"""What `is_impossible` means as it is written in files of any kind, in lower case."""
_NO_BLANKS = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
)
"""A character of Thai, Lao, Burmese, Khmer, Japanese or Chinese, which have no blanks between words."""


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
    # How columns are called, and what the loop counts for the sentences at the end.
    dataset = inputs.dataset
    answers_column = dataset.files.columns.get("answers", ("answers",))[0]
    # The field of the local form for each column that the definition names.
    rename: dict[str, str] = {}
    for field, names in dataset.files.columns.items():
        rename |= dict.fromkeys(names, field)
    questions: list[Row] = []

    # For each answer that does not begin at the start that the file gives, the place of its question in the file.
    moved: list[str] = []
    # Whether any row says something about answers, be it that there is none.
    says_answers = False
    for number, (where, fields) in enumerate(_questions_in(path, inputs)):
        with row_at(where):
            row = {rename.get(name, name): value for name, value in fields.items()}
            # The question and its context.
            # ReCoRD has a query and a passage, and calls an id `idx`.
            question = pick_text(row, ("question", "query"))
            context = pick_text(row, ("context", "passage"))

            # The answers; none if the row says so, whatever else it has.
            answers: list[Row] = []
            is_impossible = _is_impossible(row)
            says_answers |= "answers" in row or is_impossible
            if not is_impossible:
                # Answers that are objects have their starts themselves; for texts the row may have them.
                answers, count_moved = answers_of(
                    row.get("answers"), context, _start_in(row)
                )
                moved += [where] * count_moved

            if not answers and not dataset.may_abstain:
                hint = ""
                if "answers" not in row:
                    hint = f"; there is no column {answers_column}"
                raise BadRowError(
                    f"the question has no answer, but every question of this dataset needs one{hint}"
                )

            # The id: the file's own; a name and a number if it has none, or if the definition says so.
            identity = f"{path.name}-{number}"
            if dataset.files.ids != "none":
                identity = str(row.get("id", row.get("idx", identity)))
            questions.append(
                {
                    "id": identity,
                    "question": question,
                    "context": context,
                    "answers": answers,
                }
            )

    # Where questions may have no answer, a missing column would otherwise go unnoticed.
    if questions and not says_answers:
        raise UserError(
            f"{path}: there is no column {answers_column}, so that no question would have an answer"
        )

    if moved:
        inputs.note(
            f"{path.name}: answers that do not begin at their start: {len(moved):,}; each was taken where its start "
            f"counts UTF-16 units or bytes, or from the nearest place (first: {moved[0]})"
        )

    return questions


def _is_impossible(row: Row) -> bool:
    """Return whether a row says that its question has no answer; a missing value does not say so."""
    value = row.get("is_impossible")
    if is_missing(value):
        return False
    truth = _TRUTH.get(str(value).strip().lower())
    if truth is None:
        raise BadRowError(f"is_impossible is neither true nor false: {value!r:.80}")
    return truth


def answers_of(value: Any, context: str, start: Any = None) -> tuple[list[Row], int]:
    """Return a question's answers as rows of `text` and `start`, and how many of them had a wrong start.

    The start of each answer is found as `_place` says; no rows mean that there is no answer.

    Args:
        value: the answers in any of these forms: a text; a list of texts; an object with `text` and `answer_start` or
            `start`, which are of one answer, or lists; a list of objects of one answer each. None and empty texts are
            no answer.
        context: the text that the answers are in.
        start: if answers are texts: the start, or a list of the starts.

    Raises:
        BadRowError: an answer is not in the context.
    """
    if isinstance(value, dict):
        texts = _listed(value["text"])
        starts = _listed(_start_in(value))
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        # Texts may stand among the objects.
        items = [item if isinstance(item, dict) else {"text": item} for item in value]
        texts = [item["text"] for item in items]
        starts = [_start_in(item) for item in items]
    else:
        texts = _listed(value)
        starts = _listed(start)

    # Only if all are empty: `_place` refuses a missing text among others.
    if all(map(_is_empty, texts)):
        return [], 0
    # The list is empty where the file gives no starts at all; None in it stands for an unknown one.
    given_starts: list[int | None] = [_start_number(given) for given in starts]
    if not given_starts:
        given_starts = [None] * len(texts)
    if len(given_starts) != len(texts):
        raise BadRowError(
            f"answers and starts differ in number: {len(texts)} and {len(given_starts)}"
        )

    answers: list[Row] = []
    moved = 0
    for text, given_start in zip(texts, given_starts, strict=True):
        place = _place(text, context, given_start)
        answers.append({"text": text, "start": place})
        if given_start is not None and given_start != place:
            moved += 1

    return answers, moved


def _start_in(item: Row) -> Any:
    """Return the start that an answer, or a row of a question, gives; None if it gives none."""
    return item.get("answer_start", item.get("start"))


def _is_empty(text: Any) -> bool:
    """Return whether a text means that there is no answer: it is missing or has only blanks."""
    if isinstance(text, str):
        return not text.strip()
    return is_missing(text)


def _listed(value: Any) -> list[Any]:
    """Return a list unchanged, a single value as a list of one, and None as an empty list."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _start_number(start: Any) -> int | None:
    """Return the start of an answer, as a file has it, as a number; None for a missing or a negative one."""
    if start in (None, ""):
        return None
    try:
        number = float(start)
    except (TypeError, ValueError):
        # What is no number at all is refused below like 0.5: it is not a whole number either.
        number = 0.5

    # pandas writes nan for a missing value.
    if math.isnan(number):
        return None
    if not number.is_integer():
        raise BadRowError(
            f"the start of an answer is not a whole number: {start!r:.80}"
        )

    # Files use -1 for "unknown"; Python would count it from the end.
    return int(number) if number >= 0 else None


def _place(text: Any, context: str, start: int | None) -> int:
    """Return the offset in the context at which an answer begins.

    This is the given start, if the answer is there. Otherwise the start may have been counted in other units. If the
    answer is not at any start so counted, the offset is that of its occurrence nearest to the given start. Without a
    start it is that of the first occurrence that does not begin or end inside a word, or, if all do, the first one.

    Args:
        text: the answer.
        context: the text that the answer is in.
        start: the start that the file gives; None if it gives none.
    """
    if not isinstance(text, str) or not text:
        raise BadRowError(f"an answer is not text: {text!r:.80}")
    if start is not None:
        counted = _counted_start(text, context, start)
        if counted is not None:
            return counted

    # The answer is not at its start, or has none: all places where it occurs.
    # A look-ahead also finds overlapping occurrences.
    places = [match.start() for match in re.finditer(f"(?={re.escape(text)})", context)]
    if not places:
        hint = ""
        # Python's spelling of a list, as pandas writes it into CSV.
        if text[0] in "[{":
            hint = "; lists of answers need JSON lines or Parquet"
        if _folded(text) in _folded(context):
            hint = "; there it has another case, Unicode form or spacing, write it the same"
        raise BadRowError(f"an answer is not in the context: {text!r:.80}{hint}")

    # The one of these places that is most likely meant.
    if start is None:
        whole = [place for place in places if not _cuts_word(text, context, place)]
        return (whole or places)[0]

    # Of two that are equally near, the one that cuts no word.
    return min(
        places,
        key=lambda place: (abs(place - start), _cuts_word(text, context, place)),
    )


def _counted_start(text: str, context: str, start: int) -> int | None:
    """Return the offset in characters that a given start means; None if the answer begins at none of them.

    Other programs count in UTF-16 units, which have two bytes each, or in bytes of UTF-8.
    """
    if context.startswith(text, start):
        return start
    # What is before the start in these units, as a text again, has the start in characters as its length.
    # `replace` and `ignore` prevent errors: half of a surrogate pair cannot be encoded, and a start within a
    # character leaves a part that cannot be decoded.
    units = context.encode("utf-16-le", "replace")[: 2 * start]
    octets = context.encode("utf-8", "replace")[:start]
    before_in_units = units.decode("utf-16-le", "ignore")
    before_in_octets = octets.decode("utf-8", "ignore")
    for before in (before_in_units, before_in_octets):
        if context.startswith(text, len(before)):
            return len(before)

    return None


def _cuts_word(text: str, context: str, place: int) -> bool:
    """Return whether an answer at this place of the context begins or ends inside a word."""
    # An end of the answer cuts a word if the characters on both sides of it belong to words.
    for end in (place, place + len(text)):
        is_inner = 0 < end < len(context)
        if is_inner and all(map(_in_words, context[end - 1 : end + 1])):
            return True
    return False


def _in_words(character: str) -> bool:
    """Return whether a character makes a word with its neighbours: a letter, mark or number.

    Characters of scripts without blanks between words do not count: a word may end behind any of them.
    """
    # Unicode's categories begin with L for letters, M for marks and N for numbers.
    is_letter_or_number = unicodedata.category(character)[0] in "LMN"
    return is_letter_or_number and not _NO_BLANKS.match(character)


def _folded(text: str) -> str:
    """Return a text without differences of case, Unicode form and spacing."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _questions_in(path: Path, inputs: ReaderInputs) -> Iterator[tuple[str, Row]]:
    """Yield (place, row) for each question of a file in any of the known forms; the row has the context as well."""
    # SQuAD's JSON is {"data": [article, ...]}, or the list alone. A file of another kind has no articles.
    articles: Any = []
    if is_whole_json(path):
        content = json_of(path)
        articles = content.get("data") if isinstance(content, dict) else content

    # With an empty article ({} or null) the list is taken for SQuAD's, and the article is refused below.
    is_list = isinstance(articles, list) and all(articles)
    # A list without paragraphs, also an empty one, means plain rows in place of SQuAD's articles.
    if is_list and not any("paragraphs" in article for article in articles):
        for where, row in rows_of_file(path, inputs.dataset.files, inputs.note):
            if "qas" not in row:
                yield where, row
                continue

            # Rows with `qas` have ReCoRD's original form.
            inputs.note(
                "queries, with @placeholder, serve as questions; passages, with @highlight, as contexts"
            )
            with row_at(where):
                for query in row["qas"]:
                    yield where, {**query, "context": row["passage"]["text"]}

        return

    # SQuAD's articles, each with paragraphs, and these with questions. There is no list of articles if the
    # JSON is an object without a list in `data`, or a single value.
    if not isinstance(articles, list):
        raise UserError(f"{path} is not a SQuAD file: it has no list `data`")
    count = 0
    for number, article in enumerate(articles):
        with row_at(f"{path}: article {number}"):
            for paragraph in article["paragraphs"]:
                for question in paragraph["qas"]:
                    count += 1
                    row = {**question, "context": paragraph["context"]}
                    yield f"{path}: question {count} ({question.get('id')})", row


def read(inputs: ReaderInputs) -> DatasetContent:
    """Read questions with their contexts and answers."""
    return with_splits(inputs, lambda path: question_rows(path, inputs))
