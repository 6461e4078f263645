"""What is taken of a dataset that is too large for a miniature."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

__all__ = ["answer_sentence", "spread"]

Row = TypeVar("Row")

_SHORT = 200
"""Characters of the SQuAD sentences that are taken: longer ones do not fit into the inputs with their questions."""
_SENTENCE_END = re.compile(r"[.!?] (?=[A-Z\"'])")


def spread(rows: Sequence[Row], count: int) -> list[Row]:
    """Return rows at even distances, at most `count`: such files go from source to source and topic to topic."""
    return [rows[number * len(rows) // count] for number in range(count)] if count < len(rows) else list(rows)


def answer_sentence(context: str, answers: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """Return the sentence of a paragraph that holds a question's answers.

    Args:
        context: the paragraph.
        answers: start and length of each answer, in characters; at least one.

    Returns:
        Start and end of the sentence, in characters; None when it is long or does not hold all answers.
    """
    begin, length = answers[0]
    start = max((found.end() for found in _SENTENCE_END.finditer(context, 0, begin + 1)), default=0)
    found = _SENTENCE_END.search(context, max(start, begin + length - 1))
    end = found.start() + 1 if found else len(context)
    holds_all = all(start <= first and first + size <= end for first, size in answers)
    return (start, end) if holds_all and end - start <= _SHORT else None
