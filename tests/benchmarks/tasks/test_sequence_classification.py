"""Sequence classification: which datasets have which metrics."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from benchmarks.datasets.local_dataset import table
from benchmarks.metrics.metric import Evaluation, evaluate
from benchmarks.protocol import get_dataset
from benchmarks.tasks.sequence_classification import SequenceClassification
from tests.benchmarks.tasks.oracle import CPU, loaded


def evaluated(name: str, model: Any, rows: list[dict[str, Any]]) -> Evaluation:
    dataset = get_dataset(name)
    split = SequenceClassification().split(dataset, table("SC", "test", rows), (), loaded(), CPU)
    return evaluate(dataset, split.predict(model, CPU))


def test_qqp_has_f1_and_the_others_do_not() -> None:
    class Constant(nn.Module):
        def forward(self, ids: Tensor, lengths: Tensor, kinds: Tensor | None = None) -> Tensor:
            return torch.tensor([[0.0, 1.0]]).expand(len(ids), 2)

    rows = [{"id": str(i), "first": "a", "second": "b", "label": int(i < 3)} for i in range(4)]
    found = evaluated("qqp", Constant(), rows)
    assert found.scores == [1, 1, 1, 0]
    assert found.standard["accuracy"] == 0.75
    assert found.standard["f1"] == pytest.approx(2 * 3 / 7)
    assert found.instances["predicted"] == [1, 1, 1, 1]
    other = evaluated("mnli_m", Constant(), rows)
    assert "f1" not in other.standard
