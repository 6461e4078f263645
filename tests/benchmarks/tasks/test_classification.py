"""Sequences and tokens: which data sets have which metrics, losses of labels and numbers, truncation, scarce memory."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from benchmarks.datasets.local_dataset import table
from benchmarks.finetuning.trainer import FineTuningError
from benchmarks.metrics.metric import evaluate
from benchmarks.protocol import Dataset, get_dataset
from benchmarks.tasks import classification
from benchmarks.tasks.classification import TokenClassification
from benchmarks.tasks.supervised import PaddedBatch, in_halves
from tests.benchmarks.tasks.oracle import CPU, TOKENIZER, Oracle, loaded, setting

COMMON = {"title": "", "task": "SC", "trained_on": "mine", "name": "mine"}
LABELS = Dataset(**COMMON, labels=3, form="SC-labels", headline="micro_f1")  # type: ignore[arg-type]
VALUE = Dataset(
    **COMMON, labels=1, form="SC-value", headline="pearson", value_range=(0.0, 5.0)
)  # type: ignore[arg-type]


class Fixed(nn.Module):
    """Gives each example of a split the outputs that it is made with, in the split's order."""

    def __init__(self, outputs: list[list[float]]) -> None:
        super().__init__()
        self.outputs = torch.tensor(outputs)

    def forward(
        self,
        ids: torch.Tensor,
        lengths: torch.Tensor,
        kinds: torch.Tensor | None = None,
    ) -> torch.Tensor:
        return self.outputs[torch.argsort(torch.argsort(-lengths, stable=True))]


def test_several_labels() -> None:
    rows = [
        {"id": str(n), "first": "dog " * (3 - n), "second": None, "labels": labels}
        for n, labels in enumerate(([0, 2], [], [1]))
    ]
    found, family = table("SC-labels", "test", rows), classification.LABELS
    examples = family.examples(LABELS, found, loaded())
    assert np.asarray(examples.labels).tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    logits = torch.randn(3, 3)
    expected = nn.BCEWithLogitsLoss()(logits, torch.tensor(np.asarray(examples.labels)))
    assert examples.loss(
        logits, torch.tensor(np.asarray(examples.labels))
    ).mean() == pytest.approx(float(expected))
    split = family.split(LABELS, found, ("x", "y", "z"), setting())
    scored = evaluate(
        LABELS, split(Fixed([[1, -1, -1], [-1, -1, -1], [-1, 1, 1]]), CPU)
    )  # type: ignore[arg-type]
    assert scored.scores == pytest.approx([2 / 3, 1.0, 2 / 3])
    assert scored.standard["micro_f1"] == pytest.approx(2 * 2 / (3 + 3))


def test_a_number() -> None:
    rows = [
        {"id": str(n), "first": "dog " * (3 - n), "second": "fox", "value": value}
        for n, value in enumerate((0.0, 5.0, 2.0))
    ]
    found, family = table("SC-value", "test", rows), classification.VALUES
    examples = family.examples(VALUE, found, loaded())
    outputs = torch.tensor([[1.0], [5.0], [2.5]])
    losses = examples.loss(outputs, torch.tensor(np.asarray(examples.labels)))
    assert losses.tolist() == [1.0, 0.0, 0.25]
    split = family.split(VALUE, found, (), setting())
    scored = evaluate(VALUE, split(Fixed(outputs.tolist()), CPU))  # type: ignore[arg-type]
    assert scored.scores == pytest.approx([0.8, 1.0, 0.9])
    assert scored.standard["pearson"] == pytest.approx(
        np.corrcoef([1, 5, 2.5], [0, 5, 2])[0, 1]
    )


UNER = get_dataset("uner_en")


def test_words_cut_off_vanish_in_the_paper_and_are_o_in_standard() -> None:
    names = ("O", "B-PER")
    rows = [{"id": "0", "words": ["dog", "fox", "dog", "Malmo"], "tags": [0, 1, 0, 1]}]
    oracle = Oracle("fox", "Malmo")
    split = TokenClassification().split(
        UNER, table("TC", "test", rows), names, setting()
    )
    whole = evaluate(UNER, split(oracle, CPU))
    assert whole.scores == [1.0] and whole.standard["entity_f1"] == 1.0
    tokens = len(TOKENIZER("dog fox dog", add_special_tokens=False)["input_ids"])
    split = TokenClassification().split(
        UNER, table("TC", "test", rows), names, setting(tokens)
    )
    cut = evaluate(UNER, split(oracle, CPU))
    assert cut.scores == [1.0]
    assert cut.instances == {
        "entities_right": [1],
        "entities_predicted": [1],
        "entities_gold": [2],
    }


@pytest.mark.parametrize("fitting", [1, 2, 7])
def test_a_batch_is_halved_until_it_fits(fitting: int) -> None:
    sizes = []

    def compute(ids: Tensor, lengths: Tensor, kinds: Tensor | None) -> Tensor:
        if len(ids) > fitting:
            raise torch.OutOfMemoryError
        sizes.append(len(ids))
        return ids.double().sum(1) * lengths

    ids, lengths = torch.arange(21, dtype=torch.int32).view(7, 3), torch.arange(1, 8)
    batch = PaddedBatch(rows=np.arange(7), ids=ids, lengths=lengths)
    found = in_halves(compute, batch)
    assert (
        found.dtype == torch.float32
        and found.tolist() == (ids.sum(1) * lengths).tolist()
    )
    assert sum(sizes) == 7 and max(sizes) <= fitting


def test_a_row_that_does_not_fit_fails_the_run() -> None:
    def compute(ids: Tensor, lengths: Tensor, kinds: Tensor | None) -> Tensor:
        raise torch.OutOfMemoryError

    with pytest.raises(
        FineTuningError, match="out of memory in evaluation even with one row"
    ):
        ids = torch.zeros(3, 2, dtype=torch.int32)
        in_halves(
            compute, PaddedBatch(rows=np.arange(3), ids=ids, lengths=torch.ones(3))
        )
