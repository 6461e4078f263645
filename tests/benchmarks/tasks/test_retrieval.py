"""Retrieval: the contrastive loss, its cached gradient, and rankings."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from benchmarks.datasets.local_dataset import load as load_data
from benchmarks.finetuning.device import PRECISIONS, Device, choose_device
from benchmarks.finetuning.encoders import load
from benchmarks.finetuning.heads import MEAN
from benchmarks.protocol import FINE_TUNING
from benchmarks.sweep.model_reset import ResettableModel
from benchmarks.tasks.families import objective_of
from benchmarks.tasks.retrieval import ContrastiveObjective, info_nce

CPU = choose_device("cpu", "fp32")


def gradients(model: nn.Module) -> dict[str, Tensor]:
    found = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad(set_to_none=True)
    return found


@pytest.mark.parametrize("kind", ["ours", "bert"])
def test_the_cached_gradient_of_the_contrastive_loss_is_the_plain_one(
    kind: str, data: Path, model_folder: Callable[..., Path]
) -> None:
    """With dropout (BERT) too: the second pass draws the masks of the first."""
    resettable = ResettableModel(loaded=load(str(model_folder(kind))), device=CPU, pooling=MEAN)
    dataset = load_data(data, "msmarco")
    objective = objective_of(dataset, resettable.loaded, FINE_TUNING, seeds=[0], pooling=MEAN)
    assert isinstance(objective, ContrastiveObjective)
    step = next(objective.order(0))
    model = resettable.reset(dataset.dataset, 0).train()

    class Direct(Device):
        @property
        def graph_positions(self) -> int:
            return 10**9

    class Cached(Device):
        @property
        def graph_positions(self) -> int:
            return 0

    results = []
    for kind_of_device in (Direct, Cached):
        device = kind_of_device(
            torch_device=CPU.torch_device,
            precision=PRECISIONS["fp32"],
            train_positions=400,
            eval_positions=400,
        )
        torch.manual_seed(5)
        results.append((objective.backward(model, step, device), gradients(model)))
    (loss, direct), (cached_loss, cached) = results
    torch.testing.assert_close(loss, cached_loss)
    for name, gradient in direct.items():
        torch.testing.assert_close(cached[name], gradient, rtol=1e-4, atol=1e-7, msg=name)


def test_the_loss_is_small_where_each_query_is_nearest_to_its_document() -> None:
    vectors = torch.eye(4)
    assert info_nce(vectors, 3 * vectors, 0.05) < 1e-6 < info_nce(vectors, vectors.flip(0), 0.05)
    assert info_nce(vectors, torch.ones(4, 4), 1.0).item() == pytest.approx(math.log(4))
