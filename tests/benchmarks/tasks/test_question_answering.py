"""Question answering: padding, truncation, windows, abstention."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.datasets.local_dataset import table
from benchmarks.finetuning.device import RunDevice
from benchmarks.finetuning.tokenization import encode_questions
from benchmarks.metrics.metric import Evaluation, evaluate
from benchmarks.protocol import get_dataset
from benchmarks.tasks.question_answering import QuestionAnswering, best_span
from benchmarks.tasks.supervised import Predict
from tests.benchmarks.tasks.oracle import CONTEXT, CPU, TOKENIZER, Oracle, setting


def evaluated(split: Predict, model: Oracle, device: RunDevice) -> Evaluation:
    return evaluate(get_dataset("squad_v2"), split(model, device))


def questions(*rows: tuple[str, str | None]) -> object:
    return table(
        "QA",
        "test",
        [
            {
                "id": str(number),
                "question": "who?",
                "context": context,
                "answers": []
                if answer is None
                else [{"text": answer, "start": context.index(answer)}],
            }
            for number, (context, answer) in enumerate(rows)
        ],
    )


def test_the_right_tokens_score_one_in_both_protocols() -> None:
    split = QuestionAnswering().split(
        get_dataset("squad_v2"),
        questions((CONTEXT, "brown fox"), (CONTEXT, None)),
        (),
        setting(),
    )
    found = evaluated(split, Oracle("brown", "fox"), CPU)
    assert found.scores == [1.0, 0.0]
    assert found.instances["predicted"] == ["brown fox", "brown fox"]
    assert found.instances["f1"] == [1.0, 0.0]
    silent = evaluated(split, Oracle(), CPU)
    assert silent.scores == [0.0, 1.0]
    assert silent.instances["predicted"] == ["", ""]
    assert silent.standard["f1"] == 0.5


def test_without_unanswerable_questions_all_get_answers() -> None:
    split = QuestionAnswering().split(
        get_dataset("squad"), questions((CONTEXT, "brown fox")), (), setting()
    )
    assert evaluated(split, Oracle(), CPU).instances["predicted"] != [""]


def test_predictions_on_padding_count_as_in_batches_of_four() -> None:
    """The first four rows are padded to the longest of them, the fifth has a batch of its own."""
    short = "The quick brown fox"
    rows = [
        (short, "brown fox"),
        (CONTEXT, "brown fox"),
        (short, "fox"),
        (short, "fox"),
        (short, "brown fox"),
    ]
    split = QuestionAnswering().split(
        get_dataset("squad_v2"), questions(*rows), (), setting()
    )
    widths = split(Oracle(), CPU).gold.lengths  # type: ignore[arg-type, attr-defined]
    assert widths[0] == widths[1] == widths[2] == widths[3] > widths[4]
    padded = widths[0] - len(encode_questions(TOKENIZER, ["who?"], [short], 500).ids[0])
    for device in (
        CPU,
        replace(CPU, eval_positions=1),
        replace(CPU, eval_positions=10**6),
    ):
        split = QuestionAnswering().split(
            get_dataset("squad_v2"),
            questions(*rows),
            (),
            replace(setting(), device=device),
        )
        scores = evaluated(split, Oracle("brown", "fox", padding=3.0), device).scores
        assert scores[1] == scores[4] == 1.0
        assert scores[0] == pytest.approx(2 * 2 / (2 + 2 + padded))


def test_cut_off_answer_is_abstention_or_found_in_a_window() -> None:
    split = QuestionAnswering().split(
        get_dataset("squad_v2"),
        questions((CONTEXT, "Malmo"), ("a dog", "dog")),
        (),
        setting(34),
    )
    found = evaluated(split, Oracle("Malmo", "dog"), CPU)
    cut = encode_questions(TOKENIZER, ["who?"], [CONTEXT], 34)
    assert "Malmo" not in TOKENIZER.decode(cut.ids[0])
    assert found.instances["exact_match"][1] == 1.0
    alone = evaluated(split, Oracle("Malmo"), CPU)
    assert alone.scores[0] == 1.0
    assert alone.instances["predicted"][0] == "Malmo"


@given(st.lists(st.floats(-5, 5, width=32), min_size=1, max_size=12))
def test_the_best_span_has_the_largest_sum(margins: list[float]) -> None:
    values = np.array(margins, dtype=np.float32)
    start, end, total = best_span(values)
    assert 0 <= start < end <= len(values)
    sums = [
        float(values[i:j].astype(np.float64).sum())
        for i in range(len(values))
        for j in range(i + 1, len(values) + 1)
    ]
    assert total == pytest.approx(max(sums), abs=1e-9)
    assert float(values[start:end].astype(np.float64).sum()) == pytest.approx(
        total, abs=1e-9
    )
