"""Question answering (QA) as in/out tagging: which tokens are inside the answer, and the text that they decode to.

A position is a place in a padded row of tokens. A margin is the logit of "inside" minus the logit of "outside" of a
position: above 0, inside is likelier. A window is a row with a further part of a context that is too long for one row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from benchmarks.datasets.local_dataset import LocalDataset
from benchmarks.finetuning.device import RunDevice
from benchmarks.finetuning.encoders import LoadedModel
from benchmarks.finetuning.heads import Pooling
from benchmarks.finetuning.tokenization import Questions, Span, encode_questions
from benchmarks.metrics.metric import AnswerPredictions
from benchmarks.protocol import Dataset
from benchmarks.ragged import Ragged
from benchmarks.tasks.base import Setting, TaskModel
from benchmarks.tasks.snippets import code_of_tokens, snippet
from benchmarks.tasks.supervised import (
    Examples,
    PaddedBatch,
    Predict,
    SupervisedFamily,
    predict,
)

_EVAL_BATCH = 4
"""Questions in an evaluation batch of the paper's code, which scores the padding of a batch as well."""
_STRIDE = 128
"""Tokens that consecutive windows of a long context share (the `standard` protocol)."""
_LONGEST = 64
"""How many questions of a table, the longest in characters, are tokenised to find one that is too long in tokens."""


class QuestionAnswering(SupervisedFamily):
    """The part of a context that answers a question."""

    name = "QA"

    def code(self, pooling: Pooling, *, has_head_file: bool) -> str:
        """Return Python code with which a kept encoder answers a question."""
        return code_of_tokens() if has_head_file else snippet("answer")

    def reads(self, dataset: Dataset, longest: int) -> str:
        """Return a sentence that says which tokens are the answer."""
        return "The answer is the run of tokens whose logits of `inside` exceed those of `outside` most in sum."

    def examples(
        self, dataset: Dataset, table: pa.Table, loaded: LoadedModel
    ) -> Examples:
        """Return token ids, and 1 for the tokens of the first gold answer, 0 for all others."""
        questions = encode_table(table, loaded)
        labels = Ragged(questions.gold.values.astype(np.int64), questions.gold.offsets)
        return Examples(ids=questions.ids, labels=labels, kinds=questions.kinds)

    def split(
        self,
        dataset: Dataset,
        table: pa.Table,
        labels: tuple[str, ...],
        setting: Setting,
    ) -> Predict:
        """Tokenise and batch a split, and the windows of contexts that were cut; return a function that predicts it."""
        # A row for each question, with as much of its context as fits.
        loaded = setting.loaded
        questions = encode_table(table, loaded)
        gold_positions = _gold_positions(questions)

        # Questions whose contexts were cut are tokenised again, now with all windows of their contexts. They
        # get no gold answers: positions are compared in the rows of `questions` only.
        cut_rows = np.flatnonzero(questions.cut)
        windows = encode_questions(
            loaded.tokenizer,
            table["question"].take(cut_rows).to_pylist(),
            table["context"].take(cut_rows).to_pylist(),
            loaded.limits.labelled,
            stride=_STRIDE,
        )

        # What the standard metrics compare, as texts.
        contexts = table["context"].to_pylist()
        answers = []
        for row in table["answers"].to_pylist():
            answers.append([answer["text"] for answer in row])

        # Questions that share a batch in the paper's code stay together (`block`): then their batch here is
        # at least as wide as their rows of `gold_positions`. The padding of windows is not scored.
        to_batches = partial(PaddedBatch.cut, device=setting.device, pad=setting.pad)
        batches = to_batches(questions.ids, block=_EVAL_BATCH, kinds=questions.kinds)
        window_batches = to_batches(windows.ids, kinds=windows.kinds)

        # The device is that of `setting`, on which the batches are.
        def predict_split(model: TaskModel, device: RunDevice) -> AnswerPredictions:
            margins = _margins(model, batches, device, shape=gold_positions)
            window_margins = _margins(model, window_batches, device, shape=windows.ids)
            # The number of each row's question in the split. `questions` has a row for each question, in order. The
            # `owners` of windows are numbers among the questions that were cut.
            question_of_row = np.arange(len(contexts))
            question_of_window = cut_rows[windows.owners]
            parts = (
                (questions, margins, question_of_row),
                (windows, window_margins, question_of_window),
            )
            texts = _decode(contexts, parts, may_abstain=dataset.may_abstain)

            # D2: the paper's F1 compares positions of the cut context. Further windows serve only the texts, which the
            # standard metrics compare.
            return AnswerPredictions(
                chosen=Ragged(margins.values > 0, margins.offsets),
                gold=gold_positions,
                texts=texts,
                answers=answers,
            )

        return predict_split

    def check(self, dataset: LocalDataset, loaded: LoadedModel) -> None:
        """Check that the longest questions leave room for their contexts.

        Raises:
            UserError: a question leaves no room.
        """
        for table in dataset.tables.values():
            # The question with the most tokens is one of those with the most characters. To tokenise all takes longer.
            lengths = np.array(pc.utf8_length(table["question"]))
            descending = np.argsort(-lengths, kind="stable")
            # The `_LONGEST` questions with the most characters, in the order of the table.
            longest = table.take(np.sort(descending[:_LONGEST]))
            # Encoding raises where a question leaves no room.
            encode_table(longest, loaded)


def _gold_positions(questions: Questions) -> Ragged:
    """Return whether each position is in the first gold answer; a row is a question with its padding."""
    lengths = questions.ids.lengths
    # D2: padding counts, so the positions of the first gold answer are padded as the paper's code pads them:
    # in batches of four in the split's order, to the longest of the batch.
    starts = np.arange(0, len(lengths), _EVAL_BATCH)
    longest_of_batch = np.maximum.reduceat(lengths, starts)

    # The last batch may have fewer rows.
    widths = np.repeat(longest_of_batch, _EVAL_BATCH)[: len(lengths)]
    offsets = np.concatenate([[0], np.cumsum(widths)])
    is_gold = np.zeros(int(widths.sum()), dtype=bool)

    # Behind a row's own tokens, in its padding, nothing is in an answer.
    for row, length in enumerate(lengths):
        start = offsets[row]
        is_gold[start : start + length] = questions.gold[row]

    return Ragged(is_gold, offsets)


def best_span(margins: NDArray[np.float32]) -> tuple[int, int, float]:
    """Return the most likely answer span of a run of context tokens.

    Tokens are judged independently, so the most likely of all statements "inside from `start` to `end`, outside
    elsewhere" is the one whose span has the largest sum of margins (Kadane's algorithm).

    Args:
        margins: logit of inside minus logit of outside for each context token, shape (tokens,), not empty.

    Returns:
        The span's first token, the token after its last, and the sum of its margins. A sum that is not positive means
        that no answer is at least as likely as any span.
    """
    # `sums[i]` is the sum of the first i margins, so the sum of a span is `sums[end] - sums[start]`.
    sums = np.concatenate([[0.0], np.cumsum(margins.astype(np.float64))])
    # For each end, the best start is where the sum is lowest before it.
    lowest = np.minimum.accumulate(sums[:-1])
    best_of_end = sums[1:] - lowest
    # The first end is 1, behind the first token: a span is never empty.
    end = int(np.argmax(best_of_end)) + 1
    start = int(np.argmin(sums[:end]))
    return start, end, float(sums[end] - sums[start])


def _margins(
    model: TaskModel, batches: list[PaddedBatch], device: RunDevice, *, shape: Ragged
) -> Ragged:
    """Return the margin of every position, in rows of the same lengths as those of `shape`, whose values are not read.

    Rows of `shape` may be shorter than those of the batches, which are padded further.
    """
    values = np.zeros(len(shape.values), dtype=np.float32)
    for rows, logits in predict(model, batches, device):
        # The head's output 1 is inside, 0 is outside.
        margins = logits[:, :, 1] - logits[:, :, 0]
        for row, margin in zip(rows, margins, strict=True):
            start, end = shape.offsets[row], shape.offsets[row + 1]
            values[start:end] = margin[: end - start]
    return Ragged(values, shape.offsets)


def _decode(
    contexts: Sequence[str],
    parts: Iterable[tuple[Questions, Ragged, NDArray[np.int64]]],
    *,
    may_abstain: bool,
) -> list[str]:
    """Return each question's answer as a text: the best span in any of the question's rows and windows.

    If abstaining is allowed and no span is likelier than no answer, the text is empty.

    Args:
        contexts: the context of each question.
        parts: tokenised rows or windows, their margins, and the number of the question of each.
        may_abstain: whether an empty answer is allowed (SQuAD 2.0).
    """
    texts = [""] * len(contexts)
    # For each question the largest sum of margins of a span so far.
    sums = np.full(len(contexts), -np.inf)
    for questions, margins, owners in parts:
        for row, owner in enumerate(owners):
            starts = questions.starts[row]
            ends = questions.ends[row]
            # The positions of the context's tokens: all others have -1 as their offset.
            context = np.flatnonzero(starts >= 0)
            if not len(context):
                continue

            # `best_span` counts tokens of the context; `starts` and `ends` make them offsets in its text.
            first, after, total = best_span(margins[row][context])
            if total > sums[owner]:
                start = starts[context[first]]
                end = ends[context[after - 1]]
                texts[owner] = contexts[owner][start:end].strip()
                sums[owner] = total

    if may_abstain:
        for number in np.flatnonzero(sums <= 0):
            texts[number] = ""

    return texts


def encode_table(table: pa.Table, loaded: LoadedModel) -> Questions:
    """Return a table's questions, tokenised with their contexts and first gold answers."""
    answers_of_questions = table["answers"].to_pylist()
    return encode_questions(
        loaded.tokenizer,
        table["question"].to_pylist(),
        table["context"].to_pylist(),
        loaded.limits.labelled,
        [_first_answer(answers) for answers in answers_of_questions],
    )


def _first_answer(answers: Sequence[Mapping[str, Any]]) -> Span | None:
    """Return the span of the first gold answer, the only one that the paper's code uses; None if there is no answer."""
    if not answers:
        return None
    start = answers[0]["start"]
    return start, start + len(answers[0]["text"])
