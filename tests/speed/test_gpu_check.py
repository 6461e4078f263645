"""`make gpu-check` walks through all of its checks on a CPU, so that it works on the day a GPU is there."""

import pytest
import torch

from common.errors import UserError
from tests.speed import gpu_check


@pytest.mark.slow
# torch hides this warning itself while it compiles, which does not help where warnings are errors.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
def test_everything_runs_on_a_cpu_with_small_shapes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert gpu_check.check(device="cpu") == 0
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


def test_a_step_in_three_passes_has_the_gradient_of_one() -> None:
    lines = list(gpu_check.passes("cpu", 24))
    assert len(lines) == 2 and all(holds for holds, _ in lines)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_one_sentence_says_so() -> None:
    with pytest.raises(UserError, match="no GPU is at hand; --device cpu walks"):
        gpu_check.check()
