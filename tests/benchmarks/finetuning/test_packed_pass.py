"""Leaving padding out of a pass changes nothing but the order in which gradients are summed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.datasets.local_dataset import load as load_data
from benchmarks.finetuning.device import choose_device
from benchmarks.finetuning.encoders import load
from benchmarks.finetuning.heads import MEAN
from benchmarks.protocol import FINE_TUNING
from benchmarks.ragged import packed_cost
from benchmarks.sweep.work import ResettableModel
from benchmarks.tasks.families import objective_of

LENGTHS = {"unequal": [9, 2, 5, 1], "equal": [6, 6, 6], "one": [4]}


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_hidden_states_are_those_of_the_padded_pass_to_the_bit(
    lengths: list[int], model_folder: Callable[..., Path]
) -> None:
    encoder = load(str(model_folder("ours"))).encoder
    tokens, real = torch.tensor(lengths), torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    ids = torch.randint(3, 300, real.shape, generator=torch.Generator().manual_seed(0))
    found, gradients = [], []
    for encoder.packs in (False, True):
        encoder.train().zero_grad()
        hidden = encoder(ids, tokens)
        (hidden * real[..., None]).square().sum().backward()
        found.append(hidden.detach())
        gradients.append({name: parameter.grad.clone() for name, parameter in encoder.named_parameters()})
    assert torch.equal(found[0][real], found[1][real]) and not found[1][~real].any()
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, rtol=1e-4, atol=1e-6, msg=name)
    assert torch.equal(encoder.eval()(ids, tokens), found[0])  # evaluation scores what padding predicts, too


@pytest.mark.parametrize("name", ["sst2", "uner_en", "squad_v2", "msmarco"])
def test_a_steps_loss_and_gradient_are_those_of_padded_passes(
    name: str, data: Path, model_folder: Callable[..., Path]
) -> None:
    dataset = load_data(data, name)
    resettable = ResettableModel(
        loaded=load(str(model_folder("ours"))), device=choose_device("cpu", "fp32"), pooling=MEAN
    )
    objective = objective_of(dataset, resettable.loaded, FINE_TUNING, seeds=[0], pooling=MEAN)
    groups = next(objective.order(0))
    found = []
    assert resettable.loaded.encoder.packs
    for packs in (False, True):
        model = resettable.reset(dataset.dataset, 0).train()
        model.encoder.packs = packs
        loss = objective.backward(model, groups, resettable.device)
        found.append(
            (loss.item(), {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None})
        )
    (padded, ones), (packed, others) = found
    assert packed == pytest.approx(padded, rel=1e-6) and ones.keys() == others.keys()
    for key, gradient in ones.items():
        torch.testing.assert_close(others[key], gradient, rtol=1e-3, atol=2e-6, msg=key)


def test_padding_is_left_out_where_that_pays() -> None:
    device = choose_device("cpu", "fp32")
    short, alike = np.array([30, *[4] * 31]), np.array([70] * 32)
    assert [len(part) for part in device.passes(short, packed=True)] == [32]
    assert len(device.passes(alike, packed=True)) == len(device.passes(alike, packed=False)) == 2
    assert packed_cost(150, 960) < 960 and packed_cost(2_240, 2_240) > 2_240


@pytest.mark.parametrize("kind", ["bert", "llama"])
def test_other_classes_and_exact_micro_batches_are_padded(
    kind: str, model_folder: Callable[..., Path]
) -> None:
    for model, exact in ((kind, False), ("ours", True)):
        device = choose_device("cpu", "fp32", exact=exact)
        made = ResettableModel(loaded=load(str(model_folder(model))), device=device, pooling=MEAN)
        assert not made.loaded.encoder.packs
    lengths = np.array([5, 300, 7])
    assert [list(part) for part in device.passes(lengths, packed=False)] == [
        list(part) for part in choose_device("cpu", "fp32").passes(lengths, packed=False)
    ]
