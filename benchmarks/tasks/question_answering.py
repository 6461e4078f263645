"""Question answering (QA) as in/out tagging: positions inside the answer, and the spans that they decode to."""

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
"""Size of the paper's evaluation batches, whose padding is scored."""
_STRIDE = 128
"""Tokens that consecutive windows of a long context share (the `standard` protocol)."""
_LONGEST = 64
"""Questions of a split, the longest in characters, among which the longest in tokens is looked for."""


class QuestionAnswering(SupervisedFamily):
    """The part of a context that answers a question."""

    name = "QA"

    def code(self, pooling: Pooling, *, has_head_file: bool) -> str:
        """Return how a kept encoder answers a question, in Python."""
        return code_of_tokens() if has_head_file else snippet("answer")

    def reads(self, dataset: Dataset, longest: int) -> str:
        """Return which tokens the answer is."""
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
        """Tokenise and batch a split, and the further windows of contexts that were cut."""
        loaded = setting.loaded
        questions = encode_table(table, loaded)
        lengths = questions.ids.lengths
        starts = np.arange(0, len(lengths), _EVAL_BATCH)
        widest = np.maximum.reduceat(lengths, starts)
        widths = np.repeat(widest, _EVAL_BATCH)[: len(lengths)]
        offsets = np.concatenate([[0], np.cumsum(widths)])
        # D2: padding counts, so the positions of the first gold answer are padded as the paper's code pads them, in
        # batches of four in the split's order.
        is_gold = np.zeros(int(widths.sum()), dtype=bool)
        for row, length in enumerate(lengths):
            start = offsets[row]
            is_gold[start : start + length] = questions.gold[row]
        gold_positions = Ragged(is_gold, offsets)
        cut_rows = np.flatnonzero(questions.cut)
        windows = encode_questions(
            loaded.tokenizer,
            table["question"].take(cut_rows).to_pylist(),
            table["context"].take(cut_rows).to_pylist(),
            loaded.limits.labelled,
            stride=_STRIDE,
        )
        contexts = table["context"].to_pylist()
        answers = []
        for row in table["answers"].to_pylist():
            answers.append([answer["text"] for answer in row])
        to_batches = partial(PaddedBatch.cut, device=setting.device, pad=setting.pad)
        batches = to_batches(questions.ids, block=_EVAL_BATCH, kinds=questions.kinds)
        window_batches = to_batches(windows.ids, kinds=windows.kinds)

        def predict_split(model: TaskModel, device: RunDevice) -> AnswerPredictions:
            margins = _margins(model, batches, device, shape=gold_positions)
            window_margins = _margins(model, window_batches, device, shape=windows.ids)
            rows = np.arange(len(contexts))
            window_rows = cut_rows[windows.owners]
            parts = (
                (questions, margins, rows),
                (windows, window_margins, window_rows),
            )
            texts = _decode(contexts, parts, may_abstain=dataset.may_abstain)
            # D2: the paper's F1 compares positions of the cut context; only texts are read from further windows too.
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
            UserError: one does not.
        """
        for table in dataset.tables.values():
            lengths = np.array(pc.utf8_length(table["question"]))
            descending = np.argsort(-lengths, kind="stable")
            longest = table.take(np.sort(descending[:_LONGEST]))
            # Encoding raises where a question leaves no room.
            encode_table(longest, loaded)


def best_span(margins: NDArray[np.float32]) -> tuple[int, int, float]:
    """Return the most likely answer span of a run of context tokens.

    Tokens are judged independently, so the likelihood of "inside from `start` to `end`, outside elsewhere" is
    largest where the sum of the logit differences is (Kadane's algorithm).

    Args:
        margins: logit of inside minus logit of outside for each context token, shape (tokens,), not empty.

    Returns:
        First token, token after the last, and the sum; a sum that is not positive means that no span is
        likelier than none.
    """
    sums = np.concatenate([[0.0], np.cumsum(margins.astype(np.float64))])
    lowest = np.minimum.accumulate(sums[:-1])
    gains = sums[1:] - lowest
    end = int(np.argmax(gains)) + 1
    start = int(np.argmin(sums[:end]))
    return start, end, float(sums[end] - sums[start])


def _margins(
    model: TaskModel, batches: list[PaddedBatch], device: RunDevice, *, shape: Ragged
) -> Ragged:
    """Return inside minus outside logits for every position of the rows of `shape`, whose values are not read."""
    values = np.zeros(len(shape.values), dtype=np.float32)
    for rows, logits in predict(model, batches, device):
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
    """Return each question's answer text: its best span over all windows, or empty where that is allowed.

    Args:
        contexts: the context of each question.
        parts: windows, their margins, and the question of each.
        may_abstain: whether an empty answer is allowed (SQuAD 2.0).
    """
    texts = [""] * len(contexts)
    sums = np.full(len(contexts), -np.inf)
    for questions, margins, owners in parts:
        for row, owner in enumerate(owners):
            starts = questions.starts[row]
            ends = questions.ends[row]
            context = np.flatnonzero(starts >= 0)
            if not len(context):
                continue
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
    """Return where the first gold answer is, the only one that the paper's code trains on and scores."""
    if not answers:
        return None
    start = answers[0]["start"]
    return start, start + len(answers[0]["text"])
