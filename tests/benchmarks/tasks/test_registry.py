"""What the evaluators make of known outputs: padding, truncation, windows, abstention, voting."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from benchmarks.datasets.local_dataset import table
from benchmarks.finetuning.device import choose_device
from benchmarks.finetuning.encoders import Encoder, LoadedModel
from benchmarks.sweep.validate import activation_bytes
from benchmarks.tasks.question_answering import best_span, question_answering_split
from benchmarks.tasks.sequence_classification import sequence_classification_split
from benchmarks.tasks.token_classification import token_classification_split
from common.provenance import ROOT
from tests.benchmarks.tiny import END, make_config, make_tokenizer

CPU = choose_device("cpu", "fp32")
CONTEXT = "The quick brown fox jumps over the lazy dog while Anna sleeps in Malmo near the old red bridge"
TOKENIZER = make_tokenizer([CONTEXT] * 9, size=400)


def loaded(limit: int = 500) -> LoadedModel:
    encoder = Encoder(nn.Identity())
    return LoadedModel(encoder=encoder, tokenizer=TOKENIZER, limits=(limit, limit), source="fake", weights="")


class Oracle(nn.Module):
    """Gives class 1 a logit of 3 on the tokens named, and -3 on all others; padding as told."""

    def __init__(self, *words: str, padding: float = -3.0) -> None:
        super().__init__()
        self.chosen = torch.tensor(
            [TOKENIZER(" " + w, add_special_tokens=False)["input_ids"][0] for w in words]
        )
        self.padding = padding

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        margin = torch.where(torch.isin(ids, self.chosen), 3.0, -3.0)
        margin[torch.arange(ids.shape[1]) >= lengths[:, None]] = self.padding
        return torch.stack([torch.zeros_like(margin), margin], dim=-1)


def questions(*rows: tuple[str, str | None]) -> object:
    return table(
        "QA",
        "test",
        [
            {
                "id": str(number),
                "question": "who?",
                "context": context,
                "answers": [] if answer is None else [{"text": answer, "start": context.index(answer)}],
            }
            for number, (context, answer) in enumerate(rows)
        ],
    )


def test_the_right_tokens_score_one_in_both_protocols() -> None:
    split = question_answering_split(
        questions((CONTEXT, "brown fox"), (CONTEXT, None)), loaded(), CPU, may_abstain=True
    )
    found = split.evaluate(Oracle("brown", "fox"), CPU)
    assert found.scores == [1.0, 0.0]
    assert found.standard["instances"]["predicted"] == ["brown fox", "brown fox"]
    assert found.standard["instances"]["f1"] == [1.0, 0.0]
    silent = split.evaluate(Oracle(), CPU)
    assert silent.scores == [0.0, 1.0]
    assert silent.standard["instances"]["predicted"] == ["", ""]
    assert silent.standard["f1"] == 0.5


def test_a_dataset_without_unanswerable_questions_always_gets_an_answer() -> None:
    split = question_answering_split(questions((CONTEXT, "brown fox")), loaded(), CPU, may_abstain=False)
    assert split.evaluate(Oracle(), CPU).standard["instances"]["predicted"] != [""]


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
    split = question_answering_split(questions(*rows), loaded(), CPU, may_abstain=True)
    widths = split.gold.lengths
    assert widths[0] == widths[1] == widths[2] == widths[3] > widths[4]
    padded = widths[0] - len(split.questions.ids[0])
    for device in (CPU, replace(CPU, eval_positions=1), replace(CPU, eval_positions=10**6)):
        split = question_answering_split(questions(*rows), loaded(), device, may_abstain=True)
        scores = split.evaluate(Oracle("brown", "fox", padding=3.0), device).scores
        assert scores[1] == scores[4] == 1.0
        assert scores[0] == pytest.approx(2 * 2 / (2 + 2 + padded))


def test_an_answer_cut_off_is_abstention_in_the_paper_and_found_in_a_window_in_standard() -> None:
    split = question_answering_split(
        questions((CONTEXT, "Malmo"), ("a dog", "dog")), loaded(34), CPU, may_abstain=True
    )
    assert split.owners.tolist() and set(split.owners.tolist()) == {0}
    found = split.evaluate(Oracle("Malmo", "dog"), CPU)
    assert "Malmo" not in TOKENIZER.decode(split.questions.ids[0])
    assert found.standard["instances"]["exact_match"][1] == 1.0
    alone = split.evaluate(Oracle("Malmo"), CPU)
    assert alone.scores[0] == 1.0
    assert alone.standard["instances"]["predicted"][0] == "Malmo"


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
    assert float(values[start:end].astype(np.float64).sum()) == pytest.approx(total, abs=1e-9)


def test_words_cut_off_vanish_in_the_paper_and_are_o_in_standard() -> None:
    names = ("O", "B-PER")
    rows = [{"id": "0", "words": ["dog", "fox", "dog", "Malmo"], "tags": [0, 1, 0, 1]}]
    whole = token_classification_split(table("TC", "test", rows), names, loaded(), CPU).evaluate(
        Oracle("fox", "Malmo"), CPU
    )
    assert whole.scores == [1.0] and whole.standard["entity_f1"] == 1.0
    tokens = len(TOKENIZER("dog fox dog", add_special_tokens=False)["input_ids"])
    cut = token_classification_split(table("TC", "test", rows), names, loaded(tokens), CPU).evaluate(
        Oracle("fox", "Malmo"), CPU
    )
    assert cut.scores == [1.0]
    assert cut.standard["instances"] == {
        "entities_right": [1], "entities_predicted": [1], "entities_gold": [2],
    }  # fmt: skip


def test_qqp_has_f1_and_the_others_do_not() -> None:
    class Constant(nn.Module):
        def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
            return torch.tensor([[0.0, 1.0]]).expand(len(ids), 2)

    rows = [{"id": str(i), "first": "a", "second": "b", "label": int(i < 3)} for i in range(4)]
    found = sequence_classification_split("qqp", table("SC", "test", rows), loaded(), CPU).evaluate(
        Constant(), CPU
    )
    assert found.scores == [1, 1, 1, 0]
    assert found.standard["accuracy"] == 0.75
    assert found.standard["f1"] == pytest.approx(2 * 3 / 7)
    assert found.standard["instances"]["predicted"] == [1, 1, 1, 1]
    other = sequence_classification_split("mnli_m", table("SC", "test", rows), loaded(), CPU).evaluate(
        Constant(), CPU
    )
    assert "f1" not in other.standard


def test_activations_are_counted_per_position() -> None:
    from transformers import AutoModel

    import pretraining.model.modeling  # noqa: F401

    encoders = [
        Encoder(AutoModel.from_config(make_config("ours", vocab=300, layers=layers))) for layers in (1, 3)
    ]
    one, three = (activation_bytes(encoder, "fp32") for encoder in encoders)
    assert 32 * 4 * 6 < one < three < 3 * one
    assert activation_bytes(encoders[0], "fp32", length=128) == pytest.approx(one, rel=0.1)


def test_the_state_of_a_store_is_read_without_torch() -> None:
    code = "import sys, benchmarks.sweep.status; sys.exit(any(m in sys.modules for m in ('torch', 'transformers')))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_the_end_of_text_never_belongs_to_a_word() -> None:
    split = token_classification_split(
        table("TC", "test", [{"id": "0", "words": ["dog"], "tags": [0]}]), ("O",), loaded(), CPU
    )
    assert split.words.tolist() == [0] * (len(split.words) - 1) + [-1]
    assert TOKENIZER.convert_ids_to_tokens(int(split.batches[0].ids[0, -1])) == END
