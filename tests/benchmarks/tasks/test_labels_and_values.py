"""Losses and predictions of several labels, and of a number: those of transformers' classes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from benchmarks.datasets.local_dataset import table
from benchmarks.metrics.metric import evaluate
from benchmarks.protocol import Dataset
from benchmarks.tasks.labels_and_values import MultiLabelClassification, Regression
from tests.benchmarks.tasks.oracle import CPU, loaded

COMMON = {"title": "", "task": "SC", "hub": "", "trained_on": "mine", "in_paper": False, "name": "mine"}
LABELS = Dataset(**COMMON, labels=3, form="SC-labels", headline="micro_f1")  # type: ignore[arg-type]
VALUE = Dataset(**COMMON, labels=1, form="SC-value", headline="pearson", value_range=(0.0, 5.0))  # type: ignore[arg-type]


class Fixed(nn.Module):
    """Gives each example of a split the outputs that it is made with, in the split's order."""

    def __init__(self, outputs: list[list[float]]) -> None:
        super().__init__()
        self.outputs = torch.tensor(outputs)

    def forward(
        self, ids: torch.Tensor, lengths: torch.Tensor, kinds: torch.Tensor | None = None
    ) -> torch.Tensor:
        return self.outputs[torch.argsort(torch.argsort(-lengths, stable=True))]


def test_several_labels() -> None:
    rows = [
        {"id": str(n), "first": "dog " * (3 - n), "second": None, "labels": labels}
        for n, labels in enumerate(([0, 2], [], [1]))
    ]
    found, family = table("SC-labels", "test", rows), MultiLabelClassification()
    examples = family.examples(LABELS, found, loaded())
    assert np.asarray(examples.labels).tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    logits = torch.randn(3, 3)
    expected = nn.BCEWithLogitsLoss()(logits, torch.tensor(np.asarray(examples.labels)))
    assert examples.loss(logits, torch.tensor(np.asarray(examples.labels))).mean() == pytest.approx(
        float(expected)
    )
    split = family.split(LABELS, found, ("x", "y", "z"), loaded(), CPU)
    scored = evaluate(LABELS, split.predict(Fixed([[1, -1, -1], [-1, -1, -1], [-1, 1, 1]]), CPU))  # type: ignore[arg-type]
    assert scored.scores == pytest.approx([2 / 3, 1.0, 2 / 3])
    assert scored.standard["micro_f1"] == pytest.approx(2 * 2 / (3 + 3))


def test_a_number() -> None:
    rows = [
        {"id": str(n), "first": "dog " * (3 - n), "second": "fox", "value": value}
        for n, value in enumerate((0.0, 5.0, 2.0))
    ]
    found, family = table("SC-value", "test", rows), Regression()
    examples = family.examples(VALUE, found, loaded())
    outputs = torch.tensor([[1.0], [5.0], [2.5]])
    losses = examples.loss(outputs, torch.tensor(np.asarray(examples.labels)))
    assert losses.tolist() == [1.0, 0.0, 0.25]
    split = family.split(VALUE, found, (), loaded(), CPU)
    scored = evaluate(VALUE, split.predict(Fixed(outputs.tolist()), CPU))  # type: ignore[arg-type]
    assert scored.scores == pytest.approx([0.8, 1.0, 0.9])
    assert scored.standard["pearson"] == pytest.approx(np.corrcoef([1, 5, 2.5], [0, 5, 2])[0, 1])
