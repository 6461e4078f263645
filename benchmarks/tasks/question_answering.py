"""Question answering (QA) as in/out tagging: F1 of token positions, and SQuAD's scores of decoded spans."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.finetuning.device import Machine
from benchmarks.finetuning.encoders import Loaded
from benchmarks.finetuning.tokenization import Questions, encode_questions, encode_windows
from benchmarks.metrics import paper as paper_metrics
from benchmarks.metrics import standard as standard_metrics
from benchmarks.protocol import Tuning
from benchmarks.ragged import Ragged
from benchmarks.tasks.supervised import Evaluation, LabelledObjective, Measured, PaddedBatch, predict

__all__ = ["AnsweringSplit", "answering_objective", "answering_split", "best_span"]

_EVAL_BATCH = 4
"""Size of the paper's evaluation batches, whose padding is scored."""


def answering_objective(
    table: pa.Table, rows: NDArray[np.int64], loaded: Loaded, tuning: Tuning
) -> LabelledObjective:
    """Tokenise the training questions that the runs draw; tokens of the first gold answer are labelled 1.

    Args:
        table: the whole training split.
        rows: examples that are needed, ascending.
        loaded: tokenizer and limits.
        tuning: batch and micro-batch.
    """
    taken = table.take(rows)
    questions, _ = _encode(taken, loaded)
    labels = Ragged(_gold(questions, taken).values.astype(np.int64), questions.ids.offsets)
    return LabelledObjective(
        ids=questions.ids,
        labels=labels,
        size=table.num_rows,
        tuning=tuning,
        pad=loaded.tokenizer.pad_token_id,
        rows=rows,
    )


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
    end = int(np.argmax(sums[1:] - lowest)) + 1
    start = int(np.argmin(sums[:end]))
    return start, end, float(sums[end] - sums[start])


@dataclass(frozen=True, kw_only=True)
class AnsweringSplit:
    """A split to evaluate on, tokenised and batched once for all runs."""

    may_abstain: bool
    """Whether an empty answer is allowed (SQuAD 2.0)."""
    contexts: list[str]
    """Raw contexts."""
    answers: list[list[str]]
    """All gold answers of each question."""
    questions: Questions
    """What the paper's evaluation reads."""
    gold: Ragged
    """Positions of the first gold answer, padded as batches of four in the split's order would be."""
    batches: list[PaddedBatch]
    """The questions, batched."""
    windows: Questions
    """The further windows of contexts that were cut."""
    owners: NDArray[np.int64]
    """The question of each window."""
    window_batches: list[PaddedBatch]
    """The windows, batched."""

    def evaluate(self, model: Measured, machine: Machine) -> Evaluation:
        """Score a fine-tuned model."""
        margins = self._margins(model, self.batches, self.gold, machine)
        chosen = Ragged(margins.values > 0, margins.offsets)
        scores = [float(score) for score in paper_metrics.position_f1s(chosen, self.gold)]
        more = self._margins(model, self.window_batches, self.windows.ids, machine)
        predicted = self._decode(margins, more)
        pairs = [
            standard_metrics.squad_scores(text, gold)
            for text, gold in zip(predicted, self.answers, strict=True)
        ]
        exact, f1 = ([pair[side] for pair in pairs] for side in (0, 1))
        standard = {
            "exact_match": float(np.mean(exact)),
            "f1": float(np.mean(f1)),
            "instances": {"exact_match": exact, "f1": f1, "predicted": predicted},
        }
        return Evaluation(scores=scores, standard=standard)

    def _margins(
        self, model: Measured, batches: list[PaddedBatch], shape: Ragged, machine: Machine
    ) -> Ragged:
        """Return inside minus outside logits for every position of `shape`'s rows."""
        values = np.zeros(len(shape.values), dtype=np.float32)
        for rows, logits in predict(model, batches, machine):
            for row, margin in zip(rows, logits[:, :, 1] - logits[:, :, 0], strict=True):
                start, end = shape.offsets[row], shape.offsets[row + 1]
                values[start:end] = margin[: end - start]
        return Ragged(values, shape.offsets)

    def _decode(self, margins: Ragged, more: Ragged) -> list[str]:
        """Return each question's answer text: its best span over all windows, or empty."""
        texts, sums = [""] * len(self.contexts), np.full(len(self.contexts), -np.inf)
        for questions, found, owners in (
            (self.questions, margins, np.arange(len(self.contexts))),
            (self.windows, more, self.owners),
        ):
            for row, owner in enumerate(owners):
                starts = questions.starts[row]
                context = np.flatnonzero(starts >= 0)
                if not len(context):
                    continue
                first, last, total = best_span(found[row][context])
                if total > sums[owner]:
                    span = starts[context[first]], questions.ends[row][context[last - 1]]
                    texts[owner], sums[owner] = self.contexts[owner][span[0] : span[1]].strip(), total
        return ["" if self.may_abstain and sums[i] <= 0 else text for i, text in enumerate(texts)]


def answering_split(
    table: pa.Table, loaded: Loaded, machine: Machine, *, may_abstain: bool, pad: int | None = None
) -> AnsweringSplit:
    """Tokenise and batch a split.

    Args:
        table: the split.
        loaded: tokenizer and limits.
        machine: gives the device and the size of a batch.
        may_abstain: whether an empty answer is allowed.
        pad: id put after a row's end; the tokenizer's by default.
    """
    pad = loaded.tokenizer.pad_token_id if pad is None else pad
    questions, cut = _encode(table, loaded)
    lengths = questions.ids.lengths
    starts = np.arange(0, len(lengths), _EVAL_BATCH)
    widths = np.repeat(np.maximum.reduceat(lengths, starts), _EVAL_BATCH)[: len(lengths)]
    gold = _gold(questions, table)
    padded = np.zeros(int(widths.sum()), dtype=bool)
    offsets = np.concatenate([[0], np.cumsum(widths)])
    for row in range(len(gold)):
        padded[offsets[row] : offsets[row] + lengths[row]] = gold[row]
    long = np.flatnonzero(cut)
    windows, owner = encode_windows(
        loaded.tokenizer,
        table["question"].take(long).to_pylist(),
        table["context"].take(long).to_pylist(),
        loaded.limits[0],
    )
    return AnsweringSplit(
        may_abstain=may_abstain,
        contexts=table["context"].to_pylist(),
        answers=[[answer["text"] for answer in answers] for answers in table["answers"].to_pylist()],
        questions=questions,
        gold=Ragged(padded, offsets),
        batches=PaddedBatch.cut(questions.ids, machine, pad, block=_EVAL_BATCH),
        windows=windows,
        owners=long[owner],
        window_batches=PaddedBatch.cut(windows.ids, machine, pad) if len(windows.ids) else [],
    )


def _encode(table: pa.Table, loaded: Loaded) -> tuple[Questions, NDArray[np.bool_]]:
    return encode_questions(
        loaded.tokenizer, table["question"].to_pylist(), table["context"].to_pylist(), loaded.limits[0]
    )


def _gold(questions: Questions, table: pa.Table) -> Ragged:
    """Return which tokens overlap the first gold answer; none do where it is absent or was cut off."""
    rows = []
    for row, answers in enumerate(table["answers"].to_pylist()):
        start = answers[0]["start"] if answers else 0
        end = start + len(answers[0]["text"]) if answers else 0
        rows.append(questions.overlaps(row, start, end))
    return Ragged.of(rows, dtype=np.bool_)
