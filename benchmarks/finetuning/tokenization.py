"""From a dataset's rows to token ids: texts, special tokens and truncation of each task family (appendix B).

Every text ends in the tokenizer's end-of-text string and gets no other special token, in fine-tuning and in
evaluation. The paper's code makes an exception for retrieval (D6): there it evaluates without the end of text, with
whatever special tokens the tokenizer adds by default. The `standard` protocol evaluates retrieval as it was trained.
Retrieval sets of one's own are read in one way, with the tokenizer's own special tokens. Which tokens belong to a word
or to an answer follows the rules of the paper's code to the token, for any tokenizer (D17).

A tokenizer's offsets are, for each token, the place of its first character and of the one after its last in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.protocol import Dataset
from benchmarks.ragged import Ragged
from common.embedding import PAPER_READING, Embedding
from common.errors import UserError
from common.progress import progress

_BLOCK = 2_000
"""Rows that are tokenised at a time."""
_PLACE = re.compile(r"\{(text|second)\}")
"""Where a part of an example goes in a prompt: `{text}` or `{second}`."""

Tokenizer = Any
"""A `transformers.PreTrainedTokenizerFast`."""

Span = tuple[int, int]
"""Offsets of an answer's first character and of the one after its last, in its context."""


def end_of_text(tokenizer: Tokenizer) -> str:
    """Return what ends every text: the end-of-text token, or the separator of BERT-like tokenizers."""
    return str(tokenizer.eos_token or tokenizer.sep_token or "")


def classification_text(dataset: Dataset, first: str, second: str | None) -> str:
    """Return the text of a sequence classification example; each part of a pair has its name in front."""
    if dataset.prompt:
        # In one go, so that braces in a part of the example are left alone.
        parts = {"text": first, "second": second or ""}
        return _PLACE.sub(lambda place: parts[place[1]], dataset.prompt)
    if second is None:
        return first
    one, two = dataset.segments
    return f"{one}: {first}\n{two}: {second}"


def question_text(question: str) -> str:
    """Return the first of the two segments of a question answering example; the context is the second."""
    return f"Question: {question}\nContext: "


def paper_document_text(text: str, title: str | None = None) -> str:
    """Return a document as the paper's evaluation reads it: an empty title still has its full stop (D20)."""
    if title is None:
        return PAPER_READING.document_text(text)
    return f"{PAPER_READING.document}{title}. {text}"


def texts_of(
    dataset: Dataset, row: Mapping[str, Any], reading: Embedding = PAPER_READING
) -> list[str]:
    """Return the texts of a row of any table as a model reads them, but for special tokens.

    Args:
        dataset: the dataset that the table is of.
        row: values by column; the columns tell which table it is (`benchmarks.datasets.schema.FORMS`).
        reading: prompts of retrieval.

    Returns:
        One text; of a retrieval pair the query, the positive document and any negatives.
    """
    if "words" in row:
        return [" ".join(row["words"])]
    if "question" in row:
        return [question_text(row["question"]) + row["context"]]
    if "first" in row:
        return [classification_text(dataset, row["first"], row["second"])]

    # The tables of retrieval: pairs, the corpus, and last the queries.
    if "query" in row:
        documents = [row["positive"], *row.get("negatives", ())]
        return [
            reading.query_text(row["query"]),
            *map(reading.document_text, documents),
        ]

    if "title" in row:
        return [reading.document_text(row["text"], row["title"])]
    return [reading.query_text(row["text"])]


def encode_texts(tokenizer: Tokenizer, texts: Sequence[str], max_length: int) -> Ragged:
    """Return token ids of texts with the end of text appended; a text that is too long loses its end."""
    end = end_of_text(tokenizer)
    return _ids(
        tokenizer, [text + end for text in texts], max_length, add_special_tokens=False
    )


def encode_retrieval_paper(
    tokenizer: Tokenizer, texts: Sequence[str], max_length: int
) -> Ragged:
    """Return token ids as the paper's retrieval evaluation makes them (D6).

    Texts are stripped, get the tokenizer's default special tokens and no end of text.
    """
    return encode_as_written(tokenizer, [text.strip() for text in texts], max_length)


def encode_as_written(
    tokenizer: Tokenizer, texts: Sequence[str], max_length: int
) -> Ragged:
    """Return token ids with the tokenizer's own special tokens; a text that is too long loses its end, but not them."""
    return _ids(tokenizer, texts, max_length, add_special_tokens=True)


def encode_words(
    tokenizer: Tokenizer, sentences: Sequence[Sequence[str]], max_length: int
) -> tuple[Ragged, Ragged]:
    """Tokenise words joined by one space, the end of text appended.

    Returns:
        Token ids, and for each token the number of its word in its sentence; -1 for the end of text.
    """
    end = end_of_text(tokenizer)
    ids_of_blocks: list[Ragged] = []
    numbers_of_blocks: list[Ragged] = []
    for block in _blocks(sentences):
        texts = [" ".join(sentence) + end for sentence in block]
        encoded = _encode(
            tokenizer,
            texts,
            max_length,
            add_special_tokens=False,
            return_offsets_mapping=True,
        )
        ids_of_blocks.append(Ragged.of(encoded["input_ids"]))
        numbers = []
        for sentence, offsets in zip(block, encoded["offset_mapping"], strict=True):
            numbers.append(word_numbers(sentence, _pairs(offsets)))
        numbers_of_blocks.append(Ragged.of(numbers))

    return Ragged.join(ids_of_blocks), Ragged.join(numbers_of_blocks)


def word_numbers(
    sentence: Sequence[str], offsets: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return for each token the number of its word, -1 for none, by the rule of the paper's code (D17).

    A token belongs to the first word that ends behind the token's first character. So a lone space belongs to the word
    after it, whether or not the tokenizer trims offsets, and all pieces of a character belong to the character's word.

    Args:
        sentence: the words, which are joined by one space.
        offsets: first character and the one after the last of each token, shape (tokens, 2).
    """
    lengths = np.array([len(word) for word in sentence], dtype=np.int64)
    # Where each word ends in the joined text: each but the first has a space in front.
    ends = np.cumsum(lengths + 1) - 1

    # `right`: a word that ends where a token begins lies before that token.
    first_words = np.searchsorted(ends, offsets[:, 0], side="right")
    # Never a word before that of an earlier token, should a tokenizer's offsets go back.
    numbers = np.maximum.accumulate(first_words)

    # No word: a token without characters, whose offsets are (0, 0), and the end of text behind all words.
    is_nowhere = (offsets == 0).all(axis=1)
    is_nowhere |= numbers >= len(sentence)
    of_tokens: NDArray[np.int64] = np.where(is_nowhere, -1, numbers)
    return of_tokens


@dataclass(frozen=True, kw_only=True, eq=False)
class Questions:
    """Tokenised questions with their contexts."""

    ids: Ragged
    """Token ids: the question's segment, the context, the end of text."""
    kinds: Ragged | None
    """Token type ids, where the tokenizer makes them."""
    starts: Ragged
    """For each token of the context, the offset of its first character in it; -1 for all others."""
    ends: Ragged
    """For each token of the context, the offset after its last character; -1 for all others."""
    gold: Ragged
    """Whether a token belongs to the gold answer."""
    owners: NDArray[np.int64]
    """The number of each row's question: a question may have several rows, its windows."""
    cut: NDArray[np.bool_]
    """Which rows lost a part of their context."""


def answer_positions(
    offsets: NDArray[np.int64], context: NDArray[np.bool_], answer: Span
) -> range:
    """Return the positions of an answer's tokens by the rule of the paper's code (D17).

    They go from the last token that begins at the answer's first character or before it, to the first token that ends
    at the answer's last character or behind it. So where several tokens are pieces of the first character, the answer
    begins with the last piece.

    The range is empty where the context was cut before the answer. If the answer itself was cut, the tokens that are
    left count. The paper's code makes labels that are longer than the text there, and its collator stops.

    Args:
        offsets: first character and the one after the last of each token, in its segment; shape (tokens, 2).
        context: whether a token belongs to the context's segment, end of text included.
        answer: the answer in the context.
    """
    inside = np.flatnonzero(context)
    if not len(inside):
        return range(0)
    first, last = int(inside[0]), int(inside[-1])
    # By token of the context's segment, the offset of its first character and that of the one after its last.
    begins, ends = offsets[first : last + 1].T
    start, end = answer

    # The answer lies outside of what is left of the context. One that only touches it goes on to the last check.
    if begins[0] > end or ends[-1] < start:
        return range(0)

    # `later` and `earlier` count tokens from the first one of the context's segment.
    # The answer begins with the token before the first that begins behind the answer's first character, or
    # with the last one if none does. If already the segment's first token begins there, the answer begins
    # with the token before the segment.
    begin = last
    later = np.flatnonzero(begins > start)
    if len(later):
        begin = first + int(later[0]) - 1

    # The answer ends with the token after the last that ends before the answer's end, or with the first one
    # if none does.
    final = first
    earlier = np.flatnonzero(ends < end)
    if len(earlier):
        final = first + int(earlier[-1]) + 1

    # `final > last`: no token reaches the answer's end, so the context was cut within the answer or right
    # before it. The last token ends before the answer's end, and not behind its start: nothing of the answer
    # is left.
    if final > last and ends[-1] <= start:
        return range(0)
    return range(begin, min(final, last) + 1)


class _Question(NamedTuple):
    """A question of a dataset."""

    number: int
    question: str
    context: str
    answer: Span | None


def encode_questions(
    tokenizer: Tokenizer,
    questions: Sequence[str],
    contexts: Sequence[str],
    max_length: int,
    answers: Sequence[Span | None] = (),
    stride: int | None = None,
) -> Questions:
    """Tokenise questions and contexts as two segments, cutting the context's end when they are too long.

    Args:
        tokenizer: a fast tokenizer.
        questions: raw questions.
        contexts: raw contexts.
        max_length: longest input in tokens.
        answers: for each question the answer whose tokens are gold, None where it has none; empty: no question has one.
        stride: None: what is cut off a context is lost. A number: it continues in further rows, windows of the context
            that overlap by so many tokens, or by fewer where a question leaves no room for them.

    Raises:
        UserError: a question leaves no room for its context.
    """
    if stride is not None:
        # The tokenizer refuses an overlap as long as a window: it is at most half of the room that the longest question
        # leaves.
        segments = [question_text(question) for question in questions]
        ids = _ids(tokenizer, segments, max_length, add_special_tokens=False)
        room = max_length - int(ids.lengths.max(initial=0))
        stride = min(stride, max(0, room // 2))

    # Block by block, from a question's number, texts and answer to its rows.
    answer_spans = answers or [None] * len(questions)
    fields = zip(questions, contexts, answer_spans, strict=True)
    items = []
    for number, (question, context, answer) in enumerate(fields):
        items.append(_Question(number, question, context, answer))
    parts = []
    owners: list[int] = []
    cut: list[bool] = []
    for block in _blocks(items):
        part = _encode_block(tokenizer, block, max_length, stride)
        parts.append(part)
        owners += part.owners.tolist()
        cut += part.cut.tolist()

    # Join the blocks.
    def join(name: str) -> Ragged:
        """Return the rows of all blocks in a field of `Questions`."""
        return Ragged.join([getattr(part, name) for part in parts])

    # Token type ids, which not every tokenizer makes.
    kinds = None
    if parts and parts[0].kinds is not None:
        kinds = join("kinds")
    return Questions(
        ids=join("ids"),
        kinds=kinds,
        starts=join("starts"),
        ends=join("ends"),
        gold=join("gold"),
        owners=np.array(owners, dtype=np.int64),
        cut=np.array(cut, dtype=bool),
    )


def _encode_block(
    tokenizer: Tokenizer,
    block: Sequence[_Question],
    max_length: int,
    stride: int | None,
) -> Questions:
    """Tokenise some questions and mark their answers: a row for each question, or for each window with a `stride`."""
    # Tokenise: the question is the first segment, the context with the end of text the second.
    end = end_of_text(tokenizer)
    window_options: dict[str, Any] = {}
    if stride is not None:
        window_options = {"stride": stride, "return_overflowing_tokens": True}
    try:
        encoded = tokenizer(
            [question_text(item.question) for item in block],
            [item.context + end for item in block],
            add_special_tokens=False,
            truncation="only_second",
            max_length=max_length,
            return_offsets_mapping=True,
            return_attention_mask=False,
            **window_options,
        )
    # The tokenizers library raises plain exceptions; this one's text is the only mark.
    except Exception as error:
        if "too short to respect the provided max_length" not in str(error):
            raise
        raise UserError(
            f"a question alone has more than {max_length} tokens, which leaves no room for its context; the "
            "model's input limit is too low for the dataset (see --max-length and the positions in config.json)"
        ) from None

    # For each row the place of its question in the block; with windows, the tokenizer says it.
    sources = encoded.get("overflow_to_sample_mapping", range(len(block)))
    # For each token, its place in the context, and whether it is of the answer.
    starts, ends, gold = [], [], []
    for row, source in enumerate(sources):
        context, answer = block[source].context, block[source].answer
        offsets = _pairs(encoded["offset_mapping"][row])
        begins, stops = offsets.T

        # Segment 0 is the question, 1 the context.
        segments = encoded.sequence_ids(row)
        of_context = np.array([segment == 1 for segment in segments], dtype=bool)

        # Not inside the context: the end of text, which begins at len(context), and empty tokens.
        inside = of_context & (begins < len(context)) & (stops > begins)
        starts.append(np.where(inside, begins, -1))
        # The context's last token may reach into the end of text: its end is then that of the context.
        within = np.minimum(stops, len(context))
        ends.append(np.where(inside, within, -1))
        is_gold = np.zeros(len(offsets), dtype=bool)
        if answer is not None:
            is_gold[answer_positions(offsets, of_context, answer)] = True
        gold.append(is_gold)

    # What is said of whole rows.
    kinds = None
    if "token_type_ids" in encoded:
        kinds = Ragged.of(encoded["token_type_ids"])
    owners = [block[source].number for source in sources]

    # `overflowing` has the parts that the tokenizer cut off. With windows, only the encoding of a question's
    # first row has them; nothing is lost then, and the mark of that row says that the question has further
    # ones.
    cut = [bool(encoding.overflowing) for encoding in encoded.encodings]
    return Questions(
        ids=Ragged.of(encoded["input_ids"]),
        kinds=kinds,
        starts=Ragged.of(starts),
        ends=Ragged.of(ends),
        gold=Ragged.of(gold, dtype=np.bool_),
        owners=np.array(owners, dtype=np.int64),
        cut=np.array(cut, dtype=bool),
    )


def _pairs(offsets: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
    """Return offsets as an array (tokens, 2), also without any token."""
    return np.array(offsets, dtype=np.int64).reshape(-1, 2)


def _ids(
    tokenizer: Tokenizer,
    texts: Sequence[str],
    max_length: int,
    *,
    add_special_tokens: bool,
) -> Ragged:
    """Return the token ids of texts, block by block."""
    options = {"add_special_tokens": add_special_tokens}
    ids = []
    for block in _blocks(texts):
        encoded = _encode(tokenizer, block, max_length, **options)
        ids.append(Ragged.of(encoded["input_ids"]))
    return Ragged.join(ids)


def _encode(
    tokenizer: Tokenizer, texts: Sequence[str], max_length: int, **options: Any
) -> Any:
    return tokenizer(
        list(texts),
        truncation=True,
        max_length=max_length,
        return_attention_mask=False,
        **options,
    )


def _blocks(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Yield `items` in blocks, so that the tokenizer's Python lists never hold a whole dataset."""
    for first in progress(
        range(0, len(items), _BLOCK), "tokenising", unit=f"x{_BLOCK}"
    ):
        yield items[first : first + _BLOCK]
