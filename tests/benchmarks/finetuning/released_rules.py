"""The released code's rules for labels, written out token by token: an oracle for any tokenizer.

Facts of the release (docs/deviations.md, D17): a token of a sentence is of the current word until its offset starts at
the word's end or behind, then of the next; tokens at (0, 0) and behind the last word are of none. An answer's first
position is the last context token that starts at its first character or before, its last position the first token, from
the end of the context backwards, that ends at its last character or behind.
"""

from collections.abc import Sequence
from typing import Any

from benchmarks.finetuning.tokenization import end_of_text


class Cut(Exception):
    """The released labels would be longer than the text: its collator stops here."""


def token_words(
    tokenizer: Any, words: Sequence[str], max_length: int
) -> tuple[list[int], list[int]]:
    """Return a sentence's token ids, and the number of each token's word, -1 for none."""
    text = " ".join(words) + end_of_text(tokenizer)
    found = tokenizer(
        text,
        truncation=True,
        max_length=max_length,
        add_special_tokens=False,
        return_offsets_mapping=True,
    )
    numbers = []
    current, begin = 0, 0
    for start, end in found["offset_mapping"]:
        if (start, end) == (0, 0):
            numbers.append(-1)
            continue
        while current < len(words) and start >= begin + len(words[current]):
            begin += len(words[current]) + 1
            current += 1
        numbers.append(current if current < len(words) else -1)
    return found["input_ids"], numbers


def answer_tokens(
    tokenizer: Any,
    question: str,
    context: str,
    answer: tuple[int, str] | None,
    max_length: int,
) -> tuple[list[int], list[int], list[int] | None]:
    """Return a question's token ids, its label of each token, and token type ids where there are any.

    Raises:
        Cut: the answer is cut in the middle.
    """
    found = tokenizer(
        f"Question: {question}\nContext: ",
        context + end_of_text(tokenizer),
        add_special_tokens=False,
        truncation="only_second",
        max_length=max_length,
        return_offsets_mapping=True,
    )
    ids, offsets, segments = (
        found["input_ids"],
        found["offset_mapping"],
        found.sequence_ids(),
    )
    labels = [0] * len(ids)
    kinds = found.get("token_type_ids")
    if answer is None:
        return ids, labels, kinds
    start, end = answer[0], answer[0] + len(answer[1])
    context_tokens = [number for number, segment in enumerate(segments) if segment == 1]
    first, last = context_tokens[0], context_tokens[-1]
    if offsets[first][0] > end or offsets[last][1] < start:
        return ids, labels, kinds
    begin = first - 1
    for number in context_tokens:
        if offsets[number][0] > start:
            break
        begin = number
    stop = last + 1
    for number in reversed(context_tokens):
        if offsets[number][1] < end:
            break
        stop = number
    if stop > last:
        raise Cut
    for number in range(begin, stop + 1):
        labels[number] = 1
    return ids, labels, kinds
