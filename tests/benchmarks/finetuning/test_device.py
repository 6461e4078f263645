"""Devices and precisions by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from benchmarks.finetuning.device import DEVICES, choose_device, choose_kind
from benchmarks.finetuning.encoders import load
from common.errors import UserError


def test_casting_leaves_buffers_alone(model_folder: Callable[..., Path]) -> None:
    encoder = load(str(model_folder("llama"))).encoder
    choose_device("cpu", "bf16").place(encoder)
    assert {p.dtype for p in encoder.parameters()} == {torch.bfloat16}
    assert {b.dtype for b in encoder.buffers()} == {torch.float32}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tpu",), "unknown device"),
        (("cpu", "bf61"), "did you mean 'bf16'"),
        (("cuda:7",), "no device cuda:7"),
    ],
)
def test_machines_that_are_not_there(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(UserError, match=message):
        choose_device(*arguments)


def test_defaults_follow_the_kind_of_device() -> None:
    assert choose_kind("cuda:3") is DEVICES["cuda"] and choose_kind("cpu") is DEVICES["cpu"]
    device = choose_device("cpu", positions=100)
    assert (device.precision.name, device.train_positions, device.eval_positions) == ("fp32", 100, 2_048)
    assert (device.kind.overhead, device.graph_positions) == (384, 1_600)
    assert DEVICES["cuda"].eval_positions(100) == 400
    assert device.description["device"] == "cpu"
    with pytest.raises(UserError, match="unknown device 'cpus'; did you mean 'cpu'"):
        choose_kind("cpus")
