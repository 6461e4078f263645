"""`make gpu-check` walks through all of its checks on a CPU, so that it works on the day a GPU is there."""

from __future__ import annotations

import pytest
import torch

from common.errors import UserError
from pretraining.model.configuration import config_for
from tests.performance import gpu_check, roofline
from tests.performance.on_device import Load, products
from tests.performance.roofline import Part


# torch hides this warning itself while it compiles, which does not help where warnings are errors.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
def test_everything_runs_on_a_cpu_with_small_shapes(capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu_check.check(device="cpu", table=False) == 0
    said = capsys.readouterr().out
    assert "FAILED" not in said and "\n0 failed, " in said
    for words in (
        "mlm sdpa    float32",
        "clm sdpa    bfloat16",
        "three passes",
        "clm-10-mlm40-20",
        "graphs",
        "bf16 lr 0.001 seed 0",
    ):
        assert words in said


def test_what_does_not_hold_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_check, "WITHIN", {torch.float32: 0.0})
    lines = list(gpu_check.backends("cpu", 24))
    assert lines and not all(holds for holds, _ in lines[:1])


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_one_sentence_says_so() -> None:
    with pytest.raises(UserError, match="no GPU is at hand; --device cpu walks"):
        gpu_check.check()


@pytest.mark.parametrize("size", ["210m", "610m", "1b", "tiny"])
def test_the_bare_loop_does_the_products_that_mfu_counts(size: str) -> None:
    config = config_for(size)
    load = Load(tokens=1000.0, context=300.0, predicted=400.0)
    done = sum(6.0 * rows * inner * outer * times for _, rows, inner, outer, times in products(config, load))
    attended = 12 * config.num_hidden_layers * config.hidden_size * load.context * load.tokens
    # MFU counts the norms' weights as if they were products.
    assert done + attended == pytest.approx(load.flops(config) * load.tokens, rel=1e-3)


def test_a_roofline_names_the_least_time_of_a_known_device(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roofline, "name_of", lambda device: "NVIDIA H200")
    parts = [
        Part(name="head", flops=989.4e9, bytes=1.0, seconds=0.002),
        Part(name="norms", flops=0.0, bytes=4.8e9, seconds=0.002),
        Part(name="a step", flops=989.4e9, bytes=4.8e9, seconds=0.004),
    ]
    roofline.print_roofline("cuda", parts)
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert [row[-3:] for row in rows] == [
        ["1.00", "2.00", "50%"],
        ["1.00", "2.00", "50%"],
        ["1.00", "4.00", "100%"],
    ]
