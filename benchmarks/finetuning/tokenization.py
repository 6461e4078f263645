"""From a dataset's rows to token ids: texts, special tokens and truncation of each family (appendix B).

Every text ends in the tokenizer's end-of-text string and gets no other special token, in fine-tuning and in
evaluation. Retrieval is the exception the paper's code makes (D6): it evaluates without the end of text, with
whatever special tokens the tokenizer adds by default; the `standard` protocol evaluates as it trained.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.protocol import Dataset
from benchmarks.ragged import Ragged
from common.errors import UserError
from common.progress import progress

__all__ = [
    "Questions", "Words", "classification_text", "document_text", "encode_questions", "encode_retrieval_paper",
    "encode_texts", "encode_windows", "encode_words", "end_of_text", "query_text", "question_text",
]  # fmt: skip

_BLOCK = 2_000

Tokenizer = Any
"""A `transformers.PreTrainedTokenizerFast`."""


def end_of_text(tokenizer: Tokenizer) -> str:
    """Return what ends every text: the end-of-text token, or the separator of BERT-like tokenizers."""
    return str(tokenizer.eos_token or tokenizer.sep_token or "")


def classification_text(dataset: Dataset, first: str, second: str | None) -> str:
    """Return the text of a sequence classification example; pairs carry a name before each part."""
    if second is None:
        return first
    one, two = dataset.segments
    return f"{one}: {first}\n{two}: {second}"


def question_text(question: str) -> str:
    """Return the first of the two segments of a question answering example; the context is the second."""
    return f"Question: {question}\nContext: "


def query_text(query: str) -> str:
    """Return a query with the prefix it has in fine-tuning and in evaluation."""
    return f"Query: {query}"


def document_text(text: str, title: str | None = None) -> str:
    """Return a document with its prefix; a title (NQ only, in the paper) goes before the text."""
    return f"Document: {title}. {text}" if title else f"Document: {text}"


def encode_texts(tokenizer: Tokenizer, texts: Sequence[str], max_length: int) -> Ragged:
    """Return token ids of texts with the end of text appended; a text that is too long loses its end."""
    end = end_of_text(tokenizer)
    return _ids(tokenizer, [text + end for text in texts], max_length, add_special_tokens=False)


def encode_retrieval_paper(tokenizer: Tokenizer, texts: Sequence[str], max_length: int) -> Ragged:
    """Return token ids as the paper's retrieval evaluation makes them (D6).

    Texts are stripped, get the tokenizer's default special tokens and no end of text.
    """
    return _ids(tokenizer, [text.strip() for text in texts], max_length, add_special_tokens=True)


@dataclass(frozen=True, kw_only=True, eq=False)
class Words:
    """Tokenised sentences for token classification."""

    ids: Ragged
    """Token ids."""
    words: Ragged
    """For each token, the number of its word in its sentence; -1 for the end of text."""


def encode_words(tokenizer: Tokenizer, sentences: Sequence[Sequence[str]], max_length: int) -> Words:
    """Tokenise words joined by one space, the end of text appended, and say which word each token is of.

    A token belongs to the word of its last character, and a space to the word after it: so it does not matter
    whether the tokenizer's offsets hold the leading space.
    """
    end = end_of_text(tokenizer)
    ids: list[Ragged] = []
    words: list[Ragged] = []
    for block in _blocks(sentences):
        texts = [" ".join(sentence) + end for sentence in block]
        encoded = _encode(tokenizer, texts, max_length, add_special_tokens=False, return_offsets_mapping=True)
        ids.append(Ragged.of(encoded["input_ids"]))
        rows = []
        for sentence, offsets in zip(block, encoded["offset_mapping"], strict=True):
            lengths = np.array([len(word) for word in sentence], dtype=np.int64) + 1
            last = np.cumsum(lengths) - 2
            ends = np.array([end for _, end in offsets], dtype=np.int64)
            word = np.searchsorted(last, ends - 1)
            empty = np.array([end <= start for start, end in offsets], dtype=bool)
            rows.append(np.where((word >= len(sentence)) | empty, -1, word))
        words.append(Ragged.of(rows))
    return Words(ids=Ragged.join(ids), words=Ragged.join(words))


@dataclass(frozen=True, kw_only=True, eq=False)
class Questions:
    """Tokenised questions with their contexts."""

    ids: Ragged
    """Token ids: the question's segment, the context, the end of text."""
    starts: Ragged
    """For each token of the context, the offset of its first character in it; -1 for all others."""
    ends: Ragged
    """For each token of the context, the offset after its last character; -1 for all others."""

    def overlaps(self, row: int, start: int, end: int) -> NDArray[np.bool_]:
        """Return which of a row's tokens overlap the characters [start, end) of its context."""
        starts = self.starts[row]
        found: NDArray[np.bool_] = (starts >= 0) & (starts < end) & (self.ends[row] > start)
        return found


def encode_questions(
    tokenizer: Tokenizer, questions: Sequence[str], contexts: Sequence[str], max_length: int
) -> tuple[Questions, NDArray[np.bool_]]:
    """Tokenise questions and contexts as two segments, cutting the context's end when they are too long.

    Returns:
        The questions, and which of them lost a part of their context.
    """
    questions_found, _, cut = _encode_pairs(tokenizer, questions, contexts, max_length, stride=None)
    return questions_found, cut


def encode_windows(
    tokenizer: Tokenizer,
    questions: Sequence[str],
    contexts: Sequence[str],
    max_length: int,
    stride: int = 128,
) -> tuple[Questions, NDArray[np.int64]]:
    """Tokenise questions with windows over contexts that are too long (the `standard` protocol).

    Args:
        tokenizer: a fast tokenizer.
        questions: raw questions.
        contexts: raw contexts.
        max_length: longest window, question included.
        stride: tokens that consecutive windows share; fewer where a question leaves no room for them.

    Returns:
        The windows, and the number of the question of each.
    """
    firsts = [question_text(question) for question in questions]
    longest = _ids(tokenizer, firsts, max_length, add_special_tokens=False).lengths.max(initial=0)
    stride = min(stride, max(0, (max_length - int(longest)) // 2))
    windows, owner, _ = _encode_pairs(tokenizer, questions, contexts, max_length, stride=stride)
    return windows, owner


def _encode_pairs(
    tokenizer: Tokenizer,
    questions: Sequence[str],
    contexts: Sequence[str],
    max_length: int,
    stride: int | None,
) -> tuple[Questions, NDArray[np.int64], NDArray[np.bool_]]:
    end = end_of_text(tokenizer)
    ids: list[Ragged] = []
    starts: list[Ragged] = []
    ends: list[Ragged] = []
    owners: list[int] = []
    cut: list[bool] = []
    done = 0
    windows = {} if stride is None else {"stride": stride, "return_overflowing_tokens": True}
    for block in _blocks(list(zip(questions, contexts, strict=True))):
        try:
            encoded = tokenizer(
                [question_text(question) for question, _ in block],
                [context + end for _, context in block],
                add_special_tokens=False,
                truncation="only_second",
                max_length=max_length,
                return_offsets_mapping=True,
                return_attention_mask=False,
                **windows,
            )
        except Exception as error:
            if "too short to respect the provided max_length" not in str(error):
                raise
            raise UserError(
                f"a question alone is longer than {max_length} tokens, so that nothing of its context is left; this "
                "model's inputs are too short for the dataset (--max-length, positions in config.json)"
            ) from None
        lengths = [len(context) for _, context in block]
        sources = encoded.get("overflow_to_sample_mapping", range(len(block)))
        row_starts, row_ends = [], []
        for row, source in enumerate(sources):
            offsets = np.array(encoded["offset_mapping"][row], dtype=np.int64).reshape(-1, 2)
            sequence = encoded.sequence_ids(row)
            second = np.array([number == 1 for number in sequence], dtype=bool)
            inside = second & (offsets[:, 0] < lengths[source]) & (offsets[:, 1] > offsets[:, 0])
            row_starts.append(np.where(inside, offsets[:, 0], -1))
            row_ends.append(np.where(inside, np.minimum(offsets[:, 1], lengths[source]), -1))
            owners.append(done + source)
            cut.append(bool(encoded.encodings[row].overflowing))
        ids.append(Ragged.of(encoded["input_ids"]))
        starts.append(Ragged.of(row_starts))
        ends.append(Ragged.of(row_ends))
        done += len(block)
    found = Questions(ids=Ragged.join(ids), starts=Ragged.join(starts), ends=Ragged.join(ends))
    return found, np.array(owners, dtype=np.int64), np.array(cut, dtype=bool)


def _ids(tokenizer: Tokenizer, texts: Sequence[str], max_length: int, *, add_special_tokens: bool) -> Ragged:
    return Ragged.join(
        [
            Ragged.of(
                _encode(tokenizer, block, max_length, add_special_tokens=add_special_tokens)["input_ids"]
            )
            for block in _blocks(texts)
        ]
    )


def _encode(tokenizer: Tokenizer, texts: Sequence[str], max_length: int, **options: Any) -> Any:
    return tokenizer(
        list(texts), truncation=True, max_length=max_length, return_attention_mask=False, **options
    )


def _blocks(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Yield `items` in blocks, so that the tokenizer's Python lists never hold a whole dataset."""
    for start in progress(range(0, len(items), _BLOCK), "tokenising", unit=f"x{_BLOCK}"):
        yield items[start : start + _BLOCK]
