"""Every run starts from the model as it was loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from benchmarks.finetuning.device import choose_device
from benchmarks.finetuning.encoders import load
from benchmarks.finetuning.heads import MEAN, SequenceHead, TokenHead
from benchmarks.protocol import Dataset, get_dataset
from benchmarks.sweep.work import ResettableModel
from common.errors import UserError


def test_weights_come_back_and_the_head_follows_the_seed(model_folder: Callable[..., Path]) -> None:
    resettable = ResettableModel(
        loaded=load(str(model_folder("ours"))), device=choose_device("cpu"), pooling=MEAN
    )
    first = resettable.reset(get_dataset("sst2"), 0)
    before = {name: value.clone() for name, value in first.state_dict().items()}
    with torch.no_grad():
        for parameter in first.parameters():
            parameter.add_(1.0)
            parameter.grad = torch.ones_like(parameter)
    again = resettable.reset(get_dataset("sst2"), 0)
    assert all(torch.equal(value, before[name]) for name, value in again.state_dict().items())
    assert all(parameter.grad is None for parameter in again.parameters())
    assert isinstance(again.head, SequenceHead)
    other = resettable.reset(get_dataset("sst2"), 1)
    assert isinstance(other.head, SequenceHead)
    assert not torch.equal(other.head.out.weight, again.head.out.weight)
    assert isinstance(resettable.reset(get_dataset("squad"), 0).head, TokenHead)
    assert resettable.reset(get_dataset("nq"), 0).head is None
    nameless = Dataset(name="x", title="X", task="SC", hub="", labels=None, trained_on="x")
    with pytest.raises(UserError, match="x has no number of labels"):
        resettable.reset(nameless, 0)
