"""Devices and precisions by name."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from benchmarks.finetuning.device import CPU, GPU, choose_device, choose_kind
from benchmarks.finetuning.encoders import Encoder, load_model
from benchmarks.finetuning.trainer import make_optimiser
from benchmarks.protocol import FINE_TUNING
from common.errors import UserError
from pretraining.model import modeling
from tests.benchmarks.tiny import make_config


def test_casting_leaves_buffers_alone(model_folder: Callable[..., Path]) -> None:
    encoder = load_model(str(model_folder("llama"))).encoder
    choose_device("cpu", "bf16").place(encoder)
    assert {p.dtype for p in encoder.parameters()} == {torch.bfloat16}
    assert {b.dtype for b in encoder.buffers()} == {torch.float32}


def test_forward_pass_of_cpu_lengths_reads_no_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A tensor on `meta` has no values: reading one fails, where on a GPU it is waited for. Autocast knows no `meta`.
    monkeypatch.setattr(modeling, "activation_dtype", lambda hidden: hidden.dtype)
    base = modeling.EuroBertModel(make_config("ours", vocab=300)).to("meta")
    for lengths in ([5, 9, 9], [9, 9, 9]):
        ids = torch.zeros(3, 9, dtype=torch.int64, device="meta")
        hidden = Encoder(base)(ids, torch.tensor(lengths))
        assert hidden.shape == (3, 9, 32) and hidden.device.type == "meta"


def test_adamw_is_fused_as_torchs_and_rounds_as_the_papers() -> None:
    # An explicit `fused=False` would take them one by one: for the paper's model 1,800 launches a step more.
    for dtype, fused in ((torch.bfloat16, None), (torch.float32, True)):
        defaults = make_optimiser(
            torch.nn.Linear(2, 2, dtype=dtype), 0.1, FINE_TUNING
        ).defaults
        assert (defaults["fused"], defaults["foreach"]) == (fused, None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tpu",), "unknown device 'tpu'; use auto, cpu, cuda"),
        (("cpus",), "unknown device 'cpus'"),
        (("cpu:1",), "no device cpu:1"),
        (("cpu", "bf61"), "did you mean 'bf16'"),
        (("cuda:7",), "no device cuda:7"),
    ],
)
def test_machines_that_are_not_there(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(UserError, match=message):
        choose_device(*arguments)


def test_defaults_follow_the_kind_of_device() -> None:
    assert choose_kind("cuda:3") is GPU and choose_kind("cpu") is CPU
    device = choose_device("cpu", positions=100)
    assert (device.precision.name, device.train_positions, device.eval_positions) == (
        "fp32",
        100,
        2_048,
    )
    assert (device.kind.overhead, device.kind.graph_factor) == (384, 16)
    assert device.description["device"] == "cpu"
