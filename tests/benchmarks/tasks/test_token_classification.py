"""Token classification: truncation and voting."""

from __future__ import annotations

from benchmarks.datasets.local_dataset import table
from benchmarks.metrics.metric import evaluate
from benchmarks.protocol import get_dataset
from benchmarks.tasks.token_classification import TokenClassification
from tests.benchmarks.tasks.oracle import CPU, TOKENIZER, Oracle, loaded
from tests.benchmarks.tiny import END

UNER = get_dataset("uner_en")


def test_words_cut_off_vanish_in_the_paper_and_are_o_in_standard() -> None:
    names = ("O", "B-PER")
    rows = [{"id": "0", "words": ["dog", "fox", "dog", "Malmo"], "tags": [0, 1, 0, 1]}]
    oracle = Oracle("fox", "Malmo")
    split = TokenClassification().split(UNER, table("TC", "test", rows), names, loaded(), CPU)
    whole = evaluate(UNER, split.predict(oracle, CPU))
    assert whole.scores == [1.0] and whole.standard["entity_f1"] == 1.0
    tokens = len(TOKENIZER("dog fox dog", add_special_tokens=False)["input_ids"])
    split = TokenClassification().split(UNER, table("TC", "test", rows), names, loaded(tokens), CPU)
    cut = evaluate(UNER, split.predict(oracle, CPU))
    assert cut.scores == [1.0]
    assert cut.instances == {
        "entities_right": [1], "entities_predicted": [1], "entities_gold": [2],
    }  # fmt: skip


def test_the_end_of_text_never_belongs_to_a_word() -> None:
    split = TokenClassification().split(
        UNER, table("TC", "test", [{"id": "0", "words": ["dog"], "tags": [0]}]), ("O",), loaded(), CPU
    )
    assert split.words.tolist() == [0] * (len(split.words) - 1) + [-1]
    assert TOKENIZER.convert_ids_to_tokens(int(split.batches[0].ids[0, -1])) == END
