"""SQuAD v1.1, v2.0 and ReCoRD: the hub's Parquet, or the official JSON. Other sets in either form use the same
functions.

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
_NO_BLANKS = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
)
"""Thai, Lao, Burmese, Khmer, Japanese and Chinese, which have no blanks between words."""


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
    column = dataset.files.columns.get("answers", ("answers",))[0]
    rename: dict[str, str] = {}
    for field, names in dataset.files.columns.items():
        rename |= dict.fromkeys(names, field)
    questions: list[Row] = []
    # Places of answers that did not begin at the start that the file gives.
    moved: list[str] = []
    says_answers = False
    for number, (where, fields) in enumerate(_questions_in(path, inputs)):
        with row_at(where):
            row = {rename.get(name, name): value for name, value in fields.items()}
            question = pick_text(row, ("question", "query"))
            context = pick_text(row, ("context", "passage"))
            answers: list[Row] = []
            says_answers |= "answers" in row or _is_impossible(row)
            if not _is_impossible(row):
                answers, count_moved = answers_of(
                    row.get("answers"), context, _start_in(row)
                )
                moved += [where] * count_moved
            if not answers and not dataset.may_abstain:
                what = "" if "answers" in row else f"; there is no column {column}"
                raise BadRowError(
                    f"the question has no answer, but every question of this dataset needs one{what}"
                )
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
    if questions and not says_answers:
        raise UserError(
            f"{path}: there is no column {column}, so that no question would have an answer"
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
    """Return `[{text, start}]` of answers in any of the known forms, and how many had a wrong start.

    Known are a text, a list of texts, `{text, answer_start or start}` of one answer or of lists, and a list of
    those; empty texts are no answer. A wrong start is read as UTF-16 units or bytes if the answer is there, else the
    nearest occurrence is taken; without a start the first one that is not inside a word, if there is one.

    Args:
        value: the answers.
        context: the text that the answers are in.
        start: the start, or a list of them, of answers that are texts.

    Raises:
        BadRowError: an answer is not in the context.
    """
    if isinstance(value, dict):
        texts = _listed(value["text"])
        starts = _listed(_start_in(value))
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        items = [item if isinstance(item, dict) else {"text": item} for item in value]
        texts = [item["text"] for item in items]
        starts = [_start_in(item) for item in items]
    else:
        texts = _listed(value)
        starts = _listed(start)
    if all(map(_is_empty, texts)):
        return [], 0
    numbers = [_start_number(number) for number in starts] or [None] * len(texts)
    if len(numbers) != len(texts):
        raise BadRowError(
            f"answers and starts differ in number: {len(texts)} and {len(numbers)}"
        )
    answers: list[Row] = []
    moved = 0
    for text, number in zip(texts, numbers, strict=True):
        place = _place(text, context, number)
        answers.append({"text": text, "start": place})
        if number is not None and number != place:
            moved += 1
    return answers, moved


def _start_in(item: Row) -> Any:
    """Return where an answer says that it starts; None where it does not say."""
    return item.get("answer_start", item.get("start"))


def _is_empty(text: Any) -> bool:
    """Return whether a text stands for no answer."""
    if isinstance(text, str):
        return not text.strip()
    return is_missing(text)


def _listed(value: Any) -> list[Any]:
    """Return a list as it is, one value as a list of it, None as an empty list."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _start_number(start: Any) -> int | None:
    """Return a start as a number; None for a missing or a negative one."""
    if start in (None, ""):
        return None
    try:
        number = float(start)
    except (TypeError, ValueError):
        # 0.5 is refused below, as not a whole number.
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
    """Return where the answer begins: at the given start, in letters or other units, or at the nearest occurrence."""
    if not isinstance(text, str) or not text:
        raise BadRowError(f"an answer is not text: {text!r:.80}")
    if start is not None:
        if context.startswith(text, start):
            return start
        # Other programs count starts in UTF-16 units, or in bytes of UTF-8.
        units = context.encode("utf-16-le", "replace")[: 2 * start]
        octets = context.encode("utf-8", "replace")[:start]
        before_units = units.decode("utf-16-le", "ignore")
        before_octets = octets.decode("utf-8", "ignore")
        for before in (before_units, before_octets):
            if context.startswith(text, len(before)):
                return len(before)
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

    def inside_word(place: int) -> bool:
        for end in (place, place + len(text)):
            is_inner = 0 < end < len(context)
            if is_inner and all(map(_in_words, context[end - 1 : end + 1])):
                return True
        return False

    if start is None:
        whole = [place for place in places if not inside_word(place)]
        return (whole or places)[0]
    return min(places, key=lambda place: (abs(place - start), inside_word(place)))


def _in_words(character: str) -> bool:
    """Whether it joins what is next to it to a word, as it does not in scripts without blanks between words."""
    return unicodedata.category(character)[0] in "LMN" and not _NO_BLANKS.match(
        character
    )


def _folded(text: str) -> str:
    """Return a text without differences of case, Unicode form and spacing."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _questions_in(path: Path, inputs: ReaderInputs) -> Iterator[tuple[str, Row]]:
    """Yield (where, row) of each question, with its context, from a file in any of the known forms."""
    articles: Any = []
    if is_whole_json(path):
        content = json_of(path)
        articles = content.get("data") if isinstance(content, dict) else content
    is_list = isinstance(articles, list) and all(articles)
    # A list without paragraphs has plain rows, not SQuAD's articles.
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
